"""Which workload stands in for one that is not known."""

from __future__ import annotations

from collections.abc import Iterable

from gdnbench.model.workload import Workload


def nearest_workload(known: Iterable[Workload], wanted: Workload) -> Workload:
    """The known workload to use in place of another: the nearest by size.

    A workload that is known stands for itself, in any profile. Otherwise distance is the larger size over the smaller.
    Of equally near ones it is the one whose lists are nearest in length, for 8 sequences of 1,024 tokens are not one of
    8,192; then the one that has most in common with it, apart from the axis of charts, then the smaller.

    Raises:
        ValueError: if none is known.
    """

    def distance(each: Workload) -> tuple[bool, float, float, int, Workload]:
        lists = _times_apart(_listed(each), _listed(wanted))
        return (
            each.at("") != wanted.at(""),
            _times_apart(each.size, wanted.size),
            lists,
            _differences(each, wanted),
            each,
        )

    return min(known, key=distance)


def _listed(workload: Workload) -> int:
    """How many sequences, or other things, its lists hold."""
    return sum(map(len, workload.lists.values()))


def _differences(one: Workload, other: Workload) -> int:
    """How many axes and lists differ, that of charts left out."""
    return sum(one.sizes[name] != size for name, size in other.sizes.items() if name != other.spec.x)


def _times_apart(one: int, other: int) -> float:
    """Grows with the difference of logarithms, and has no rounding error that would break a tie."""
    return max(one, other, 1) / max(min(one, other), 1)
