"""The result of a sweep: the best points of each kernel and workload, and one point for all workloads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gdnbench.model.declaration import Params
from gdnbench.model.workload import Workload


class Place(StrEnum):
    """The place of a point in the race."""

    BEST = "best"  # the fastest
    TIED = "tied"  # shown to be within the margin of the fastest
    UNCLEAR = "unclear"  # may be within the margin or beyond it
    SLOWER = "slower"  # shown to be slower than another by more than the margin


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of the grid at one workload.

    `slower_by` is its time over the fastest point's, less 1, from the rounds in which both were measured; `slower_lo`
    and `slower_hi` are its interval, corrected for the number of points and looks, with an infinite upper end if
    unknown.
    """

    kernel: str
    label: str
    params: Params
    workload: Workload
    place: Place
    slower_by: float
    slower_lo: float
    slower_hi: float
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """The points of a kernel that tie with the fastest at a workload, by label.

    Attributes:
        simplest: the point to take: the one of `tied` nearest to the kernel's defaults.
        tied: the fastest and all that tie with it; the comparison of `unclear` with the fastest is UNCLEAR.
        within: the largest difference from the fastest that the intervals of `tied` allow; 0 for a single point.
    """

    kernel: str
    workload: Workload
    best: str
    simplest: str
    tied: tuple[str, ...]
    unclear: tuple[str, ...]
    within: float


@dataclass(frozen=True, kw_only=True)
class OneForAll:
    """The best single point for all workloads.

    `regret` is, by workload, its time over the best point's, less 1.
    """

    kernel: str
    label: str
    regret: dict[Workload, float]

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
    """A sweep's result; ValueError if a plateau, a final or a point for all workloads refers to a missing point.

    Attributes:
        axes: the values tried, by kernel and param.
        budget_s: seconds that measuring was allowed.
        points: every point that was measured, fastest first within its kernel and workload.
        one_for_all: one for each kernel; empty for a single workload.
        finals: for each workload at which several kernels raced, the simplest point of each kernel's plateau against
            the fastest of these, fastest first; floors do not take part.
    """

    axes: dict[str, dict[str, list[Any]]]
    budget_s: float
    points: tuple[Point, ...]
    plateaus: tuple[Plateau, ...]
    one_for_all: tuple[OneForAll, ...]
    finals: tuple[Point, ...] = ()

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
        return tuple(
            point for point in self.points if (point.kernel, point.workload) == (plateau.kernel, plateau.workload)
        )

    def final(self, workload: Workload) -> tuple[Point, ...]:
        """The best points of the kernels at a workload, fastest first; empty if one kernel raced alone."""
        return tuple(point for point in self.finals if point.workload == workload)

    def point(self, plateau: Plateau, label: str) -> Point:
        """The point of a label among those that raced for a plateau."""
        return next(point for point in self.of(plateau) if point.label == label)

    def to_dict(self) -> dict[str, Any]:
        """Returns a JSON document."""
        return {
            "axes": self.axes,
            "budget_s": self.budget_s,
            "plateaus": [_document(plateau) for plateau in self.plateaus],
            "one_for_all": [
                {
                    "kernel": one.kernel,
                    "label": one.label,
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
