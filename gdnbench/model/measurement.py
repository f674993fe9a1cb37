"""One row of a run: a case, its status, and its time if it has one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from gdnbench.model.case import Case
from gdnbench.model.status import CLOCKS, Clock, Role, Status

Timer = Literal["nvbench", "cpu", "cupti", "graph", ""]

INPUTS_MARGIN = 0.02
"""Relative difference between profiles up to which a kernel's time counts as independent of its inputs."""

LONG_TAIL = ": a long tail"
"""The end of the warning that a time's mean lies well above its trimmed mean."""

Bound = Literal["", "copy", "flops"]
"""What bounds a workload from below."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """A measured time and what derives from it; a value that was not measured or does not apply is NaN.

    Attributes:
        timer: `nvbench`, GPU time of cold launches, event to event; `cupti`, first block's start to last block's end;
            `graph`, a launch's share of a CUDA graph's replay; `cpu`, wall time of warm calls on the CPU.
        samples: timed launches over all rounds; for `graph`, timed replays.
        rounds: rounds measured, without the burn-in.
        time_us: geometric mean over rounds of the round's trimmed mean; in runs of schema 1, their median.
        time_lo_us: lower end of its confidence interval, over rounds and processes; `time_hi_us` is the upper.
        mean_us: mean of all samples, as `min_us`, `p10_us` and `p90_us` are the fastest and percentiles of all.
        median_us: median over rounds of the round's median, as other tools report it.
        noise: relative spread of the samples, 1.4826 * median absolute deviation / median.
        cpu_time_us: time the host takes to enqueue a launch, while the GPU waits.
        sm_mhz: median SM clock during the samples.
        bandwidth_gbs: the least traffic over the time, GB/s.
        tflops: the op's floating-point operations over the time, TFLOP/s.
        bound: what bounds the workload: `copy`, the measured copying floor, or `flops`, the operations at the GPU's
            peak, whichever takes longer; empty where neither is known.
        sol: the bound's time over this time; `sol_lo` and `sol_hi` are the ends of its confidence interval.
    """

    timer: Timer
    samples: int
    rounds: int
    time_us: float
    time_lo_us: float
    time_hi_us: float
    median_us: float
    min_us: float
    p10_us: float
    p90_us: float
    noise: float
    mean_us: float = float("nan")
    cpu_time_us: float = float("nan")
    sm_mhz: float = float("nan")
    bandwidth_gbs: float = float("nan")
    tflops: float = float("nan")
    bound: Bound = ""
    sol: float = float("nan")
    sol_lo: float = float("nan")
    sol_hi: float = float("nan")

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width, relative to the time."""
        return (self.time_hi_us - self.time_lo_us) / 2 / self.time_us

    @property
    def over_copy(self) -> float:
        """Time over that of the run's copying floor; NaN without one, or where FLOPs are the bound."""
        return math.nan if self.bound == "flops" else 1 / self.sol


@dataclass(frozen=True, kw_only=True)
class Versus:
    """A comparison with the baseline of the same workload and run.

    Attributes:
        baseline: the baseline's label.
        speedup: baseline time / this time, from paired rounds; above 1 is faster.
        low: lower end of its confidence interval, corrected for the number of comparisons; `high` is the upper.
        verdict: the value of a `stats.comparison.Verdict`.
        more_rounds: rounds that would decide an UNCLEAR one; None if unknown or not needed.
    """

    baseline: str
    speedup: float
    low: float
    high: float
    verdict: str
    more_rounds: int | None = None


@dataclass(frozen=True)
class InputsEffect:
    """The difference of a kernel's time between the extremes of its op's profiles.

    `ratio` is the time at profile `worst` over that at `best`, from paired rounds; `low` and `high` are the ends of its
    confidence interval, corrected for the number of kernels at the workload.
    """

    worst: str
    best: str
    ratio: float
    low: float
    high: float

    @property
    def depends(self) -> bool:
        """Whether the times differ by more than the margin."""
        return self.low > 1.0 + INPUTS_MARGIN

    @property
    def is_alike(self) -> bool:
        """Whether the times differ by no more than the margin."""
        return self.high < 1.0 + INPUTS_MARGIN and self.low > 1.0 / (1.0 + INPUTS_MARGIN)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One row of a run.

    Attributes:
        nbytes: the least that the kernel must move at the workload; 0 for the empty floor.
        launches: kernels that one call launches; 0 where not counted.
        registers: per thread; -1 if unknown.
        shared_bytes: static shared memory per block; -1 if unknown.
        spill_bytes: local memory per thread; -1 if unknown.
        clock: the further clock that the row is of; None for the run's own timer.
        inputs: how far the time depends on the inputs; None if that was not measured.

    Raises:
        ValueError: for a time without an OK status, a failure without a reason, a comparison without a time, or a time
            of another clock.
    """

    case: Case
    status: Status
    reason: str = ""
    timing: Timing | None = None
    versus: Versus | None = None
    nbytes: int = 0
    launches: int = 0
    registers: int = -1
    shared_bytes: int = -1
    spill_bytes: int = -1
    warnings: tuple[str, ...] = field(default=())
    clock: Clock | None = None
    inputs: InputsEffect | None = None

    def __post_init__(self) -> None:
        if self.timing and self.status is not Status.OK:
            raise ValueError(f"{self.case.id}: a time cannot stand beside status {self.status}")
        if self.status is not Status.OK and not self.reason:
            raise ValueError(f"{self.case.id}: status {self.status} needs a reason")
        if self.versus and not self.timing:
            raise ValueError(f"{self.case.id}: a comparison needs a time")
        if self.timing and (self.clock or self.timing.timer in CLOCKS) and self.timing.timer != self.clock:
            raise ValueError(f"{self.case.id}: a time by {self.timing.timer} in a row of {self.clock or 'the run'}")

    @property
    def role(self) -> Role:
        """The case's role."""
        return self.case.role

    @property
    def is_empty_floor(self) -> bool:
        """Whether the case is a floor that moves no bytes: all of its time is launch."""
        return self.role is Role.FLOOR and self.nbytes == 0
