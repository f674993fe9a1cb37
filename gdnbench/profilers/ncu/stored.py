"""The stored profiles of a kernel: the newest of its code, else the newest there are, and what cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import ReportFormatError
from gdnbench.model import CodeState, Shape
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.store import read_profiles
from gdnbench.profilers.place import find_stored


@dataclass(frozen=True)
class StoredProfiles:
    """Launches that were profiled together.

    Attributes:
        path: the file.
        profiles: those of one kernel at one shape, at least one.
        code: whether they are of the code that was asked for.
    """

    path: Path
    profiles: tuple[Profile, ...]
    code: CodeState


@dataclass(frozen=True)
class Search:
    """What was found, and what was passed over.

    Attributes:
        found: the profiles; None where none can be read.
        warnings: a file, or a folder, that was left out, and why.
    """

    found: StoredProfiles | None
    warnings: tuple[str, ...] = ()


def find_profiles(profiles: Path, label: str, shape: Shape, *, source: str, gpu: str | None = None) -> Search:
    """The newest profiles of a kernel's code at a shape; where there are none, the newest of whatever code.

    Files that do not tell their code are as good as those of other code: nobody can say that they are of this one.

    Args:
        profiles: the folder that holds all profiles.
        label: the kernel's label, `decode-v4`.
        shape: the workload.
        source: hash of the sources that are meant; empty where that is not known.
        gpu: the GPU's short name, `h200`; any GPU if not given.
    """
    newest: StoredProfiles | None = None
    warnings = []
    try:
        paths = find_stored(profiles, "ncu", label, shape, suffix=".csv", gpu=gpu)
    except ReportFormatError as error:
        return Search(None, (_left_out(error),))
    for path in paths:
        try:
            found = _of_kernel(path, label, shape, source)
        except ReportFormatError as error:
            warnings.append(_left_out(error))
            continue
        if found.code is CodeState.CURRENT:
            return Search(found, tuple(warnings))
        newest = newest or found
    return Search(newest, tuple(warnings))


def _of_kernel(path: Path, label: str, shape: Shape, source: str) -> StoredProfiles:
    own = [one for one in read_profiles(path) if one.label == label and one.shape in {None, shape}]
    if not own:
        raise ReportFormatError(f"{path} holds no launch of {label} at {shape}")
    same = tuple(profile for profile in own if CodeState.of(profile.source, source) is CodeState.CURRENT)
    return StoredProfiles(path, same or tuple(own), CodeState.of((same or own)[0].source, source))


def _left_out(error: ReportFormatError) -> str:
    return f"a profile is left out: {error.message}"
