"""The evidence on one kernel at one workload, and the result of a rule: a cause, its evidence, the next experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.schedule import ScheduleSummary
from gdnbench.diagnose.launch import (
    CycleBreakdown,
    LaunchGeometry,
    LaunchTimes,
    RunTimes,
    compiled_launch,
    cycle_breakdown,
    profiled_launch,
)
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.model.workload import Workload
from gdnbench.profile.ncu.quantities import BY_KEY, LOCAL_SECTORS, STALL_MEANINGS, LaunchProfile, value_of

if TYPE_CHECKING:
    from gdnbench.inspect.compiled import CompiledKernel
    from gdnbench.store.latencies import Latencies


Basis = Literal["counters", "times", "code"]
"""What a share rests on: counters of a profile, times of a run, or a bound that follows from the code alone."""


@dataclass(frozen=True)
class Evidence:
    """The rules' input: of a kernel, or of one of its several launches."""

    catalog: Catalog = field(repr=False)
    entry: CatalogEntry = field(repr=False)
    variant: Variant
    workload: Workload
    profile: LaunchProfile | None = None
    profile_path: Path | None = None
    compiled: CompiledKernel | None = field(default=None, repr=False)  # the build, if there is no profile
    # Issue cycles of its loads, for the current code; None if it was not built
    milestones: ScheduleSummary | None = field(default=None, repr=False)
    measured: RunTimes | None = None
    profile_code: CodeState = CodeState.UNKNOWN  # whether the counters are of the current code
    warnings: tuple[str, ...] = ()  # stored profiles that could not be read
    gpu: str = ""  # short name of the GPU that is meant; empty if none is known
    entry_name: str = ""  # the entry of the launch; empty for a whole kernel
    # The evidence of each of several launches, the longest first; counters and code are in these only
    launches: tuple[Evidence, ...] = field(default=(), repr=False)
    launch_times: LaunchTimes | None = None
    latencies: Latencies | None = field(default=None, repr=False)  # of the GPU, where `doctor --latency` measured them

    @property
    def own_times(self) -> RunTimes | None:
        """The times, or None if they are of other code than the current."""
        return self.measured if self.measured and self.measured.code is not CodeState.CHANGED else None

    @property
    def times(self) -> RunTimes | None:
        """The times that rules read, of other code only without counters of this; None for one launch of several."""
        if self.entry_name:
            return None
        has_counters = self.profile is not None and self.profile_code is not CodeState.CHANGED
        return self.own_times if has_counters else self.measured

    def code_of(self, basis: Basis) -> CodeState:
        """Returns whether the basis of a share is of the current code."""
        if basis == "counters":
            return self.profile_code
        if basis == "times":
            return self.measured.code if self.measured else CodeState.UNKNOWN
        return CodeState.CURRENT

    def hints_on(self, cause: str) -> tuple[str, ...]:
        """Returns the hints of the op's author on a cause, by its rule's name."""
        return tuple(hint.text for hint in self.entry.op.hints if not hint.causes or cause in hint.causes)

    @property
    def label(self) -> str:
        """The kernel's label."""
        return self.variant.label

    @property
    def launch(self) -> LaunchGeometry | None:
        """The grid on the GPU, profiled or compiled."""
        if self.profile:
            return profiled_launch(self.profile)
        return compiled_launch(self.compiled) if self.compiled else None

    @property
    def cycles(self) -> CycleBreakdown | None:
        """The breakdown of its cycles, or None without the counters for it."""
        launch = self.launch
        return cycle_breakdown(self.profile, launch) if self.profile and launch else None

    @property
    def bounding_times(self) -> RunTimes | None:
        """The times that bound shares from the code alone: of the current code, or None for one launch of several."""
        return None if self.entry_name else self.own_times

    @property
    def own_share(self) -> float:
        """The share of its time without the launch's overhead; 1, its upper bound, if unknown."""
        if self.cycles:
            return self.cycles.working
        launch = self.bounding_times.launch_share if self.bounding_times else None
        return 1 - launch if launch is not None else 1.0

    @property
    def dependent_loads(self) -> int:
        """Number of trips to global memory in a row, each begun after the previous one has ended; 0 if unknown."""
        return (self.milestones.dependent_loads or 0) if self.milestones else 0

    @property
    def dram_trips(self) -> float | None:
        """Number of trips to DRAM, one after the other, that its time by CUPTI, else by ncu, has room for, if known."""
        measured, dram_ns = self.measured, self.latencies.dram_ns if self.latencies else None
        if dram_ns is None or self.entry_name:
            return None
        kernel_us = measured.kernel_us if measured and measured.kernel_us else self.counter("duration_us")
        return None if math.isnan(kernel_us) else 1e3 * kernel_us / dram_ns

    @property
    def excess_share(self) -> float:
        """The share of the requested L2 sectors that coalesced access would not need; 0 if unknown."""
        return _share_of(self.counter("excess_sectors"), self.counter("global_sectors"))

    @property
    def local_share(self) -> float:
        """The share of memory accesses that are of spilled registers: of sectors, or of instructions in the code."""
        if self.profile:
            local, other = self.profile.number(LOCAL_SECTORS), self.counter("global_sectors")
            return _share_of(local or 0.0, (local or 0.0) + other)
        families = self.compiled.mix.families if self.compiled else {}
        local_count = sum(count for name, count in families.items() if name.startswith("local"))
        memory = sum(count for name, count in families.items() if name.startswith(("local", "global")))
        return _share_of(local_count, memory)

    @property
    def occupancy_limit_pct(self) -> float:
        """Theoretical occupancy in %; NaN if unknown."""
        return self.compiled.occupancy.percent if self.compiled else self.counter("occupancy_limit_pct")

    def counter(self, key: str) -> float:
        """Returns a quantity of the profile by its key; NaN, which fails every comparison, if there is none."""
        value = value_of(self.profile, key) if self.profile else None
        return float("nan") if value is None else value


def _share_of(part: float, whole: float) -> float:
    return part / whole if whole > 0 and not math.isnan(part) else 0.0


def launched_entries(entry: CatalogEntry) -> tuple[str, ...]:
    """Returns the entries of a kernel's launches; one for a kernel called through Python: its launches are unknown."""
    kernel = entry.kernel
    if isinstance(kernel, CudaKernel | TritonKernel):
        return tuple(launch.entry for launch in kernel.launches)
    return (kernel.entry,)


LATENCY_PCT = 60.0
"""Below this share of its peak, in %, no unit is saturated; from here on memory counts as saturated.

Source: ncu's rule `SOLBottleneck`, "below 60.0% of peak typically indicate latency issues". A copy of the state reaches
83 % of the DRAM's peak at batch 256 on an H200, two thirds at batch 64.
"""

HALF_OCCUPANCY_PCT = 50.0
"""At up to half of an SM's warps, as many again would fit if a block needed less."""

DEPENDENCY_STALLS = (
    "long_scoreboard", "short_scoreboard", "wait", "imc_miss", "no_instruction", "branch_resolving", "dispatch_stall",
)  # fmt: skip

_UNITS = ("dram_pct", "l2_pct", "l1_pct", "sm_pct")


@dataclass(frozen=True)
class EvidenceLine:
    """One line of evidence: a key of `gdnbench ncu` or `gdnbench inspect`, or a counter of ncu, and its value."""

    counter: str
    title: str
    value: int | float
    unit: str = ""  # `%` or `µs`, empty for a count
    note: str = ""  # what the value means for this kernel


@dataclass(frozen=True)
class Experiment:
    """The next experiment: a runnable command, word by word, and why: what it will show, or what to change first."""

    command: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Cause:
    """A cause of the kernel's time, from the rule of the name `rule`."""

    rule: str
    title: str
    share: float  # of the kernel's time that the cause explains, 0 to 1; findings are ranked by it
    basis: Basis
    facts: tuple[EvidenceLine, ...]
    meaning: str
    experiment: Experiment


def evidence_line(counter: str, value: int | float, unit: str = "", note: str = "") -> EvidenceLine:
    """Returns a line on a counter under its title in `gdnbench ncu`, or on a stall reason under ncu's name."""
    quantity = BY_KEY.get(counter)
    return EvidenceLine(counter, quantity.title if quantity else counter.replace("_", ": ", 1), value, unit, note)


def counter_line(evidence: Evidence, counter: str, note: str = "") -> tuple[EvidenceLine, ...]:
    """Returns a line on a counter of the profile; none if the report lacks it."""
    value = evidence.counter(counter)
    return () if math.isnan(value) else (evidence_line(counter, value, BY_KEY[counter].unit, note),)


def busiest_unit_pct(evidence: Evidence) -> float:
    """Returns the use of the busiest of DRAM, L2, L1 and the SMs' pipes, in % of its peak; NaN if one is unknown."""
    values = [evidence.counter(key) for key in _UNITS]
    return math.nan if any(map(math.isnan, values)) else max(values)


def dram_time_at_peak(evidence: Evidence) -> str:
    """Describes the time of the kernel's DRAM traffic at the DRAM's peak, by the same counters; empty if unknown."""
    percent, duration = evidence.counter("dram_pct"), evidence.counter("duration_us")
    if math.isnan(percent + duration):
        return ""
    return f"at its peak the traffic takes {duration * percent / 100:.2g} of {duration:.3g} µs"


def dependent_loads_line(evidence: Evidence) -> tuple[EvidenceLine, ...]:
    """Returns a line on dependent loads; none if no load is known to depend on another."""
    if not evidence.milestones or evidence.dependent_loads <= 1:
        return ()
    late, early = len(evidence.milestones.late_loads), len(evidence.milestones.early_loads)
    note = f"{late} of {late + early} loads start when others have arrived"
    return (EvidenceLine("trips", "trips to memory in a row", evidence.dependent_loads, "", note),)


def stall_lines(cycles: CycleBreakdown, reasons: Sequence[str]) -> tuple[EvidenceLine, ...]:
    """Returns a line on each stall reason's share of the waiting."""
    shares = {name: 100 * cycles.reasons.get(name, 0.0) for name in reasons}
    return tuple(evidence_line(f"stall_{name}", share, "%", STALL_MEANINGS[name]) for name, share in shares.items())


def floor_lines(evidence: Evidence, measured: RunTimes) -> tuple[EvidenceLine, ...]:
    """Returns lines on the kernel's time and the copy floor's, with its bandwidth as a share of the maker's peak."""
    share = f"{measured.copy}: {measured.copy_peak_share or math.nan:.0%} of the DRAM's peak"
    return (
        EvidenceLine("time_us", "time", measured.time_us, "µs", evidence.label),
        EvidenceLine("time_us", "time of the floor", measured.copy_us or math.nan, "µs", share),
    )


def basis_of(evidence: Evidence) -> Basis:
    """Returns the basis of a rule's share: the counters, or the code if there are none."""
    return "counters" if evidence.cycles else "code"


def bound_by_gain(evidence: Evidence, share: float) -> float:
    """Limits a share that follows from the code alone to the possible gain; shares from counters stay."""
    gain = evidence.bounding_times.gain if evidence.bounding_times else None
    return share if evidence.cycles or gain is None else min(share, gain)


def missing_room(evidence: Evidence) -> float:
    """Returns the share of an SM's warps for which queued blocks find no room; 0 if half of the warps or more fit."""
    launch, percent = evidence.launch, evidence.occupancy_limit_pct
    if launch is None or launch.waves <= 1:
        return 0.0
    return 1 - percent / 100 if percent <= HALF_OCCUPANCY_PCT else 0.0
