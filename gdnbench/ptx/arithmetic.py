"""Arithmetic instructions and comparisons, over arrays of lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdnbench.ptx.floats import FLOATING, FLOATS, compute_float, compute_pair, from_bits
from gdnbench.ptx.integers import INTEGER
from gdnbench.ptx.numbers import Array, flushed, halves, widen_bfloat16
from gdnbench.ptx.program import PtxInstruction, unknown


def compute(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Computes an arithmetic instruction on operands of type `kind`; raises NotInterpretedError if it is unknown."""
    if kind in {"f16x2", "bf16x2"}:
        return compute_pair(instruction, kind, operands)
    if kind in FLOATS:
        return compute_float(instruction, kind, operands)
    function = INTEGER.get(instruction.name)
    if function is None:
        raise unknown(instruction)
    return function(instruction, kind, operands)


def is_arithmetic(instruction: PtxInstruction) -> bool:
    """Returns whether `compute` knows the instruction's name."""
    return instruction.name in INTEGER or instruction.name in FLOATING


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def compare_all(instruction: PtxInstruction, kind: str, a: Array, b: Array) -> tuple[Array, ...]:
    """Compares as `setp` and `set` do; pairs of 16-bit floats give two results, that of the low halves first."""
    if kind in {"f16x2", "bf16x2"}:
        pairs = (from_bits(kind[:-2], pair) for pair in zip(halves(a), halves(b), strict=True))
        return tuple(compare(instruction, kind[:-2], *pair) for pair in pairs)
    return (compare(instruction, kind, a, b),)


def compare(instruction: PtxInstruction, kind: str, a: Array, b: Array) -> Array:
    """Compares numbers of one type; a comparison that ends in `u` (unordered) also holds if an operand is NaN."""
    if kind == "bf16":
        kind, a, b = "f32", widen_bfloat16(a), widen_bfloat16(b)
    if instruction.has("ftz") and kind == "f32":
        a, b = flushed(a), flushed(b)
    word = next(
        (
            each
            for each in instruction.modifiers
            if each in _COMPARE or each.rstrip("u") in _COMPARE or each in {"num", "nan"}
        ),
        "",
    )
    is_float = kind in FLOATS
    unordered = np.isnan(a) | np.isnan(b) if is_float else np.zeros((), dtype=bool)
    if word in {"num", "nan"}:
        return np.asarray(unordered if word == "nan" else ~unordered)
    if word not in _COMPARE:
        return np.asarray(_COMPARE[word[:-1]](a, b) | unordered)
    result = _COMPARE[word](a, b)
    return np.asarray(result & ~unordered if word == "ne" and is_float else result)
