"""The time of each launch of a kernel that makes several, if it was measured; medians in microseconds.

CUPTI, in a run or in a recording of `gdnbench proton`, times the launches within whole calls. ncu replays each launch
by itself after a cache flush, so that a launch which reads the previous one's output takes longer there than in a call.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.diagnose.run_times import RunTimes
from gdnbench.errors import LeftOutWarning, ReportFormatError
from gdnbench.model.case import Variant
from gdnbench.model.code import CodeState
from gdnbench.model.workload import Workload
from gdnbench.profilers.files import find_files
from gdnbench.profilers.ncu.profile import LaunchProfile
from gdnbench.profilers.ncu.quantities import value_of
from gdnbench.profilers.proton.recording import Recording
from gdnbench.store.launches import NAME as LAUNCHES


@dataclass(frozen=True)
class LaunchTimes:
    """The time of each launch in microseconds by entry, complete, and the file it is from.

    `code` says whether the times are of the kernel's current code.
    """

    times_us: Mapping[str, float]
    clock: Literal["cupti", "ncu"]
    path: Path
    code: CodeState = CodeState.UNKNOWN

    @property
    def total_us(self) -> float:
        """Sum over the launches, without gaps."""
        return sum(self.times_us.values())

    def share(self, entry_name: str) -> float:
        """Returns a launch's share of that sum."""
        return self.times_us[entry_name] / self.total_us


def profiled_times(
    profiles: Sequence[LaunchProfile], entries: Sequence[str], path: Path | None, code: CodeState
) -> LaunchTimes | None:
    """Returns ncu's times from `profiles` of one kernel at one workload, or None if a launch or duration is missing."""
    durations: dict[str, list[float]] = {name: [] for name in entries}
    for profile in profiles:
        value = value_of(profile, "duration_us")
        if profile.function in durations and value is not None and value > 0:  # which NaN is not
            durations[profile.function].append(value)
    if path is None or not all(durations.values()):
        return None
    return LaunchTimes({name: median(values) for name, values in durations.items()}, "ncu", path, code)


def timed_in_run(measured: RunTimes | None, entries: Sequence[str]) -> LaunchTimes | None:
    """Returns CUPTI's times in a run, or None if it did not time every launch."""
    times = {name: measured.functions_us.get(name, 0.0) for name in entries} if measured else {}
    if measured is None or measured.folder is None or not all(times.values()):
        return None
    return LaunchTimes(times, "cupti", measured.folder / LAUNCHES, measured.code)


def recorded_times(
    profiles: Path, entry: CatalogEntry, variant: Variant, entries: Sequence[str], workload: Workload, gpu: str | None
) -> LaunchTimes | None:
    """Returns CUPTI's times in the newest recording that timed every launch: of the current code, else of any code.

    Unreadable recordings are left out with a `LeftOutWarning`. `gpu` is the GPU's short name, or None for any.
    """
    newest: LaunchTimes | None = None
    for path in _recordings(profiles, variant, workload, gpu):
        try:
            recording = Recording.read(path)
        except ReportFormatError as error:
            warnings.warn(f"a recording is left out: {error.message}", LeftOutWarning, stacklevel=2)
            continue
        times = {name: median(recording.cupti_us[name]) for name in entries if recording.cupti_us.get(name)}
        is_whole = len(times) == len(entries) and sum(times.values()) > 0
        if not is_whole or recording.case.variant.params != variant.params:
            continue
        found = LaunchTimes(times, "cupti", path, entry.code_state(recording.source))
        if found.code is CodeState.CURRENT:
            return found
        newest = newest or found
    return newest


def _recordings(profiles: Path, variant: Variant, workload: Workload, gpu: str | None) -> tuple[Path, ...]:
    try:
        return find_files(profiles, "proton", variant.label, workload, suffix=".json", gpu=gpu)
    except ReportFormatError as error:
        warnings.warn(f"recordings are left out: {error.message}", LeftOutWarning, stacklevel=3)
        return ()
