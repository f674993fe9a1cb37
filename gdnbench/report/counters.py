"""Formats counters of Nsight Compute, short enough for four kernels in eighty columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from gdnbench.model.workload import Workload
from gdnbench.profile.ncu.functions import CallSum, CounterChange, Function
from gdnbench.profile.ncu.profile import RuleResult
from gdnbench.profile.ncu.quantities import NcuQuantity
from gdnbench.render.units import percent

COLUMN_WIDTH = 11  # four columns with gaps and the titles make eighty
_WITH_VALUE = ("B", "B/s", "x")  # units that stand beside the value; others stand beside the title
_DECIMALS = {"µs": 2, "%": 1, "MHz": 0, "cycles": 2}  # ncu's clock ticks every 32 ns
_PREFIXES = ("", "k", "M", "G", "T")
_LEAST_SHARE = 0.01  # of a warp's time, below which a stall has no row
_SENTENCE = re.compile(r".+?[.!?](?=\s|$)")
NOT_A_TIME = (
    "ncu's duration is that of a replay by itself, after the caches were flushed: "
    "compare it with other durations here, not with times of gdnbench run."
)


def titled(title: str, unit: str) -> str:
    """Returns a quantity's title, with its unit if every cell has the same."""
    return f"{title}, {unit}" if unit and unit not in _WITH_VALUE else title


def value_text(value: float | None, unit: str) -> str:
    """Formats a value; a dash if the report lacks it, `nan` if ncu could not read it."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "nan"
    if unit in {"B", "B/s"}:
        return _prefixed(value, unit)
    if unit in _DECIMALS:
        return f"{value:.{_DECIMALS[unit]}f}"
    plain = f"{value:,.0f}" if value.is_integer() or abs(value) >= 1000 else f"{value:.3g}"
    return plain + ("x" if unit == "x" else "")


def stall_text(cycles: float, total: float) -> str:
    """Returns cycles per instruction and their share of all; empty for 0."""
    return f"{cycles:.2f} {cycles / total:4.0%}" if cycles else ""


def _prefixed(value: float, unit: str) -> str:
    power = min(max(int(math.log10(value)) // 3, 0), len(_PREFIXES) - 1) if value >= 1 else 0
    return f"{value / 1000**power:.3g} {_PREFIXES[power]}{unit}"


SUM = "(sum)"
"""The heading of a kernel's sum over its functions."""


def heading(column: Function | CallSum, everything: Sequence[Function]) -> list[str]:
    """Returns narrow heading lines of a column: the kernel without its op, and what tells it from `everything`."""
    function = column.functions[0] if isinstance(column, CallSum) else column
    lines = [function.label.removeprefix(f"{function.profiles[0].op}-") or function.name]
    siblings = [one for one in everything if one.path == function.path and one.label == function.label]
    if function.label and len({one.name for one in siblings}) > 1:
        lines.append(SUM if isinstance(column, CallSum) else function.name)
    if len({one.workload for one in everything}) > 1 and function.workload:
        lines.append(str(function.workload))
    if len({one.gpu for one in everything}) > 1:
        lines.append(function.gpu.removeprefix("NVIDIA "))
    if any(_looks_like(function, one) for one in everything if one.path != function.path):
        lines.append(function.path.name)
    if len(function.profiles) > 1:
        lines.append(f"{len(function.profiles)} launches")
    return [part for line in lines for part in wrap(line, COLUMN_WIDTH)]


def _looks_like(one: Function, other: Function) -> bool:
    return (one.label, one.name, one.workload, one.gpu) == (other.label, other.name, other.workload, other.gpu)


def quantity_text(column: Function | CallSum, quantity: NcuQuantity) -> str:
    """Formats a quantity: a function's median over its launches, or a kernel's sum of its functions' medians."""
    return value_text(column.median(quantity), quantity.unit)


def rule_text(result: RuleResult) -> str:
    """Formats one of NVIDIA's rules in a line: its estimated speedup, title, and the message's first sentence."""
    sentence = _SENTENCE.match(result.message)
    said = sentence.group() if sentence else result.message
    return f"{result.speedup_pct or 0.0:3.0f}%  {result.title or result.name}: {said}"


def workload_text(workload: Workload | None) -> str:
    """Returns a workload for a table's heading."""
    return str(workload) if workload else "workload not told"


def subject(function: Function) -> str:
    """Describes a launch: `decode-v4 B=1 qk4_v8 on NVIDIA H200`."""
    return f"{function.label or function.name} {workload_text(function.workload)} on {function.gpu or 'an unknown GPU'}"


def change_title(change: CounterChange) -> str:
    """Returns the changed quantity, with its unit if both sides share it."""
    return change.title if change.unit == "cycles" else titled(change.title, change.unit)


def change_text(change: CounterChange) -> str:
    """Formats a change: in points for per cent, else as a share, or a factor if large."""
    before, after = change.medians
    if change.unit == "%":
        return f"{after - before:+.1f} pt"
    if math.isnan(change.ratio):
        return "from none"
    if change.ratio >= 2:
        return f"{change.ratio:.3g}x"
    return f"{'+' if change.ratio > 1 else '-'}{percent(abs(change.ratio - 1))}"


def stall_reasons(functions: Sequence[Function]) -> Iterator[str]:
    """Yields the stalls worth a row, in order of the first function's."""
    found = [function.stalls() for function in functions]
    for reason in dict.fromkeys(reason for stalls in found for reason in stalls):
        if any(stalls.get(reason, 0.0) >= _LEAST_SHARE * sum(stalls.values()) for stalls in found if stalls):
            yield reason
