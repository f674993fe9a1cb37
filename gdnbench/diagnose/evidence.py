"""The evidence on one kernel at one workload."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.schedule_summary import ScheduleSummary
from gdnbench.diagnose.launch import CycleBreakdown, LaunchGeometry, compiled_launch, cycle_breakdown, profiled_launch
from gdnbench.diagnose.launch_times import LaunchTimes
from gdnbench.diagnose.run_times import RunTimes
from gdnbench.model.case import Variant
from gdnbench.model.code import CodeState
from gdnbench.model.workload import Workload
from gdnbench.profilers.ncu.profile import LaunchProfile
from gdnbench.profilers.ncu.quantities import LOCAL_SECTORS, value_of

if TYPE_CHECKING:
    from gdnbench.inspection.compiled import CompiledKernel

Basis = Literal["counters", "times", "code"]
"""What a share rests on: counters of a profile, times of a run, or a bound that follows from the code alone."""


@dataclass(frozen=True)
class Evidence:
    """The rules' input: of a kernel, or of one of its several launches.

    Attributes:
        compiled: the build, if there is no profile.
        milestones: issue cycles of its loads, for the current code; None if it was not built.
        profile_code: whether the counters are of the current code.
        warnings: stored profiles that could not be read.
        entry_name: the entry of the launch; empty for a whole kernel.
        launches: the evidence of each of several launches, the longest first; counters and code are in these only.
    """

    catalog: Catalog = field(repr=False)
    entry: CatalogEntry = field(repr=False)
    variant: Variant
    workload: Workload
    profile: LaunchProfile | None = None
    profile_path: Path | None = None
    compiled: CompiledKernel | None = field(default=None, repr=False)
    milestones: ScheduleSummary | None = field(default=None, repr=False)
    measured: RunTimes | None = None
    profile_code: CodeState = CodeState.UNKNOWN
    warnings: tuple[str, ...] = ()
    entry_name: str = ""
    launches: tuple[Evidence, ...] = field(default=(), repr=False)
    launch_times: LaunchTimes | None = None

    @property
    def own_times(self) -> RunTimes | None:
        """The times, or None if they are of other code than the current."""
        return self.measured if self.measured and self.measured.code is not CodeState.CHANGED else None

    @property
    def times(self) -> RunTimes | None:
        """The times that rules read: those of other code only if there are no counters of the current code.

        None for one launch of several: a run times the whole call.
        """
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
        return tuple(hint.text for hint in self.entry.op.hints if hint.is_about(cause))

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
