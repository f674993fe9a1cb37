"""GPU functions of ncu's reports: launches grouped by function, two functions compared, and quantities by kind.

A launch by kind: bytes between levels of memory, use of each pipe, instructions by what they access.

Covers every kind in a report, while the table of `gdnbench ncu` has rows for the common ones.
See "Metrics Reference" in Nsight Compute's Profiling Guide.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import MissingCounterError, UsageError
from gdnbench.model.workload import Workload
from gdnbench.profile.ncu import quantities

RELATIVE_FLOOR = 0.02
_ABSOLUTE_FLOORS = {"%": 0.5, "cycles": 0.05}  # percentage points; cycles per instruction
STALLS = "stalls"


@dataclass(frozen=True)
class Function:
    """All launches of one GPU function in one report, at least one."""

    path: Path
    profiles: tuple[quantities.LaunchProfile, ...]

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
        """The workload, or None if the report does not record it."""
        return self.profiles[0].workload

    @property
    def gpu(self) -> str:
        """The GPU's name."""
        return self.profiles[0].gpu

    @property
    def source(self) -> str:
        """Hash of the kernel's sources; empty if the report does not record it."""
        return self.profiles[0].source

    def values(self, quantity: quantities.NcuQuantity) -> tuple[float, ...]:
        """Returns a quantity of each launch; empty if the report lacks it."""
        values = [quantity.read(profile) for profile in self.profiles]
        return tuple(value for value in values if value is not None)

    def median(self, quantity: quantities.NcuQuantity) -> float | None:
        """Returns the median over the launches, None if the report lacks the quantity, or NaN where ncu wrote NaN."""
        values = self.values(quantity)
        if not values:
            return None
        return math.nan if any(map(math.isnan, values)) else statistics.median(values)

    def stall_values(self, reason: str) -> tuple[float, ...]:
        """Returns the cycles per instruction that a warp stalls for a reason, of each launch."""
        return tuple(quantities.stalls(profile).get(reason, 0.0) for profile in self.profiles)

    def stalls(self) -> dict[str, float]:
        """Returns cycles per instruction by warp state, as `medians`."""
        return self.medians(quantities.stalls)

    def medians(self, kinds: Callable[[quantities.LaunchProfile], Mapping[str, float]]) -> dict[str, float]:
        """Returns the median over the launches of each kind that any of them has, largest first."""
        found = [kinds(profile) for profile in self.profiles]
        names = dict.fromkeys(name for each in found for name in each)
        medians = {name: statistics.median(each.get(name, 0.0) for each in found) for name in names}
        return dict(sorted(medians.items(), key=lambda pair: -pair[1]))

    def unread(self) -> tuple[str, ...]:
        """Returns titles of quantities and stall reasons for which ncu wrote NaN."""
        titles = [one.title for one in quantities.QUANTITIES if any(map(math.isnan, self.values(one)))]
        reasons = (reason for profile in self.profiles for reason in quantities.unread_stalls(profile))
        return tuple(dict.fromkeys([*titles, *reasons]))


def functions_of(report: quantities.NcuReport) -> tuple[Function, ...]:
    """Returns the functions of a report, in the order of their first launch."""
    found: dict[tuple[str, Workload | None, str, str, str], list[quantities.LaunchProfile]] = {}
    for profile in report.profiles:
        key = (profile.label, profile.workload, profile.gpu, profile.function, profile.source)
        found.setdefault(key, []).append(profile)
    return tuple(Function(report.path, tuple(profiles)) for profiles in found.values())


def check_read(functions: Sequence[Function]) -> None:
    """Raises MissingCounterError if ncu wrote NaN for a shown quantity."""
    for function in functions:
        if titles := function.unread():
            raise MissingCounterError(
                f"ncu could not read {', '.join(titles)} of {function.label or function.name}: it wrote NaN",
                "profile again, with nothing else on the GPU; if it stays, take another version of ncu with --ncu",
            )


@dataclass(frozen=True)
class CounterChange:
    """A quantity that differs, with a value for each launch; `better` is empty if neither direction is."""

    key: str
    title: str
    unit: str
    group: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    better: quantities.Better = ""

    @property
    def medians(self) -> tuple[float, float]:
        """The medians before and after."""
        return statistics.median(self.before), statistics.median(self.after)

    @property
    def ratio(self) -> float:
        """After over before; NaN if before is 0."""
        before, after = self.medians
        return after / before if before else math.nan

    @property
    def verdict(self) -> str:
        """`better` or `worse`, all else equal; empty if neither direction is better."""
        before, after = self.medians
        if not self.better:
            return ""
        return "better" if (after < before) == (self.better == "lower") else "worse"


@dataclass(frozen=True)
class FunctionDifference:
    """Two functions and the quantities that changed, by group, out of `compared` quantities that both have."""

    before: Function
    after: Function
    changes: tuple[CounterChange, ...]
    compared: int

    @property
    def has_spread(self) -> bool:
        """Whether both were launched more than once, so that the spread of a value is known."""
        return min(len(self.before.profiles), len(self.after.profiles)) > 1


def compare_functions(before: Sequence[Function], after: Sequence[Function]) -> tuple[FunctionDifference, ...]:
    """Compares the only function of each kernel, else those of equal names; raises UsageError if there are no pairs."""
    if len(before) == len(after) == 1:
        return (_difference(before[0], after[0]),)
    others = {function.name: function for function in after}
    if len(others) < len(after) or sorted(others) != sorted(function.name for function in before):
        raise UsageError(
            f"{len(before)} and {len(after)} GPU functions, not the same ones: say which to compare",
            "leave out --diff, to see all of them side by side",
        )
    return tuple(_difference(function, others[function.name]) for function in before)


def _difference(before: Function, after: Function) -> FunctionDifference:
    pairs = list(_pairs(before, after))
    changes = tuple(pair for pair in pairs if has_changed(pair.before, pair.after, pair.unit))
    return FunctionDifference(before, after, changes, len(pairs))


def has_changed(before: Sequence[float], after: Sequence[float], unit: str) -> bool:
    """Whether the values of two sets of launches differ by more than launches vary, and by enough to matter.

    The gap between their ranges must exceed the wider range: of six equal normal draws, three and three, 1 in 130
    passes (by simulation), while the ranges of 1 in 10 do not overlap. The medians must differ by 2 %, and by 0.5
    percentage points or 0.05 stall cycles.
    """
    if any(map(math.isnan, (*before, *after))):
        return False
    gap = max(min(after) - max(before), min(before) - max(after))
    one, other = statistics.median(before), statistics.median(after)
    floor = max(RELATIVE_FLOOR * max(abs(one), abs(other)), _ABSOLUTE_FLOORS.get(unit, 0.0))
    return gap > max(max(before) - min(before), max(after) - min(after)) and abs(one - other) > floor


def _pairs(before: Function, after: Function) -> Iterator[CounterChange]:
    for one in quantities.QUANTITIES:
        values = before.values(one), after.values(one)
        if all(values):
            yield CounterChange(one.key, one.title, one.unit, one.group, *values, one.better)
    for reason in dict.fromkeys((*before.stalls(), *after.stalls())):
        values = before.stall_values(reason), after.stall_values(reason)
        better: quantities.Better = "" if reason == "selected" else "lower"
        yield CounterChange(f"stall_{reason}", reason, "cycles", STALLS, *values, better)


_TRAFFIC = {
    "L2 to L1": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "L1 to L2": "l1tex__m_l1tex2xbar_write_bytes.sum",
    "DRAM read": "dram__bytes_read.sum",
    "DRAM written": "dram__bytes_write.sum",
}
_PIPE = re.compile(r"sm__inst_executed_pipe_(\w+)\.avg\.pct_of_peak_sustained_active")
_TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
_ACCESS = re.compile(r"smsp__(?:sass_)?inst_executed_op_(\w+)\.sum")
_TOTALS = frozenset({"shared", "global", "local", "generic"})  # sums of other metrics in the report


def traffic_bytes(profile: quantities.LaunchProfile) -> dict[str, float]:
    """Returns bytes moved between memory levels, the largest first; those between L1 and L2 are of all SMs."""
    return _largest_first((title, profile.number(name)) for title, name in _TRAFFIC.items())


def pipes_pct(profile: quantities.LaunchProfile) -> dict[str, float]:
    """Returns each pipe's issue rate in % of its peak while SMs are active, the largest first.

    A tensor core works on one instruction for many cycles, so that its issue rate says little: `tensor` is the share of
    cycles in which tensor cores are active.
    """
    found = [
        (match[1], profile.number(name)) for name in profile.metrics if (match := _PIPE.fullmatch(name)) is not None
    ]
    issued = [(name, value) for name, value in found if not name.startswith("tensor")]
    return _largest_first([("tensor", profile.number(_TENSOR)), *issued])


def accesses(profile: quantities.LaunchProfile) -> dict[str, float]:
    """Returns warp instructions by what they access (`global_ld`), and branches, the largest first."""
    found: dict[str, float | None] = {}
    for name in profile.metrics:
        match = _ACCESS.fullmatch(name)
        if match and match[1] not in _TOTALS:
            found.setdefault(match[1], profile.number(name))
    return _largest_first(found.items())


def _largest_first(found: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    known = [(name, value) for name, value in found if value and not math.isnan(value)]
    return dict(sorted(known, key=lambda pair: -pair[1]))
