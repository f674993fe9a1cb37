"""What a job wrote comes home: fetched as a tar stream, unpacked beside its place, and moved there in one step each."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from subprocess import PIPE

from gdnbench.errors import LeftOutWarning, MachineError, RunFormatError, UsageError
from gdnbench.origin import CALIBRATIONS, PROFILES, RESULTS
from gdnbench.process.command import kill
from gdnbench.remote.archive import Limits, unpack
from gdnbench.remote.host import Host, last_line, shell
from gdnbench.remote.job import run_id
from gdnbench.render.console import without_controls
from gdnbench.store.files import PARTIAL
from gdnbench.store.info import NAME as INFO
from gdnbench.store.info import read_info
from gdnbench.verb_table import VERBS

_RUN_ID = re.compile(r"\d{8}-\d{6}-")
_SEND = 'cd "$1" && exec tar -czf - .'


@dataclass(frozen=True)
class Homes:
    """Where what comes home belongs.

    Attributes:
        results: the folder of runs.
        profiles: the folder of profiles.
        files: of single files that were asked for, by their name in the job's folder.
    """

    results: Path
    profiles: Path
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpectedOutput:
    """What a command may leave: runs, the profiles of its profiler of the kernels named, the runs of a calibration.

    Attributes:
        verb: the command's.
        kernels: names and globs, params after colons; none for every kernel.
        calibrates: whether it leaves the runs of a calibration.
    """

    verb: str = "run"
    kernels: tuple[str, ...] = ()
    calibrates: bool = False

    def has_profile(self, profiler: str, folder: str) -> bool:
        """Whether a profiler's folder of a kernel, `decode-v4_WARPS=8`, is of one that was named."""
        if profiler not in VERBS[self.verb].profiles:
            return False
        names = [re.split("[:@]", term, maxsplit=1)[0] for term in self.kernels] or ["*"]
        return any(fnmatchcase(folder, f"{name}{end}") for name in names for end in ("", "_*", "@*"))


def fetch(
    host: Host, folder: str, homes: Homes, limits: Limits | None = None, *, asked: ExpectedOutput | None = None
) -> list[Path]:
    """Fetches what a job left in its folder; gives the folders of runs that are new here.

    Args:
        host: where it is.
        folder: the job's, absolute, there.
        homes: where it belongs.
        limits: how much may come.
        asked: what was asked for; the rest is left out with a `LeftOutWarning`. None for runs alone.

    Raises:
        MachineError: if it does not come whole, or cannot be written; nothing is changed here then.
        UsageError: if it is not to be trusted, or a whole run is here that a part would replace.
    """
    was_there = homes.results.exists()
    try:
        homes.results.mkdir(parents=True, exist_ok=True)
        place = tempfile.mkdtemp(prefix=".arriving-", dir=homes.results)
    except OSError as error:
        raise MachineError(f"cannot write to {homes.results}: {error}", "choose another folder with --out") from error
    try:
        _receive(host, folder, Path(place), limits)
        return _Settling(homes, asked or ExpectedOutput()).settle(Path(place))
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if not was_there:
            with suppress(OSError):  # there are runs in it now
                homes.results.rmdir()


def _receive(host: Host, folder: str, place: Path, limits: Limits | None) -> None:
    with tempfile.TemporaryFile() as errors:
        process = host.start(shell(_SEND, folder), stdout=PIPE, stderr=errors)
        assert process.stdout is not None
        try:
            unpack(process.stdout, place, limits)
            code = process.wait()
        finally:
            kill(process)
            process.stdout.close()
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if code:
        raise MachineError(f"what {host.name} has could not be fetched: {last_line(said)}", "fetch it again")


class _Settling:
    """Moves what was asked for to where it belongs; the rest is left, and told.

    Args:
        homes: where it belongs.
        asked: what was asked for.
    """

    def __init__(self, homes: Homes, asked: ExpectedOutput) -> None:
        self._homes, self._asked = homes, asked
        self._left: list[str] = []

    def settle(self, place: Path) -> list[Path]:
        """The runs that arrived, in their places."""
        runs: list[Path] = []
        for path in sorted(place.iterdir()):
            if path.name == RESULTS.name and path.is_dir():
                runs = self._settle_results(path)
            elif path.name == PROFILES.name and path.is_dir():
                self._settle_profiles(path)
            elif path.name in self._homes.files and path.is_file():
                shutil.move(path, self._homes.files[path.name])
            else:
                self._left.append(path.name)
        if self._left:
            more = f" and {len(self._left) - 3} more" if len(self._left) > 3 else ""
            told = ", ".join(without_controls(name)[:100] for name in self._left[:3])
            warnings.warn(f"what was not asked for is left out: {told}{more}", LeftOutWarning, stacklevel=3)
        return runs

    def _settle_results(self, arrived: Path) -> list[Path]:
        runs = []
        for path in sorted(arrived.iterdir()):
            if _is_run(path):
                self._homes.results.mkdir(parents=True, exist_ok=True)
                runs.append(_settle_run(path, self._homes.results))
            elif path.name == CALIBRATIONS and path.is_dir() and self._asked.calibrates:
                _settle_new(path, self._homes.results / CALIBRATIONS)
            else:
                self._left.append(f"{RESULTS}/{path.name}")
        return runs

    def _settle_profiles(self, arrived: Path) -> None:
        for profiler in sorted(arrived.iterdir()):
            for path in sorted(profiler.iterdir()) if profiler.is_dir() else [profiler]:
                if path.is_dir() and self._asked.has_profile(profiler.name, path.name):
                    _settle_new(path, self._homes.profiles / profiler.name / path.name)
                else:
                    self._left.append(f"{PROFILES}/{path.relative_to(arrived)}")


def _settle_new(arrived: Path, home: Path) -> None:
    """Moves what is in a folder and not here yet."""
    home.mkdir(parents=True, exist_ok=True)
    for path in sorted(arrived.iterdir()):
        if path.is_dir():
            _settle_new(path, home / path.name)
        elif not (home / path.name).exists():
            shutil.move(path, home / path.name)


def _is_run(path: Path) -> bool:
    is_named = bool(_RUN_ID.match(run_id(path)))  # `published` and `calibration` are no runs, whatever lies in them
    return path.is_dir() and is_named and ((path / INFO).is_file() or bool(PARTIAL.fullmatch(path.name)))


def _settle_run(arrived: Path, home: Path) -> Path:
    """Gives a run its name here; one that was stopped gives way to its continuation.

    Raises:
        UsageError: if another run has the name, or a whole run would be replaced by a part of one.
    """
    name = run_id(arrived)
    present = [path for path in (home / name, home / f".{name}.partial") if path.exists()]
    for path in present:
        if not _continues(arrived, path):
            raise UsageError(f"{path} is here, and is not a part of what came back", "choose another folder with --out")
    old = [path.rename(path.with_name(f".{name}.replaced")) for path in present]
    target = home / arrived.name
    shutil.move(arrived, target)
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return target


def _continues(arrived: Path, present: Path) -> bool:
    """Whether what arrived is the same run as what is here, and got at least as far."""
    try:
        new, old = read_info(arrived), read_info(present)
    except RunFormatError:
        return False
    return (new.run_id, new.timestamp, new.sources) == (old.run_id, old.timestamp, old.sources) and not old.complete
