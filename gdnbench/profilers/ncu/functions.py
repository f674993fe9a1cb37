"""GPU functions of reports: the launches of each put together, and what differs between two of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import MissingCounterError, UsageError
from gdnbench.model.workload import Workload
from gdnbench.profilers.ncu.profile import NcuReport, Profile
from gdnbench.profilers.ncu.quantities import ADDITIVE, QUANTITIES, Better, NcuQuantity, stalls, unread_stalls

RELATIVE_FLOOR = 0.02
_ABSOLUTE_FLOORS = {"%": 0.5, "cycles": 0.05}  # points of a per cent; cycles per instruction
STALLS = "stalls"


@dataclass(frozen=True)
class Function:
    """Every launch of one GPU function in one report.

    Attributes:
        path: the report.
        profiles: its launches, at least one.
    """

    path: Path
    profiles: tuple[Profile, ...]

    @property
    def name(self) -> str:
        """The GPU function's name."""
        return self.profiles[0].function

    @property
    def label(self) -> str:
        """The kernel's label; empty for a report that gdnbench did not make."""
        return self.profiles[0].label

    @property
    def workload(self) -> Workload | None:
        """The workload; None where the report does not tell."""
        return self.profiles[0].workload

    @property
    def gpu(self) -> str:
        """The GPU's name."""
        return self.profiles[0].gpu

    @property
    def source(self) -> str:
        """Hash of the kernel's sources; empty where the report does not tell."""
        return self.profiles[0].source

    def values(self, quantity: NcuQuantity) -> tuple[float, ...]:
        """A quantity of every launch; empty where the report lacks it."""
        values = [quantity.read(profile) for profile in self.profiles]
        return tuple(value for value in values if value is not None)

    def median(self, quantity: NcuQuantity) -> float | None:
        """The median of a quantity over the launches; None where the report lacks it, NaN where ncu wrote NaN."""
        return _median(self.values(quantity))

    def stall_values(self, reason: str) -> tuple[float, ...]:
        """Cycles per instruction that a warp spends for a reason, of every launch."""
        return tuple(stalls(profile).get(reason, 0.0) for profile in self.profiles)

    def stalls(self) -> dict[str, float]:
        """Cycles per instruction in each state, the median over the launches, most first."""
        reasons = dict.fromkeys(reason for profile in self.profiles for reason in stalls(profile))
        medians = {reason: statistics.median(self.stall_values(reason)) for reason in reasons}
        return dict(sorted(medians.items(), key=lambda pair: -pair[1]))

    def unread(self) -> tuple[str, ...]:
        """What ncu wrote NaN for: titles of quantities, and reasons of stalls."""
        titles = [one.title for one in QUANTITIES if any(map(math.isnan, self.values(one)))]
        reasons = (reason for profile in self.profiles for reason in unread_stalls(profile))
        return tuple(dict.fromkeys([*titles, *reasons]))


@dataclass(frozen=True)
class CallSum:
    """The functions that one call of a kernel launches, put together.

    Attributes:
        functions: at least two, of one kernel in one report, each launched as often as the others.
    """

    functions: tuple[Function, ...]

    def median(self, quantity: NcuQuantity) -> float | None:
        """The functions' medians added up; None for what does not add up, or is not in the report."""
        medians = [function.median(quantity) for function in self.functions] if quantity.key in ADDITIVE else [None]
        return None if any(one is None for one in medians) else sum(one for one in medians if one is not None)


def with_sums(functions: Sequence[Function]) -> list[Function | CallSum]:
    """The functions, and behind those of a kernel that launches several what they add up to.

    A function that is launched more often than another says that a call launches it several times, or that the report
    lacks launches: such a kernel has no sum.
    """
    kernels: dict[tuple[object, ...], list[Function]] = {}
    for function in functions:
        kernel = (function.path, function.label, function.workload, function.gpu, function.source)
        kernels.setdefault(kernel, []).append(function)
    columns: list[Function | CallSum] = []
    for own in kernels.values():
        columns += own
        if own[0].label and len(own) > 1 and len({len(function.profiles) for function in own}) == 1:
            columns.append(CallSum(tuple(own)))
    return columns


def functions_of(report: NcuReport) -> tuple[Function, ...]:
    """Every function of a report, in the order of their first launch."""
    found: dict[tuple[str, Workload | None, str, str, str], list[Profile]] = {}
    for profile in report.profiles:
        key = (profile.label, profile.workload, profile.gpu, profile.function, profile.source)
        found.setdefault(key, []).append(profile)
    return tuple(Function(report.path, tuple(profiles)) for profiles in found.values())


def check_read(functions: Sequence[Function]) -> None:
    """Makes sure that ncu could read all that the table shows.

    Raises:
        MissingCounterError: if it wrote NaN somewhere.
    """
    for function in functions:
        if titles := function.unread():
            raise MissingCounterError(
                f"ncu could not read {', '.join(titles)} of {function.label or function.name}: it wrote NaN",
                "profile again, with nothing else on the GPU; if it stays, take another version of ncu with --ncu",
            )


@dataclass(frozen=True)
class CounterChange:
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
class FunctionDifference:
    """Two functions and what changed from one to the other.

    Attributes:
        before: the first.
        after: the second.
        changes: what changed, group by group.
        compared: how many quantities both have.
    """

    before: Function
    after: Function
    changes: tuple[CounterChange, ...]
    compared: int

    @property
    def has_spread(self) -> bool:
        """Whether both were launched more than once, so that the spread of a value is known."""
        return min(len(self.before.profiles), len(self.after.profiles)) > 1


def compare_functions(before: Sequence[Function], after: Sequence[Function]) -> tuple[FunctionDifference, ...]:
    """Compares function by function.

    Args:
        before: the functions of one kernel.
        after: those of the other.

    Returns:
        A difference for each pair: the only function of each, else those of the same name.

    Raises:
        UsageError: if they launch different functions, so that there are no pairs.
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


def _difference(before: Function, after: Function) -> FunctionDifference:
    pairs = [*_quantity_changes(before, after), *_stall_changes(before, after)]
    changes = tuple(pair for pair in pairs if has_changed(pair.before, pair.after, pair.unit))
    return FunctionDifference(before, after, changes, len(pairs))


def has_changed(before: Sequence[float], after: Sequence[float], unit: str) -> bool:
    """Whether two sets of launches differ by more than launches do, and by enough to matter.

    The gap between their ranges must be wider than the wider of the ranges: of six equal normal draws, three and three,
    1 in 130 passes (by simulation), where of ranges that merely do not overlap 1 in 10 does. Their medians
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


def _quantity_changes(before: Function, after: Function) -> Iterator[CounterChange]:
    for group in dict.fromkeys(quantity.group for quantity in QUANTITIES):
        for quantity in QUANTITIES:
            values = before.values(quantity), after.values(quantity)
            if quantity.group == group and all(values):
                yield _change(quantity, *values)


def _change(quantity: NcuQuantity, before: tuple[float, ...], after: tuple[float, ...]) -> CounterChange:
    return CounterChange(quantity.key, quantity.title, quantity.unit, quantity.group, before, after, quantity.better)


def _stall_changes(before: Function, after: Function) -> Iterator[CounterChange]:
    reasons = dict.fromkeys((*before.stalls(), *after.stalls()))
    for reason in reasons:
        yield CounterChange(
            f"stall_{reason}",
            reason,
            "cycles",
            STALLS,
            before.stall_values(reason),
            after.stall_values(reason),
            "" if reason == "selected" else "lower",
        )


def _median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return math.nan if any(map(math.isnan, values)) else statistics.median(values)
