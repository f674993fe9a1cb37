"""How ncu's quantities are written: short enough for four kernels in eighty columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap

from gdnbench.model import Shape
from gdnbench.profilers.ncu.functions import Function
from gdnbench.profilers.ncu.quantities import Quantity

COLUMN_WIDTH = 11  # four of them, a gap after each, and the titles make eighty
_WITH_VALUE = ("B", "B/s", "x")  # units that stand beside the value; others stand beside the title
_DECIMALS = {"µs": 2, "%": 1, "MHz": 0, "cycles": 2}  # ncu's clock ticks every 32 ns
_PREFIXES = ("", "k", "M", "G", "T")


def titled(title: str, unit: str) -> str:
    """A quantity's title, with its unit where that is the same in every cell."""
    return f"{title}, {unit}" if unit and unit not in _WITH_VALUE else title


def value_text(value: float | None, unit: str) -> str:
    """A value; a dash where the report lacks it, `nan` where ncu could not read it."""
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
    """Cycles per instruction, and their share of all; empty where there were none."""
    return f"{cycles:.2f} {cycles / total:4.0%}" if cycles else ""


def _prefixed(value: float, unit: str) -> str:
    power = min(max(int(math.log10(value)) // 3, 0), len(_PREFIXES) - 1) if value >= 1 else 0
    return f"{value / 1000**power:.3g} {_PREFIXES[power]}{unit}"


def heading(function: Function, everything: Sequence[Function]) -> list[str]:
    """The lines above a column, each as narrow: the kernel without its op's name, and what tells it from the others.

    Args:
        function: the column's.
        everything: every column's.
    """
    lines = [function.label.removeprefix(f"{function.profiles[0].op}-") or function.name]
    siblings = [one for one in everything if one.path == function.path and one.label == function.label]
    if function.label and len({one.name for one in siblings}) > 1:
        lines.append(function.name)
    if len({one.shape for one in everything}) > 1 and function.shape:
        lines.append(str(function.shape))
    if len({one.gpu for one in everything}) > 1:
        lines.append(function.gpu.removeprefix("NVIDIA "))
    if any(_looks_like(function, one) for one in everything if one.path != function.path):
        lines.append(function.path.name)
    if len(function.profiles) > 1:
        lines.append(f"{len(function.profiles)} launches")
    return [part for line in lines for part in wrap(line, COLUMN_WIDTH)]


def _looks_like(one: Function, other: Function) -> bool:
    """Whether only their reports tell two columns apart."""
    return (one.label, one.name, one.shape, one.gpu) == (other.label, other.name, other.shape, other.gpu)


def cell(function: Function, quantity: Quantity) -> str:
    """A quantity of a function, the median over its launches."""
    return value_text(function.median(quantity), quantity.unit)


def shape_text(shape: Shape | None) -> str:
    """A shape in a table's head."""
    return str(shape) if shape else "shape not told"
