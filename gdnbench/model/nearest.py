"""The choice of a known workload to stand in for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

from gdnbench.model.workload import Workload


def nearest_workload(known: Iterable[Workload], wanted: Workload) -> Workload:
    """The known workload nearest to the wanted one by size; ValueError if none is known.

    A known workload stands for itself, in any profile. Otherwise distance is the larger size over the smaller. Ties go
    to the workload whose lists are nearest in length, for 8 sequences of 1,024 tokens are not one of 8,192; then to the
    one that differs in the fewest axes, that of charts aside; then to the smaller.
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
    """The number of sequences, or other things, in its lists."""
    return sum(map(len, workload.lists.values()))


def _differences(one: Workload, other: Workload) -> int:
    """The number of axes and lists that differ, without that of charts."""
    return sum(one.sizes[name] != size for name, size in other.sizes.items() if name != other.spec.x)


def _times_apart(one: int, other: int) -> float:
    """Grows with the difference of logarithms, and has no rounding error that would break a tie."""
    return max(one, other, 1) / max(min(one, other), 1)
