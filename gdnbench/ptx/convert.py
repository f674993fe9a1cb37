"""Conversions between types: `cvt`."""

from __future__ import annotations

import numpy as np

from gdnbench.ptx.floats import FLOATS, rounding
from gdnbench.ptx.numbers import (
    DTYPES,
    Array,
    canonical,
    flushed,
    joined_halves,
    odd_to_bfloat16,
    to_bfloat16,
    to_single,
    widen_bfloat16,
)
from gdnbench.ptx.program import WIDTHS, PtxInstruction, unknown

_TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def convert(instruction: PtxInstruction, operands: tuple[Array, ...]) -> Array:
    """Executes a `cvt` on operands of its last type, giving its first; raises NotInterpretedError if it is unknown.

    A pair of 16-bit floats has two operands, the high one first.
    """
    if len(instruction.types) != 2:
        raise unknown(instruction)
    target, source = instruction.types
    if target in {"f16x2", "bf16x2"}:
        if len(operands) != 2:
            raise unknown(instruction)
        high, low = (_converted(instruction, target[:-2], source, each) for each in operands)
        return joined_halves(_bits_16(low), _bits_16(high))
    return _converted(instruction, target, source, operands[0])


def _bits_16(value: Array) -> Array:
    return np.ascontiguousarray(value).view(np.uint16)


def _converted(instruction: PtxInstruction, target: str, source: str, value: Array) -> Array:
    if target == "tf32" or target not in DTYPES or source not in DTYPES:
        raise unknown(instruction)
    if source == "bf16":
        source, value = "f32", widen_bfloat16(value)
    if instruction.has("ftz") and source == "f32":
        value = flushed(value)
    if source in FLOATS and target in FLOATS:
        return _between_floats(instruction, target, source, value)
    if source in FLOATS:
        return _to_integer(instruction, target, source, value)
    if target in FLOATS:
        return _from_integer(instruction, target, value)
    return _saturated(target, value) if instruction.has("sat") else value.astype(DTYPES[target])


def _between_floats(instruction: PtxInstruction, target: str, source: str, value: Array) -> Array:
    whole = next((word for word in _TO_WHOLE if instruction.has(word)), "")
    if whole:
        value = _TO_WHOLE[whole](value)
    if instruction.has("relu"):
        value = np.where(np.isnan(value), value, np.maximum(value, 0))
    if instruction.has("sat"):
        value = np.where(np.isnan(value), value.dtype.type(0), np.clip(value, 0, 1))
    mode = rounding(instruction)
    if target == "bf16":
        if source != "f32" or mode not in {"rn", "rz"}:
            raise unknown(instruction)
        return to_bfloat16(value, mode)
    if target == "f32" and source == "f64":
        result = to_single(value, mode)
        return canonical(flushed(result) if instruction.has("ftz") else result)
    if mode != "rn" and DTYPES[target].itemsize < DTYPES[source].itemsize:
        raise unknown(instruction)
    return canonical(value.astype(DTYPES[target]))


def _to_integer(instruction: PtxInstruction, target: str, source: str, value: Array) -> Array:
    """Rounds and clamps to an integer type; NaN becomes 0, or the highest bit alone if one of the types has 64 bits."""
    whole = next((word for word in _TO_WHOLE if instruction.has(word)), "")
    if not whole:
        raise unknown(instruction)
    limits = np.iinfo(DTYPES[target])
    of_nan = 2.0 ** (8 * WIDTHS[target] - 1) if 8 in {WIDTHS[target], WIDTHS[source]} else 0.0
    of_nan = -of_nan if limits.min else of_nan
    rounded = _TO_WHOLE[whole](value.astype(np.float64))
    rounded = np.where(np.isnan(rounded), of_nan, rounded)
    # A double cannot hold the largest 64-bit integers, so values out of range are found before the cast.
    is_above, is_below = rounded >= float(limits.max), rounded <= float(limits.min)
    inside = np.where(is_above | is_below, 0.0, rounded).astype(DTYPES[target])
    result = np.where(is_above, DTYPES[target].type(limits.max), inside)
    return np.where(is_below, DTYPES[target].type(limits.min), result)


def _from_integer(instruction: PtxInstruction, target: str, value: Array) -> Array:
    mode = rounding(instruction)
    if target == "f32" and value.dtype.itemsize <= 4:
        return to_single(value.astype(np.float64), mode)
    if mode != "rn":
        raise unknown(instruction)
    if target != "bf16":
        return value.astype(DTYPES[target])
    if value.dtype.itemsize > 4:
        raise unknown(instruction)
    return odd_to_bfloat16(value.astype(np.float64))


def _saturated(target: str, value: Array) -> Array:
    limits = np.iinfo(DTYPES[target])
    low = max(int(limits.min), int(np.iinfo(value.dtype).min))
    high = min(int(limits.max), int(np.iinfo(value.dtype).max))
    return np.clip(value, low, high).astype(DTYPES[target])
