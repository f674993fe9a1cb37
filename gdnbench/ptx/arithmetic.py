"""Arithmetic instructions and comparisons, over arrays of lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdnbench.ptx.integers import INTEGER, Operation
from gdnbench.ptx.numbers import (
    BITS,
    DTYPES,
    SHORT_FLOATS,
    Array,
    canonical,
    flushed,
    fused_multiply_add,
    fused_multiply_add_double,
    halves,
    joined_halves,
    narrowed,
    odd_sum,
    odd_to_bfloat16,
    to_bfloat16,
    to_single,
    widen_bfloat16,
)
from gdnbench.ptx.program import WIDTHS, PtxInstruction, unknown

FLOATS = ("f16", "bf16", "f32", "f64")
_MODES = ("rn", "rz", "rm", "rp")


def rounding(instruction: PtxInstruction) -> str:
    """Returns an instruction's rounding mode, by default `rn` (to nearest)."""
    return next((mode for mode in _MODES if instruction.has(mode)), "rn")


_PAIRS = ("f16x2", "bf16x2", "f32x2")


def compute_pair(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Computes an instruction on pairs of floats."""
    parts = zip(*map(halves, operands), strict=True)
    low, high = (compute_float(instruction, kind[:-2], from_bits(kind[:-2], tuple(each))) for each in parts)
    return _joined_floats(low, high)


def from_bits(kind: str, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """Views a pair's floats in the dtype that holds them: bits for bfloat16."""
    return tuple(each.view(DTYPES[kind]) for each in operands)


def _joined_floats(low: Array, high: Array) -> Array:
    return joined_halves(*(np.ascontiguousarray(each).view(BITS[each.dtype.itemsize]) for each in (low, high)))


def compute_float(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Computes an instruction on floats of one type."""
    function = FLOATING.get(instruction.name)
    if function is None or (kind in {"f16", "bf16"} and instruction.has("sat", "ftz")):
        raise unknown(instruction)
    if kind in {"f16", "bf16"}:
        return _compute_short(instruction, function, kind, operands)
    is_flushed = instruction.has("ftz") and kind == "f32"
    operands = tuple(map(flushed, operands)) if is_flushed else operands
    result = canonical(np.asarray(function(instruction, kind, operands)))
    result = flushed(result) if is_flushed else result
    return _within_one(result) if instruction.has("sat") else result


def _compute_short(instruction: PtxInstruction, function: Operation, kind: str, operands: tuple[Array, ...]) -> Array:
    """Computes in 16-bit floats, bfloat16 by way of singles.

    The product of two is exact in a double, and `fma`'s sum is rounded to odd there, so that it is rounded once.
    """
    wide = operands if kind == "f16" else tuple(map(widen_bfloat16, operands))
    if instruction.name == "fma":
        a, b, c = (each.astype(np.float64) for each in wide)
        total = odd_sum(*np.broadcast_arrays(a * b, c))
        return total.astype(np.float16) if kind == "f16" else odd_to_bfloat16(total)
    if kind == "f16":
        return np.asarray(function(instruction, kind, wide), dtype=np.float16)
    return to_bfloat16(np.asarray(function(instruction, "f32", wide), dtype=np.float32))


def _within_one(value: Array) -> Array:
    """Clamps to 0 and 1, as `sat` does; NaN gives 0."""
    return np.where(np.isnan(value), value.dtype.type(0), np.clip(value, 0, 1))


def _rounded(direct: Callable[[Array, Array], Array], exact: Callable[[Array, Array], Array]) -> Operation:
    """Makes an operation that is NumPy's to nearest; else rounds the result in double, exact or rounded to odd."""

    def apply(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
        mode = rounding(instruction)
        if mode == "rn":
            return direct(*operands)
        if kind != "f32":
            raise unknown(instruction)
        a, b = np.broadcast_arrays(*(each.astype(np.float64) for each in operands))
        return to_single(exact(a, b), mode)

    return apply


def _fma(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    mode = rounding(instruction)
    if kind == "f64" and mode != "rn":
        raise unknown(instruction)
    a, b, c = operands
    return fused_multiply_add_double(a, b, c) if kind == "f64" else fused_multiply_add(a, b, c, mode)


def _to_nearest(function: Callable[..., Array]) -> Operation:
    def apply(instruction: PtxInstruction, _kind: str, operands: tuple[Array, ...]) -> Array:
        if rounding(instruction) != "rn":
            raise unknown(instruction)
        return function(*operands)

    return apply


def _of_double(function: Callable[[Array], Array]) -> Operation:
    """Makes an operation of the special function unit, exact but for the last bit; a GPU's errs by an ulp or two."""
    return _to_nearest(lambda value: np.asarray(function(value.astype(np.float64)), dtype=value.dtype))


def _extreme(function: Callable[[Array, Array], Array], keep_nan: Callable[[Array, Array], Array]) -> Operation:
    def apply(instruction: PtxInstruction, _kind: str, operands: tuple[Array, ...]) -> Array:
        chosen = keep_nan if instruction.has("NaN") else function
        result = chosen(operands[0], operands[1])
        for more in operands[2:]:
            result = chosen(result, more)
        # -0 is less than +0; NumPy takes them as equal.
        if len(operands) == 2:
            a, b = np.broadcast_arrays(*operands)
            both_zero = (a == 0) & (b == 0)
            sign = np.signbit(a) | np.signbit(b) if function is np.fmin else np.signbit(a) & np.signbit(b)
            result = np.where(both_zero, np.copysign(np.zeros_like(a), np.where(sign, -1, 1).astype(a.dtype)), result)
        return result

    return apply


FLOATING: dict[str, Operation] = {
    "add": _rounded(np.add, odd_sum),
    "sub": _rounded(np.subtract, lambda a, b: odd_sum(a, -b)),
    "mul": _rounded(np.multiply, np.multiply),
    "fma": _fma,
    "mad": _fma,
    "div": _to_nearest(np.divide),
    "neg": lambda _i, _k, x: -x[0],
    "abs": lambda _i, _k, x: np.abs(x[0]),
    "copysign": lambda _i, _k, x: np.copysign(x[1], x[0]),
    "min": _extreme(np.fmin, np.minimum),
    "max": _extreme(np.fmax, np.maximum),
    "sqrt": _of_double(np.sqrt),
    "rsqrt": _of_double(lambda x: 1.0 / np.sqrt(x)),
    "rcp": _of_double(lambda x: 1.0 / x),
    "ex2": _of_double(np.exp2),
    "lg2": _of_double(np.log2),
    "sin": _of_double(np.sin),
    "cos": _of_double(np.cos),
    "tanh": _of_double(np.tanh),
}


_TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def convert(instruction: PtxInstruction, operands: tuple[Array, ...]) -> Array:
    """Executes a `cvt` on operands of its last type; a pair of 16-bit floats has two, the high one first."""
    target, source = instruction.types
    if source[:-2] in SHORT_FLOATS and target == "f16x2":
        bits = 4 * WIDTHS[source]
        low, high = (SHORT_FLOATS[source[:-2]][each] for each in (operands[0] & (1 << bits) - 1, operands[0] >> bits))
        return _joined_floats(*(_between_floats(instruction, "f16", "f64", each) for each in (low, high)))
    if target[:-2] in SHORT_FLOATS:
        return _to_short(instruction, target, source, operands)
    if target in {"f16x2", "bf16x2"}:
        if len(operands) != 2:
            raise unknown(instruction)
        high, low = (_converted(instruction, target[:-2], source, each) for each in operands)
        return _joined_floats(low, high)
    return _converted(instruction, target, source, operands[0])


def _to_short(instruction: PtxInstruction, target: str, source: str, operands: tuple[Array, ...]) -> Array:
    """Narrows two singles, the high one first, or a pair of float16 to a pair of 8 or 4 bits."""
    if source not in {"f32", "f16x2"} or not instruction.has("satfinite") or rounding(instruction) != "rn":
        raise unknown(instruction)
    low, high = operands[::-1] if source == "f32" else from_bits("f16", halves(operands[0]))
    least = 0.0 if instruction.has("relu") else -np.inf
    low, high = (narrowed(np.maximum(each, least), target[:-2]) for each in (low, high))
    return np.asarray(low | high << 4 * WIDTHS[target]).astype(DTYPES[target])


def _converted(instruction: PtxInstruction, target: str, source: str, value: Array) -> Array:
    if {target, source} & {"tf32", *_PAIRS} or not {target, source} <= DTYPES.keys() or instruction.has("satfinite"):
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
    for word in instruction.modifiers:
        value = _TO_WHOLE[word](value) if word in _TO_WHOLE else value
    value = np.maximum(value, 0) if instruction.has("relu") else value
    value = _within_one(value) if instruction.has("sat") else value
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


def compute(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Computes an arithmetic instruction on operands of type `kind`; raises NotInterpretedError if it is unknown."""
    if kind in _PAIRS:
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
    words = (*_COMPARE, *(f"{each}u" for each in _COMPARE), "num", "nan")
    word = next(each for each in instruction.modifiers if each in words)
    unordered = np.isnan(a) | np.isnan(b) if kind in FLOATS else np.zeros((), dtype=bool)
    if word in {"num", "nan"}:
        return np.asarray(unordered if word == "nan" else ~unordered)
    if word not in _COMPARE:
        return np.asarray(_COMPARE[word[:-1]](a, b) | unordered)
    return np.asarray(_COMPARE[word](a, b) & ~unordered)
