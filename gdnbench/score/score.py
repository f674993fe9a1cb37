"""What a score says of a kernel, and the exit code that its verdict is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gdnbench.diagnose.finding import Finding
from gdnbench.errors import ExitCode
from gdnbench.model.measurement import Timing
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.stats.comparison import Comparison, Verdict


class NoVerdict(StrEnum):
    """Why a kernel that is right has no verdict, where that is not its own fault."""

    NOT_HERE = "not-here"  # it cannot run on this machine
    NO_BASELINE = "no-baseline"  # what it is compared with has no time
    STOPPED = "stopped"  # by Ctrl-C, before there was one


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
"""How it compares; else why it has no time: its status, or what else stood in the way."""


@dataclass(frozen=True)
class WorkloadScore:
    """A kernel at one workload.

    Attributes:
        workload: the workload.
        status: how it ended there.
        reason: why, unless OK.
        timing: by the run's own timer; None without a time.
        kernel_us: its own time by CUPTI, microseconds; None where that was not read.
        speedup: the baseline's time over its own, with the interval of its comparison; None without both times.
    """

    workload: Workload
    status: Status
    reason: str = ""
    timing: Timing | None = None
    kernel_us: float | None = None
    speedup: Comparison | None = None


@dataclass(frozen=True)
class Code:
    """What the compiler made of a kernel. Counts are None where they are not known.

    Attributes:
        registers: per thread.
        spill_bytes: local memory per thread.
        shared_bytes: static shared memory per block.
        dependent_loads: trips to global memory in a row, each begun when the one before it has ended.
    """

    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    dependent_loads: int | None = None


@dataclass(frozen=True)
class Score:
    """One kernel against one other.

    Attributes:
        kernel: its label.
        op: the op.
        gpu: the GPU's short name, or `cpu`.
        against: the label of what it is compared with.
        verdict: how it compares, or why that is not known.
        reason: why, where there is no comparison: text for whoever mends it.
        ratio: the baseline's time over the kernel's, the weighted geometric mean over the workloads.
        kernel_ratio: the same of kernel times, by CUPTI.
        confidence: of the verdict and of both intervals, over all looks.
        looks: how often the verdict may be looked at, and of so many looks one's interval is.
        workloads: each by itself.
        code: what the compiler made of it.
        cause: the first that `explain` finds.
        processes: that measured.
        rounds: in all of them.
        seconds: by phase, and `all`.
        warnings: what qualifies the verdict.
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
    cause: Finding | None = None
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
