"""Which workload stands in for one that is not known."""

from __future__ import annotations

from collections.abc import Iterable

from gdnbench.model.workload import Workload


def nearest_workload(known: Iterable[Workload], wanted: Workload) -> Workload:
    """The known workload to use in place of another: the nearest by size.

    Distance is the larger size over the smaller. Of equally near ones it is the one that has most in common with it,
    apart from the axis of charts, then the smaller; a workload that is known stands for itself.

    Raises:
        ValueError: if none is known.
    """
    return min(known, key=lambda each: (_times_apart(each.size, wanted.size), _differences(each, wanted), each))


def _differences(one: Workload, other: Workload) -> int:
    """How many axes and lists differ, that of charts left out."""
    return sum(one.sizes[name] != size for name, size in other.sizes.items() if name != other.spec.x)


def _times_apart(one: int, other: int) -> float:
    """Grows with the difference of logarithms, and has no rounding error that would break a tie."""
    return max(one, other, 1) / max(min(one, other), 1)
