"""What moved between two profiles, by more than it moves when nothing changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gdnbench.errors import UsageError
from gdnbench.profilers.ncu.functions import Function
from gdnbench.profilers.ncu.quantities import QUANTITIES, Better, Quantity

RELATIVE_FLOOR = 0.02
_ABSOLUTE_FLOORS = {"%": 0.5, "cycles": 0.05}  # points of a per cent; cycles per instruction
STALLS = "stalls"


@dataclass(frozen=True)
class Move:
    """A quantity that differs between two functions.

    Attributes:
        key: its name in code.
        title: its name in a table.
        unit: as in `Quantity`.
        group: the mechanism it belongs to.
        before: one value for each launch of the first.
        after: one for each of the second.
        better: which way is better, all else equal; empty where neither is.
    """

    key: str
    title: str
    unit: str
    group: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    better: Better = ""

    @property
    def medians(self) -> tuple[float, float]:
        """The median before and after."""
        return statistics.median(self.before), statistics.median(self.after)

    @property
    def ratio(self) -> float:
        """After over before; NaN if there was none before."""
        before, after = self.medians
        return after / before if before else math.nan

    @property
    def verdict(self) -> str:
        """`better` or `worse`, all else equal; empty where neither way is."""
        before, after = self.medians
        if not self.better:
            return ""
        return "better" if (after < before) == (self.better == "lower") else "worse"


@dataclass(frozen=True)
class Difference:
    """Two functions and what moved from one to the other.

    Attributes:
        before: the first.
        after: the second.
        moves: what moved, group by group.
        compared: how many quantities both have.
    """

    before: Function
    after: Function
    moves: tuple[Move, ...]
    compared: int

    @property
    def has_spread(self) -> bool:
        """Whether both were launched more than once, so that it is known how much a value moves by itself."""
        return min(len(self.before.profiles), len(self.after.profiles)) > 1


def differ(before: Sequence[Function], after: Sequence[Function]) -> tuple[Difference, ...]:
    """Compares function by function.

    Args:
        before: the functions of one kernel.
        after: those of the other.

    Returns:
        A difference for each pair: the only function of each, else those of the same name.

    Raises:
        UsageError: if they launch different functions, of which nobody could say which belongs to which.
    """
    if len(before) == len(after) == 1:
        return (_difference(before[0], after[0]),)
    others = {function.name: function for function in after}
    if len(others) < len(after) or sorted(others) != sorted(function.name for function in before):
        raise UsageError(
            f"{len(before)} and {len(after)} GPU functions, not the same ones: there is no telling what to compare",
            "leave out --diff, to see all of them side by side",
        )
    return tuple(_difference(function, others[function.name]) for function in before)


def _difference(before: Function, after: Function) -> Difference:
    pairs = [*_quantities(before, after), *_stalls(before, after)]
    moves = tuple(move for move in pairs if has_moved(move.before, move.after, move.unit))
    return Difference(before, after, moves, len(pairs))


def has_moved(before: Sequence[float], after: Sequence[float], unit: str) -> bool:
    """Whether two sets of launches differ by more than launches do, and by enough to matter.

    The gap between their ranges must be wider than the wider of the ranges: of six equal normal draws, three and three,
    1 in 130 pretends to differ so (by simulation), where ranges that merely do not overlap do in 1 of 10. Their medians
    must differ by 2 %, and by 0.5 points of a per cent or 0.05 cycles of a stall, below which nobody acts.

    Args:
        before: one value for each launch.
        after: likewise.
        unit: of the quantity.
    """
    if any(map(math.isnan, (*before, *after))):
        return False
    gap = max(min(after) - max(before), min(before) - max(after))
    one, other = statistics.median(before), statistics.median(after)
    floor = max(RELATIVE_FLOOR * max(abs(one), abs(other)), _ABSOLUTE_FLOORS.get(unit, 0.0))
    return gap > max(max(before) - min(before), max(after) - min(after)) and abs(one - other) > floor


def _quantities(before: Function, after: Function) -> Iterator[Move]:
    for group in dict.fromkeys(quantity.group for quantity in QUANTITIES):
        for quantity in QUANTITIES:
            values = before.values(quantity), after.values(quantity)
            if quantity.group == group and all(values):
                yield _move(quantity, *values)


def _move(quantity: Quantity, before: tuple[float, ...], after: tuple[float, ...]) -> Move:
    return Move(quantity.key, quantity.title, quantity.unit, quantity.group, before, after, quantity.better)


def _stalls(before: Function, after: Function) -> Iterator[Move]:
    reasons = dict.fromkeys((*before.stalls(), *after.stalls()))
    for reason in reasons:
        yield Move(
            f"stall_{reason}",
            reason,
            "cycles",
            STALLS,
            before.stall_values(reason),
            after.stall_values(reason),
            "" if reason == "selected" else "lower",
        )
