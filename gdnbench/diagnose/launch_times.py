"""How long each launch of a kernel takes that makes several, as far as it was measured.

Two things measure it. CUPTI, in a run or in a recording of `gdnbench proton`, times the launches of whole calls, one
after the other. ncu replays each launch by itself after a flush of the caches, so that a launch which reads what the
one before it has just written takes longer there than in a call. Both are medians, in microseconds.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from gdnbench.catalog.entry import Entry
from gdnbench.diagnose.run_times import RunTimes
from gdnbench.errors import LeftOutWarning, ReportFormatError
from gdnbench.model.case import Variant
from gdnbench.model.code import CodeState
from gdnbench.model.workload import Workload
from gdnbench.profilers.files import find_files
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.quantities import value_of
from gdnbench.profilers.proton.recording import Recording
from gdnbench.store.launches import NAME as LAUNCHES


@dataclass(frozen=True)
class LaunchTimes:
    """How long each launch takes.

    Attributes:
        times_us: the time of each launch by its entry, in microseconds; none is missing.
        clock: what measured it.
        path: the file that says so.
        code: whether it is of the kernel's code as it is now.
    """

    times_us: Mapping[str, float]
    clock: Literal["cupti", "ncu"]
    path: Path
    code: CodeState = CodeState.UNKNOWN

    @property
    def total_us(self) -> float:
        """All launches together, without what lies between them."""
        return sum(self.times_us.values())

    def share(self, entry_name: str) -> float:
        """A launch's share of the time that all of them take."""
        return self.times_us[entry_name] / self.total_us


def profiled_times(
    profiles: Sequence[Profile], entries: Sequence[str], path: Path | None, code: CodeState
) -> LaunchTimes | None:
    """What ncu says; None where its report lacks a launch, or the duration of one.

    Args:
        profiles: of one kernel at one workload.
        entries: its launches.
        path: the report.
        code: whether it is of the code as it is now.
    """
    durations: dict[str, list[float]] = {name: [] for name in entries}
    for profile in profiles:
        value = value_of(profile, "duration_us")
        if profile.function in durations and value is not None and value > 0:  # which NaN is not
            durations[profile.function].append(value)
    if path is None or not all(durations.values()):
        return None
    return LaunchTimes({name: median(values) for name, values in durations.items()}, "ncu", path, code)


def timed_in_run(measured: RunTimes | None, entries: Sequence[str]) -> LaunchTimes | None:
    """What CUPTI says in a run; None where it did not time every launch.

    Args:
        measured: what the run says of the kernel.
        entries: the kernel's launches.
    """
    times = {name: measured.functions_us.get(name, 0.0) for name in entries} if measured else {}
    if measured is None or measured.folder is None or not all(times.values()):
        return None
    return LaunchTimes(times, "cupti", measured.folder / LAUNCHES, measured.code)


def recorded_times(
    profiles: Path, entry: Entry, variant: Variant, entries: Sequence[str], workload: Workload, gpu: str | None
) -> LaunchTimes | None:
    """What CUPTI says in the newest recording that timed every launch: of the code as it is now, else of whatever code.

    What cannot be read is left out, with a `LeftOutWarning` that names it.

    Args:
        profiles: the folder of stored profiles.
        entry: the kernel.
        variant: its params.
        entries: its launches.
        workload: one setting of the op's axes.
        gpu: the GPU's short name; any GPU if not given.
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
