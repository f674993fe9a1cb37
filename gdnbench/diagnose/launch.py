"""A launch on a GPU: how its grid covers the SMs, where cycles went, its time and those of a kernel's other launches.

The geometry is the same whether a profiler counted it or a compiler implies it.

The cycles are those of the SMs that got a block, from the launch's begin to its end by ncu. A scheduler issues at most
one instruction a cycle (Nsight Compute's Profiling Guide, "Hardware Model"), so a cycle is spent issuing, or lost to
exactly one of: the launch, before and after the busiest SM's work; SMs without work while the busiest has some;
schedulers without a warp on SMs with work; warps that all wait. The stall reasons say what the warps wait for, as
shares of their time.

The time of each launch of a kernel that makes several, if it was measured; medians in microseconds.

CUPTI, in a run, times the launches within whole calls. ncu replays each launch by itself after a cache flush, so that a
launch which reads the previous one's output takes longer there than in a call.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from gdnbench.codegen.arch import SUB_PARTITIONS, WARP_SIZE
from gdnbench.machine.gpus import spec_of
from gdnbench.model.case import CodeState
from gdnbench.profile.ncu.quantities import CYCLES, OCCUPANCY_LIMITS, LaunchProfile, stalls, value_of
from gdnbench.store.tables import LAUNCHES_NAME as LAUNCHES
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.inspect.compiled import CompiledKernel
    from gdnbench.profile.ncu.store import StoredProfiles


_READY = frozenset({"selected", "not_selected"})


@dataclass(frozen=True)
class LaunchGeometry:
    """The grid of a launch on a GPU: `threads` per block, `registers` per thread, `blocks_per_sm` resident at once."""

    blocks: int
    threads: int
    sms: int
    blocks_per_sm: int
    limited_by: str  # `registers`, `shared memory`, `warps`, `blocks`, or several
    registers: int

    @property
    def warps_per_block(self) -> int:
        """Warps of one block."""
        return math.ceil(self.threads / WARP_SIZE)

    @property
    def warps(self) -> int:
        """Warps of the whole grid."""
        return self.blocks * self.warps_per_block

    @property
    def resident_warps(self) -> int:
        """Warps resident at once on the whole GPU."""
        return min(self.blocks, self.sms * self.blocks_per_sm) * self.warps_per_block

    @property
    def schedulers(self) -> int:
        """Warp schedulers of the GPU: four an SM on all GPUs since Volta."""
        return self.sms * SUB_PARTITIONS

    @property
    def waves(self) -> float:
        """Grid size over the blocks that the GPU holds."""
        return self.blocks / (self.sms * self.blocks_per_sm)

    @property
    def used_sms(self) -> int:
        """Number of SMs that get a block."""
        return min(self.blocks, self.sms)

    @property
    def missing_warps(self) -> float:
        """The share of schedulers without a warp if warps were spread evenly; 0 if there are enough."""
        return max(0.0, 1 - self.resident_warps / self.schedulers)

    def __str__(self) -> str:
        return f"{plural(self.blocks, 'block')} of {plural(self.warps_per_block, 'warp')} on {self.sms} SMs"


def profiled_launch(profile: LaunchProfile) -> LaunchGeometry | None:
    """Returns the launch that a profiler saw, or None if its report lacks a number."""
    found = {name: profile.number(metric) or 0.0 for name, metric in OCCUPANCY_LIMITS.items()}
    limits = {name: value for name, value in found.items() if value >= 1}  # False for NaN
    keys = ("grid_blocks", "block_threads", "sms", "registers")
    values = [value for key in keys if (value := value_of(profile, key)) is not None and math.isfinite(value)]
    if len(values) < len(keys) or len(limits) < len(found):
        return None
    blocks, threads, sms, registers = map(int, values)
    limiting = min(limits, key=lambda name: limits[name])
    return LaunchGeometry(blocks, threads, sms, int(limits[limiting]), limiting, registers)


def compiled_launch(compiled: CompiledKernel) -> LaunchGeometry | None:
    """Returns the launch that a build implies, or None if the GPU's size is unknown or no block fits."""
    if compiled.gpu_size is None or not compiled.occupancy.blocks:
        return None
    return LaunchGeometry(
        blocks=compiled.blocks,
        threads=compiled.request.threads,
        sms=compiled.gpu_size.sms,
        blocks_per_sm=compiled.occupancy.blocks,
        limited_by=compiled.occupancy.limited_by.replace(", ", " and "),
        registers=compiled.resources.registers,
    )


@dataclass(frozen=True)
class CycleBreakdown:
    """Where the cycles of a launch went: shares of its time, which sum to 1."""

    launch: float  # no SM works: begin and end of the launch
    uneven: float  # an SM has no work while the busiest has
    empty: float  # a scheduler has no warp while its SM has work
    waiting: float  # a scheduler has warps, and all of them wait
    issuing: float  # a scheduler issues
    # Stall reasons by ncu's name, as shares of the waiting, the largest first
    reasons: Mapping[str, float] = field(default_factory=dict)

    @property
    def working(self) -> float:
        """The share in which the busiest SM works."""
        return 1 - self.launch

    def waiting_for(self, reasons: Iterable[str]) -> float:
        """Returns the share in which nothing issues for these reasons."""
        return self.waiting * sum(self.reasons.get(reason, 0.0) for reason in reasons)


def cycle_breakdown(profile: LaunchProfile, launch: LaunchGeometry) -> CycleBreakdown | None:
    """Returns where the cycles of a profiled launch went, or None if the report lacks a counter."""
    issue = value_of(profile, "issue_active_pct")
    if not profile.has_all(*CYCLES) or issue is None or math.isnan(issue):
        return None
    elapsed, longest, mean, with_warps = (profile.number(name) or 0.0 for name in CYCLES)
    if not elapsed:
        return None
    # ncu averages over all SMs; here only those with a block count. Each counter is read in a pass of its own, and
    # passes of one launch differ by some per cent, so a counter is clipped to the one that bounds it.
    used = launch.used_sms / launch.sms
    longest = min(longest, elapsed)
    mean = min(mean / used, longest)
    with_warps = min(with_warps / used, mean)
    return CycleBreakdown(
        launch=1 - longest / elapsed,
        uneven=(longest - mean) / elapsed,
        empty=(mean - with_warps) / elapsed,
        waiting=with_warps / elapsed * (1 - issue / 100),
        issuing=with_warps / elapsed * issue / 100,
        reasons=_reasons(profile),
    )


def _reasons(profile: LaunchProfile) -> dict[str, float]:
    found = {reason: cycles for reason, cycles in stalls(profile).items() if reason not in _READY}
    total = sum(found.values())
    return {reason: cycles / total for reason, cycles in found.items()}


@dataclass(frozen=True)
class RunTimes:
    """A kernel's time in a run, and those of the run's floors and other kernels; in microseconds."""

    run_id: str
    gpu: str
    time_us: float
    times_us: Mapping[str, float] = field(repr=False)  # of every kernel and floor of the run at the workload, by label
    empty: str = ""  # label of the empty floor, `copy` of the copy floor; empty if the run lacks it
    copy: str = ""
    copy_bytes: int = 0
    # The op's FLOPs at the GPU's peak, if they bound the workload, not copying; else None
    flops_us: float | None = None
    launches: int = 0  # of one call of the kernel; 0 if not counted
    code: CodeState = CodeState.UNKNOWN  # whether the kernel's time is of its current code
    changed: tuple[str, ...] = ()  # labels whose code is known to have changed since
    # CUPTI time by function of a call; empty if not timed, or if a call launches one function
    functions_us: Mapping[str, float] = field(default_factory=dict)
    kernel_us: float | None = None  # CUPTI's time, from the first block's start to the last one's end, if measured
    folder: Path | None = None
    sm_mhz: float | None = None  # the SM clock while the kernel ran, the median of its samples; None if not measured

    @property
    def empty_us(self) -> float | None:
        """Time of the empty floor."""
        return self.times_us.get(self.empty)

    @property
    def copy_us(self) -> float | None:
        """Time of the copy floor."""
        return self.times_us.get(self.copy)

    @property
    def bound_us(self) -> float | None:
        """Time of the workload's bound: FLOPs at the GPU's peak, else the copy floor."""
        return self.copy_us if self.flops_us is None else self.flops_us

    @property
    def launch_share(self) -> float | None:
        """An empty kernel's time as a share of the kernel's."""
        return None if self.empty_us is None else min(1.0, self.empty_us / self.time_us)

    @property
    def gain(self) -> float | None:
        """The share of the kernel's time above the bound; 0 for a kernel below it."""
        bound_us = self.bound_us
        return None if bound_us is None else max(0.0, 1 - bound_us / self.time_us)

    @property
    def copy_peak_share(self) -> float | None:
        """The copy floor's bandwidth over the maker's peak, or None if one is unknown."""
        spec = spec_of(self.gpu)
        if spec is None or self.copy_us is None or not self.copy_bytes:
            return None
        return self.copy_bytes / (self.copy_us * 1e-6) / (spec.bandwidth_gbs * 1e9)


@dataclass(frozen=True)
class LaunchTimes:
    """The time of each launch in microseconds by entry, complete, and the file it is from."""

    times_us: Mapping[str, float]
    clock: Literal["cupti", "ncu"]
    path: Path
    code: CodeState = CodeState.UNKNOWN  # whether the times are of the kernel's current code

    @property
    def total_us(self) -> float:
        """Sum over the launches, without gaps."""
        return sum(self.times_us.values())

    def share(self, entry_name: str) -> float:
        """Returns a launch's share of that sum."""
        return self.times_us[entry_name] / self.total_us


def profiled_times(stored: StoredProfiles, entries: Sequence[str]) -> LaunchTimes | None:
    """Returns ncu's times, or None if a launch or a duration is missing."""
    durations: dict[str, list[float]] = {name: [] for name in entries}
    for profile in stored.profiles:
        value = value_of(profile, "duration_us")
        if profile.function in durations and value is not None and value > 0:  # which NaN is not
            durations[profile.function].append(value)
    if not all(durations.values()):
        return None
    return LaunchTimes({name: median(values) for name, values in durations.items()}, "ncu", stored.path, stored.code)


def timed_in_run(measured: RunTimes | None, entries: Sequence[str]) -> LaunchTimes | None:
    """Returns CUPTI's times in a run, or None if it did not time every launch."""
    times = {name: measured.functions_us.get(name, 0.0) for name in entries} if measured else {}
    if measured is None or measured.folder is None or not all(times.values()):
        return None
    return LaunchTimes(times, "cupti", measured.folder / LAUNCHES, measured.code)
