"""What a run found: a row for each case, with its status and time, and the best points of a sweep."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gdnbench.model.case import Case
from gdnbench.model.declaration import Params
from gdnbench.model.status import CLOCKS, Bound, Clock, Role, Status, Timer
from gdnbench.model.workload import Workload

INPUTS_MARGIN = 0.02
"""Relative difference between profiles up to which a kernel's time counts as independent of its inputs."""

LONG_TAIL = ": a long tail"  # the end of the warning that a time's mean lies well above its trimmed mean


@dataclass(frozen=True, kw_only=True)
class Timing:
    """A measured time and what derives from it; a value that was not measured or does not apply is NaN."""

    # `nvbench`, GPU time of cold launches, event to event; `cupti`, first block's start to last block's end; `graph`, a
    # launch's share of a CUDA graph's replay; `cpu`, wall time of warm calls on the CPU
    timer: Timer
    samples: int  # timed launches over all rounds; for `graph`, timed replays
    rounds: int  # without the burn-in
    time_us: float  # geometric mean over rounds of the round's trimmed mean; in runs of schema 1, their median
    time_lo_us: float  # lower end of its confidence interval, over rounds and processes; `time_hi_us` is the upper
    time_hi_us: float
    median_us: float  # median over rounds of the round's median, as other tools report it
    min_us: float
    p10_us: float
    p90_us: float
    noise: float  # relative spread of the samples, 1.4826 * median absolute deviation / median
    mean_us: float = float("nan")  # of all samples, as `min_us` and the percentiles are
    cpu_time_us: float = float("nan")  # time the host takes to enqueue a launch, while the GPU waits
    sm_mhz: float = float("nan")  # median SM clock during the samples
    bandwidth_gbs: float = float("nan")  # the least traffic over the time
    tflops: float = float("nan")  # the op's floating-point operations over the time
    # What bounds the workload: `copy`, the measured copying floor, or `flops`, the operations at the GPU's peak,
    # whichever takes longer; empty where neither is known
    bound: Bound = ""
    sol: float = float("nan")  # the bound's time over this time, with its interval
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
    """A comparison with the baseline of the same workload and run."""

    baseline: str
    speedup: float  # baseline time / this time, from paired rounds; above 1 is faster
    low: float  # lower end of its confidence interval, corrected for the number of comparisons; `high` is the upper
    high: float
    verdict: str  # the value of a `stats.comparison.Verdict`
    more_rounds: int | None = None  # rounds that would decide an UNCLEAR one; None if unknown or not needed


@dataclass(frozen=True)
class InputsEffect:
    """The difference of a kernel's time between the extremes of its op's profiles."""

    worst: str
    best: str
    ratio: float  # time at profile `worst` over that at `best`, of paired rounds
    low: float  # this and `high`: ends of its interval, corrected for the number of kernels at the workload
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

    Raises:
        ValueError: for a time or a comparison that cannot be, or a failure without a reason.
    """

    case: Case
    status: Status
    reason: str = ""
    timing: Timing | None = None
    versus: Versus | None = None
    nbytes: int = 0  # the least that the kernel must move at the workload; 0 for the empty floor
    launches: int = 0  # kernels that one call launches; 0 where not counted
    registers: int = -1  # per thread; -1 if unknown
    shared_bytes: int = -1  # static, per block; -1 if unknown
    spill_bytes: int = -1  # of local memory per thread; -1 if unknown
    warnings: tuple[str, ...] = field(default=())
    clock: Clock | None = None  # the further clock that the row is of; None for the run's own timer
    inputs: InputsEffect | None = None  # how far the time depends on the inputs; None if that was not measured

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


class Place(StrEnum):
    """The place of a point in the race."""

    BEST = "best"  # the fastest
    TIED = "tied"  # shown to be within the margin of the fastest
    UNCLEAR = "unclear"  # may be within the margin or beyond it
    SLOWER = "slower"  # shown to be slower than another by more than the margin


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of the grid at one workload."""

    kernel: str
    label: str
    params: Params
    workload: Workload
    place: Place
    slower_by: float  # time over the fastest point's, less 1, from common rounds
    slower_lo: float  # the interval is corrected for the number of points and looks
    slower_hi: float  # infinite if unknown
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """The points of a kernel that tie with the fastest at a workload, by label."""

    kernel: str
    workload: Workload
    best: str
    simplest: str  # the point to take: the one of `tied` nearest to the kernel's defaults
    tied: tuple[str, ...]  # the fastest and all that tie with it; against `unclear` it is UNCLEAR
    unclear: tuple[str, ...]
    within: float  # the largest difference from the fastest that the intervals of `tied` allow; 0 for a single point


@dataclass(frozen=True, kw_only=True)
class OneForAll:
    """The best single point for all workloads; `regret` is its time over the best point's, less 1."""

    kernel: str
    label: str
    regret: dict[Workload, float]  # by workload

    @property
    def worst(self) -> tuple[Workload, float]:
        """The workload with the largest regret, and that regret."""
        return max(self.regret.items(), key=lambda item: item[1])

    @property
    def mean(self) -> float:
        """The mean regret over the workloads."""
        return sum(self.regret.values()) / len(self.regret)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep's result; ValueError if a plateau, a final or a point for all workloads refers to a missing point."""

    axes: dict[str, dict[str, list[Any]]]
    budget_s: float
    points: tuple[Point, ...]  # every point that was measured, fastest first within its kernel and workload
    plateaus: tuple[Plateau, ...]
    one_for_all: tuple[OneForAll, ...]
    finals: tuple[Point, ...] = ()  # by workload, the kernels' simplest points, fastest first; no floors

    def __post_init__(self) -> None:
        for plateau in self.plateaus:
            named = {plateau.best, plateau.simplest, *plateau.tied, *plateau.unclear}
            if not named <= {point.label for point in self.of(plateau)}:
                raise ValueError(f"the plateau of {plateau.kernel} at {plateau.workload} lacks some of its points")
        for one in self.one_for_all:
            if (one.kernel, one.label) not in {(point.kernel, point.label) for point in self.points}:
                raise ValueError(f"there is no point {one.label} to take for all workloads")
        known = {(point.label, point.workload) for point in self.points}
        for final in self.finals:
            if (final.label, final.workload) not in known:
                raise ValueError(f"{final.label} is in the final at {final.workload}, and did not race there")

    def of(self, plateau: Plateau) -> tuple[Point, ...]:
        """The points that raced for a plateau, fastest first."""
        place = plateau.kernel, plateau.workload
        return tuple(point for point in self.points if (point.kernel, point.workload) == place)

    def final(self, workload: Workload) -> tuple[Point, ...]:
        """The best points of the kernels at a workload, fastest first; empty if one kernel raced alone."""
        return tuple(point for point in self.finals if point.workload == workload)

    def point(self, plateau: Plateau, label: str) -> Point:
        """The point of a label among those that raced for a plateau."""
        return next(point for point in self.of(plateau) if point.label == label)

    def chosen(self, one: OneForAll) -> Point:
        """A kernel's point for all workloads, at one of them."""
        return next(point for point in self.points if (point.kernel, point.label) == (one.kernel, one.label))

    @property
    def tried(self) -> str:
        """The values of each kernel's params: `decode-v4 tile=4,8; decode-v5 warps=1,2`."""
        return "; ".join(
            f"{kernel} " + " ".join(f"{name}={','.join(map(str, values))}" for name, values in axes.items())
            for kernel, axes in self.axes.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns a JSON document."""
        return {
            "axes": self.axes,
            "budget_s": self.budget_s,
            "plateaus": [_document(plateau) for plateau in self.plateaus],
            "one_for_all": [
                {
                    **vars(one),
                    "regret": [{**workload.place, "regret": regret} for workload, regret in one.regret.items()],
                }
                for one in self.one_for_all
            ],
            "points": [_document(point) for point in self.points],
            "finals": [_document(point) for point in self.finals],
        }


def _document(part: Point | Plateau) -> dict[str, Any]:
    # The file's key `shape` is older than the field's name, and stays.
    sizes = {**vars(part), "workload": part.workload.sizes}
    document = {"shape" if name == "workload" else name: value for name, value in sizes.items()} | part.workload.place
    return document | ({"params": dict(part.params)} if isinstance(part, Point) else {})
