"""Profiles for programs: every quantity of every function."""

from __future__ import annotations

from typing import Any

from gdnbench.model import Shape
from gdnbench.profilers.ncu.difference import Difference, Move
from gdnbench.profilers.ncu.functions import Function
from gdnbench.profilers.ncu.quantities import QUANTITIES
from gdnbench.report.other_code import CodeOf

_NO_AXES: dict[str, int | None] = dict.fromkeys(Shape().axes())


def identity(function: Function, code_of: CodeOf) -> dict[str, Any]:
    """What was launched where, of which code, and the report that says so."""
    return {
        "kernel": function.label,
        "op": function.profiles[0].op,
        **(function.shape.axes() if function.shape else _NO_AXES),
        "gpu": function.gpu,
        "arch": function.profiles[0].arch,
        "function": function.name,
        "launches": len(function.profiles),
        "source": function.source,
        "code": code_of(function.label, function.source).value,
        "report": str(function.path),
    }


def document(function: Function, code_of: CodeOf) -> dict[str, Any]:
    """One function as JSON has it: medians over its launches; null for what the report lacks, and for NaN."""
    return {
        **identity(function, code_of),
        "quantities": _quantities(function),
        "stalls": function.stalls(),
    }


def row(function: Function, code_of: CodeOf) -> dict[str, Any]:
    """One function as CSV has it."""
    stalls = {f"stall_{reason}": cycles for reason, cycles in function.stalls().items()}
    return {**identity(function, code_of), **_quantities(function), **stalls}


def _quantities(function: Function) -> dict[str, float | None]:
    return {quantity.key: _exact(function.median(quantity)) for quantity in QUANTITIES}


def _exact(value: float | None) -> float | None:
    """A whole number as such: a CSV rounds fractions to six digits, and counts have more."""
    return int(value) if value is not None and value.is_integer() else value


def difference_document(difference: Difference, code_of: CodeOf) -> dict[str, Any]:
    """Two functions and what moved, as JSON has it."""
    return {
        "before": identity(difference.before, code_of),
        "after": identity(difference.after, code_of),
        "compared": difference.compared,
        "has_spread": difference.has_spread,
        "moves": [_move(move) for move in difference.moves],
    }


def difference_rows(difference: Difference, code_of: CodeOf) -> list[dict[str, Any]]:
    """What moved, a row each, as CSV has it."""
    sides = {"before": difference.before, "after": difference.after}
    told = {f"{key}_{side}": value for side, one in sides.items() for key, value in identity(one, code_of).items()}
    return [{**_move(move), **told} for move in difference.moves]


def _move(move: Move) -> dict[str, Any]:
    before, after = move.medians
    return {
        "quantity": move.key,
        "group": move.group,
        "unit": move.unit,
        "before": _exact(before),
        "before_low": _exact(min(move.before)),
        "before_high": _exact(max(move.before)),
        "after": _exact(after),
        "after_low": _exact(min(move.after)),
        "after_high": _exact(max(move.after)),
        "ratio": move.ratio,
        "verdict": move.verdict,
    }
