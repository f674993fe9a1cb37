"""The score of a kernel, and the exit code of its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gdnbench.diagnose.finding import Cause
from gdnbench.errors import ExitCode
from gdnbench.model.measurement import Timing
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.stats.comparison import Comparison, Verdict


class NoVerdict(StrEnum):
    """Why a kernel that is right has no verdict, for a reason other than its own."""

    NOT_HERE = "not-here"  # the kernel cannot run on this machine
    NO_BASELINE = "no-baseline"  # the rival has no time
    STOPPED = "stopped"  # by Ctrl-C, before the verdict


_OF_VERDICTS = {
    Verdict.FASTER: ExitCode.OK,
    Verdict.SLOWER: ExitCode.REGRESSION,
    Verdict.SAME: ExitCode.SAME,
    Verdict.UNCLEAR: ExitCode.NOISY,
    NoVerdict.NOT_HERE: ExitCode.ENVIRONMENT,
    NoVerdict.NO_BASELINE: ExitCode.PARTIAL,
    NoVerdict.STOPPED: ExitCode.INTERRUPTED,
}

AnyVerdict = Verdict | NoVerdict | Status
"""The comparison; else why the kernel has no time: its status, or another obstacle."""


@dataclass(frozen=True)
class WorkloadScore:
    """A kernel at one workload, by the run's own timer and by CUPTI (`kernel_us`, microseconds); None without times.

    `speedup` is the baseline's time over the kernel's, with its interval.
    """

    workload: Workload
    status: Status
    reason: str = ""
    timing: Timing | None = None
    kernel_us: float | None = None
    speedup: Comparison | None = None


@dataclass(frozen=True)
class Code:
    """A kernel's compiled code: registers and local memory per thread, static shared memory per block; None if unknown.

    `dependent_loads` counts trips to global memory in a row, each begun after the previous one has ended.
    """

    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    dependent_loads: int | None = None


@dataclass(frozen=True)
class Score:
    """One kernel against another.

    Attributes:
        gpu: the GPU's short name, or `cpu`.
        verdict: the comparison, or why there is none.
        reason: why there is no comparison: text for whoever mends it.
        ratio: the baseline's time over the kernel's, the weighted geometric mean over the workloads.
        kernel_ratio: the same of kernel times, by CUPTI.
        confidence: of the verdict and of both intervals, over all looks.
        looks: the largest number of interim analyses, for which the intervals are corrected.
        rounds: in all processes.
        seconds: by phase, and `all`.
    """

    kernel: str
    op: str
    gpu: str
    against: str
    verdict: AnyVerdict
    reason: str = ""
    ratio: Comparison | None = None
    kernel_ratio: Comparison | None = None
    confidence: float = 0.95
    looks: int = 0
    workloads: tuple[WorkloadScore, ...] = ()
    code: Code = Code()
    cause: Cause | None = None
    processes: int = 0
    rounds: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """0 for a kernel that is right and faster, and for no other."""
        if isinstance(self.verdict, Status):
            return self.verdict.exit_code or ExitCode.PARTIAL
        return _OF_VERDICTS[self.verdict]
