"""Which workload stands in for one that is not known."""

from __future__ import annotations

from collections.abc import Iterable

from gdnbench.model.workload import Workload


def nearest_workload(known: Iterable[Workload], wanted: Workload) -> Workload:
    """The known workload to use in place of another: the nearest by size.

    Distance is the larger size over the smaller. Of equally near ones it is one of the same series, then the smaller;
    a workload that is known stands for itself.

    Raises:
        ValueError: if none is known.
    """
    return min(known, key=lambda each: (_times_apart(each.size, wanted.size), each.series != wanted.series, each))


def _times_apart(one: int, other: int) -> float:
    """Grows with the difference of logarithms, and has no rounding error that would break a tie."""
    return max(one, other, 1) / max(min(one, other), 1)
