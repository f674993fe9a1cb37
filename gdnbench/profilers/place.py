"""Where a profiler's files go: `profiles/<profiler>/<kernel>/<run>.<suffix>`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gdnbench.errors import MachineError, ReportFormatError
from gdnbench.model import Case, Shape

_STEM = re.compile(r"(?P<time>\d{8}-\d{6})-(?P<gpu>[a-z0-9]+)-(?P<shape>B\d.*)")


def stem_of(case: Case, gpu: str, now: datetime | None = None) -> str:
    """The name that the files of one profile share, `20261121-203000-h200-B1-qk4_v8`.

    Args:
        case: what is profiled.
        gpu: the GPU's short name, `h200`.
        now: the time, UTC; the present if not given.
    """
    return f"{now or datetime.now(UTC):%Y%m%d-%H%M%S}-{gpu}-{_words_of(case.shape)}"


def fresh_stem(folder: Path, case: Case, gpu: str, suffix: str) -> str:
    """The name for a new profile, of this second or the next that no file of this suffix in the folder has yet."""
    now = datetime.now(UTC)
    while (folder / f"{stem_of(case, gpu, now)}{suffix}").exists():
        now += timedelta(seconds=1)
    return stem_of(case, gpu, now)


def _words_of(shape: Shape) -> str:
    sizes = "" if (shape.K, shape.V) == (128, 128) else f"-K{shape.K}-V{shape.V}"
    return f"B{shape.B}-{shape.heads}{sizes}"


def _path_of(profiles: Path, profiler: str, label: str) -> Path:
    return profiles / profiler / re.sub(r"[^A-Za-z0-9._=@-]+", "_", label)


def folder_of(profiles: Path, profiler: str, label: str) -> Path:
    """The folder for a kernel's profiles, made if it is not there; `decode-triton:BV=16` is `decode-triton_BV=16`.

    Raises:
        MachineError: if it cannot be made.
    """
    folder = _path_of(profiles, profiler, label)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot write to {profiles}: {error}", "choose another folder with --profiles") from error
    return folder


def find_stored(
    profiles: Path, profiler: str, label: str, shape: Shape, *, suffix: str, gpu: str | None = None
) -> tuple[Path, ...]:
    """The files of a kernel at a shape, the newest first.

    Args:
        profiles: the folder that holds all profiles.
        profiler: whose: `ncu`.
        label: the kernel's label.
        shape: the workload.
        suffix: of the files, `.csv`.
        gpu: the GPU's short name, `h200`; any GPU if not given.

    Raises:
        ReportFormatError: if the kernel's folder cannot be read.
    """
    folder = _path_of(profiles, profiler, label)
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return ()
    except OSError as error:
        hint = "give yourself the right to read it, or choose another folder with --profiles"
        raise ReportFormatError(f"{folder} cannot be read: {error.strerror}", hint) from error
    found = []
    for name in names:
        parts = _STEM.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if parts and parts["shape"] == _words_of(shape) and gpu in {None, parts["gpu"]}:
            found.append((parts["time"], folder / name))
    return tuple(path for _, path in sorted(found, reverse=True))
