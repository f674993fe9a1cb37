"""The counters that are to speak of a kernel: those of a file, or the newest that are stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

from gdnbench.catalog import Entry
from gdnbench.errors import UsageError
from gdnbench.model import CodeState, Shape, Variant
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.quantities import value_of
from gdnbench.profilers.ncu.reading import read_any
from gdnbench.profilers.ncu.stored import find_profiles


@dataclass(frozen=True)
class Counters:
    """One profiled launch, or none.

    Attributes:
        profile: the launch; None where nothing is stored.
        path: where it stands; None likewise.
        code: whether it is of the kernel's code as it is now.
        warnings: files that could not be read, and were passed over.
    """

    profile: Profile | None = None
    path: Path | None = None
    code: CodeState = CodeState.UNKNOWN
    warnings: tuple[str, ...] = ()


def read_file(path: Path, entry: Entry, asked: Variant) -> Counters:
    """The typical launch of a kernel in a file that the user named.

    Raises:
        UsageError: if it holds none.
        ProfilerError: if it cannot be read.
    """
    profiles = read_any(path)
    own = [profile for profile in profiles if profile.label == asked.label]
    own = own or [profile for profile in profiles if not profile.label and entry.kernel.entry in profile.function]
    if not own:
        names = ", ".join(dict.fromkeys(profile.name for profile in profiles))
        raise UsageError(f"{path} holds no launch of {asked.label}", f"it holds {names}")
    profile = _typical(own)
    return Counters(profile, path, entry.code_state(profile.source))


def find_newest(profiles: Path, entry: Entry, asked: Variant, shape: Shape, gpu: str | None) -> Counters:
    """The typical launch of the newest stored profile: of the code as it is now, else of whatever code.

    Args:
        profiles: the folder of stored profiles.
        entry: the kernel.
        asked: its params.
        shape: the workload.
        gpu: the GPU's short name; any GPU if not given.
    """
    search = find_profiles(profiles, asked.label, shape, source=entry.known_source(), gpu=gpu)
    if search.found is None:
        return Counters(warnings=search.warnings)
    return Counters(_typical(search.found.profiles), search.found.path, search.found.code, search.warnings)


def _typical(profiles: Sequence[Profile]) -> Profile:
    """Of the function that takes most of the time, the launch of median duration."""
    totals: dict[str, float] = {}
    for profile in profiles:
        totals[profile.function] = totals.get(profile.function, 0.0) + _duration(profile)
    main = max(totals, key=lambda function: totals[function])
    launches = [profile for profile in profiles if profile.function == main]
    typical = median_low(map(_duration, launches))
    return next(profile for profile in launches if _duration(profile) == typical)


def _duration(profile: Profile) -> float:
    value = value_of(profile, "duration_us")
    return 0.0 if value is None or math.isnan(value) else value
