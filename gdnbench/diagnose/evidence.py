"""All that is known of one kernel at one workload."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Entry
from gdnbench.codegen.schedule_summary import ScheduleSummary
from gdnbench.diagnose.launch import CycleBreakdown, LaunchGeometry, compiled_launch, cycle_breakdown, profiled_launch
from gdnbench.diagnose.launch_times import LaunchTimes
from gdnbench.diagnose.run_times import RunTimes
from gdnbench.model.case import Variant
from gdnbench.model.code import CodeState
from gdnbench.model.workload import Workload
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.quantities import LOCAL_SECTORS, value_of

if TYPE_CHECKING:
    from gdnbench.inspection.compiled import CompiledKernel

Basis = Literal["counters", "times", "code"]
"""What a share rests on: counters of a profile, times of a run, or a bound that follows from the code alone."""


@dataclass(frozen=True)
class Evidence:
    """What rules read: of a kernel, or of one of its launches where it makes several.

    Attributes:
        catalog: all kernels, among which experiments are found.
        entry: the kernel.
        variant: its params at the workload.
        workload: one setting of the op's axes.
        profile: ncu's counters, if there are any.
        profile_path: where they stand.
        compiled: what the compiler made of it, where there is no profile.
        milestones: when its loads issue, as the code is now; None where it was not built.
        measured: its times, if a run has them.
        profile_code: whether the counters are of the code as it is now.
        warnings: stored profiles that could not be read.
        entry_name: the launch that this is of, by its entry; empty for a whole kernel.
        launches: of a whole kernel that makes several, each one's evidence, the one that takes the most first; counters
            and code are there, and none are here.
        launch_times: how long each launch takes, as far as that was measured.
    """

    catalog: Catalog = field(repr=False)
    entry: Entry = field(repr=False)
    variant: Variant
    workload: Workload
    profile: Profile | None = None
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
        """The times, unless they are of other code than the kernel's is now."""
        return self.measured if self.measured and self.measured.code is not CodeState.CHANGED else None

    @property
    def times(self) -> RunTimes | None:
        """The times that rules read: those of other code only where no counters of this one are there.

        Of one launch of several there are none: a run times the whole call.
        """
        if self.entry_name:
            return None
        has_counters = self.profile is not None and self.profile_code is not CodeState.CHANGED
        return self.own_times if has_counters else self.measured

    def code_of(self, basis: Basis) -> CodeState:
        """Whether what a share rests on is of the code as it is now."""
        if basis == "counters":
            return self.profile_code
        if basis == "times":
            return self.measured.code if self.measured else CodeState.UNKNOWN
        return CodeState.CURRENT

    def hints_on(self, cause: str) -> tuple[str, ...]:
        """What the op's author says of a cause, by its rule's name."""
        return tuple(hint.text for hint in self.entry.op.hints if hint.is_about(cause))

    @property
    def label(self) -> str:
        """The kernel's label."""
        return self.variant.label

    @property
    def launch(self) -> LaunchGeometry | None:
        """How it lies over the GPU."""
        if self.profile:
            return profiled_launch(self.profile)
        return compiled_launch(self.compiled) if self.compiled else None

    @property
    def cycles(self) -> CycleBreakdown | None:
        """Where its time went; None without the counters for it."""
        launch = self.launch
        return cycle_breakdown(self.profile, launch) if self.profile and launch else None

    @property
    def bounding_times(self) -> RunTimes | None:
        """The times that bound what follows from the code: of the code as it is now; none for one launch of several."""
        return None if self.entry_name else self.own_times

    @property
    def own_share(self) -> float:
        """The share of its time that is not the launch's; 1 where that is not known, which bounds it."""
        if self.cycles:
            return self.cycles.working
        launch = self.bounding_times.launch_share if self.bounding_times else None
        return 1 - launch if launch is not None else 1.0

    @property
    def dependent_loads(self) -> int:
        """To global memory in a row, each begun when the one before it has ended; 0 where that is not known."""
        return (self.milestones.dependent_loads or 0) if self.milestones else 0

    @property
    def excess_share(self) -> float:
        """The share of the sectors asked of L2 that lanes side by side would not need; 0 where that is not known."""
        return _share_of(self.counter("excess_sectors"), self.counter("global_sectors"))

    @property
    def local_share(self) -> float:
        """The share of accesses to memory that are of spilled registers: of sectors, or of the code's instructions."""
        if self.profile:
            local, other = self.profile.number(LOCAL_SECTORS), self.counter("global_sectors")
            return _share_of(local or 0.0, (local or 0.0) + other)
        families = self.compiled.mix.families if self.compiled else {}
        local_count = sum(count for name, count in families.items() if name.startswith("local"))
        memory = sum(count for name, count in families.items() if name.startswith(("local", "global")))
        return _share_of(local_count, memory)

    @property
    def occupancy_limit_pct(self) -> float:
        """Warps that an SM can have of this kernel, in % of those that it could have; NaN where that is not known."""
        return self.compiled.occupancy.percent if self.compiled else self.counter("occupancy_limit_pct")

    def counter(self, key: str) -> float:
        """A quantity of the profile by its key; NaN where there is none, which no comparison holds for."""
        value = value_of(self.profile, key) if self.profile else None
        return float("nan") if value is None else value


def _share_of(part: float, whole: float) -> float:
    return part / whole if whole > 0 and not math.isnan(part) else 0.0
