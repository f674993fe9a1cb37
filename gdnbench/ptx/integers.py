"""Integer arithmetic, over arrays of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gdnbench.ptx.numbers import DTYPES, Array
from gdnbench.ptx.program import WIDTHS, PtxInstruction

Operation = Callable[[PtxInstruction, str, tuple[Array, ...]], Array]
"""Takes an instruction, the type of its operands, and the operands; returns the result."""


def _wide(kind: str) -> np.dtype[Any]:
    return DTYPES[f"{kind[0]}{16 * WIDTHS[kind]}"]


def _product(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    a, b = operands[:2]
    if instruction.has("wide"):
        product = a.astype(_wide(kind)) * b.astype(_wide(kind))
    elif not instruction.has("hi"):
        product = a * b
    elif WIDTHS[kind] < 8:
        product = (a.astype(_wide(kind)) * b.astype(_wide(kind)) >> 8 * WIDTHS[kind]).astype(DTYPES[kind])
    else:
        a, b = np.broadcast_arrays(a, b)
        high = [(int(x) * int(y) >> 64) & (2**64 - 1) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
        product = np.array(high, dtype=np.uint64).view(DTYPES[kind]).reshape(a.shape)
    return np.asarray(product + operands[2].astype(product.dtype) if instruction.name == "mad" else product)


def _short_product(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Executes `mul24` and `mad24`, which multiply the low 24 bits of two operands."""
    a, b = ((each << 8 >> 8).astype(_wide(kind)) for each in operands[:2])
    product = (a * b >> 16 if instruction.has("hi") else a * b).astype(DTYPES[kind])
    return np.asarray(product + operands[2] if instruction.name == "mad24" else product)


def _integer_quotient(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Divides, rounding to zero; a division by zero gives all ones, as on a GPU."""
    a, b = np.broadcast_arrays(*operands)
    safe = np.where(b == 0, b.dtype.type(1), b)
    remainder = np.fmod(a, safe)
    quotient = (a - remainder) // safe
    if instruction.name == "rem":
        return np.where(b == 0, a, remainder)
    ones = np.array(-1 if kind.startswith("s") else np.iinfo(a.dtype).max, dtype=a.dtype)
    return np.where(b == 0, ones, quotient)


def _shift(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Shifts; counts beyond the width shift everything out."""
    a, count, bits = operands[0], operands[1].astype(np.uint32), 8 * WIDTHS[kind]
    amount = np.minimum(count, bits - 1).astype(a.dtype)
    if instruction.name == "shr" and kind.startswith("s"):
        return np.asarray(a >> amount)
    shifted = a << amount if instruction.name == "shl" else a >> amount
    return np.asarray(np.where(count >= bits, a.dtype.type(0), shifted))


def _funnel_shift(instruction: PtxInstruction, _kind: str, operands: tuple[Array, ...]) -> Array:
    low, high, count = (each.astype(np.uint64) for each in operands)
    amount = count & np.uint64(31) if instruction.has("wrap") else np.minimum(count, np.uint64(32))
    joined = (high << np.uint64(32)) | low
    if instruction.has("l"):
        return ((joined << amount) >> np.uint64(32)).astype(np.uint32)
    return (joined >> amount).astype(np.uint32)


def _lookup(_instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Executes `lop3`, any function of three bits: bit 4 a + 2 b + c of the table."""
    a, b, c, table = operands
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), dtype=DTYPES[kind])
    for row in range(8):
        if int(table) >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


def _permute_bytes(instruction: PtxInstruction, _kind: str, operands: tuple[Array, ...]) -> Array:
    a, b, selector = (each.astype(np.uint64) for each in operands)
    joined, result = (b << np.uint64(32)) | a, np.zeros((), dtype=np.uint64)
    for place in range(4):
        choice = selector >> np.uint64(4 * place)
        byte = joined >> ((choice & np.uint64(7)) * np.uint64(8)) & np.uint64(0xFF)
        sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        result = result | np.where(choice & np.uint64(8), sign, byte) << np.uint64(8 * place)
    return result.astype(np.uint32)


def _length(operand: Array, bits: int) -> Array:
    return np.asarray(np.minimum(operand.astype(np.int64) & 0xFF, bits))


def _ones(length: Array) -> Array:
    ones = (np.uint64(1) << np.minimum(length, 63).astype(np.uint64)) - np.uint64(1)
    return np.where(length >= 64, ~np.uint64(0), ones)


def _highest_bit(value: Array) -> Array:
    """Returns the number of the highest set bit of unsigned integers, or -1 for zero."""
    number, rest = np.full(value.shape, -1, dtype=np.int32), value.copy()
    for _ in range(8 * value.dtype.itemsize):
        number += rest != 0
        rest = rest >> value.dtype.type(1)
    return number


def _find_bit(instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Executes `bfind`: the highest bit that is not the sign, or all ones if there is none."""
    value = operands[0]
    unsigned = np.where(value < 0, ~value, value).view(DTYPES[f"u{8 * WIDTHS[kind]}"]) if kind[0] == "s" else value
    bit = _highest_bit(np.asarray(unsigned))
    if instruction.has("shiftamt"):
        bit = np.where(bit < 0, bit, 8 * WIDTHS[kind] - 1 - bit)
    return bit.astype(np.int32).view(np.uint32)


def _find_nth_bit(_instruction: PtxInstruction, _kind: str, operands: tuple[Array, ...]) -> Array:
    """Executes `fns`: the n-th set bit from `base` up, or down for n < 0, `base` itself for n = 0; else all ones."""
    mask, base, n = np.broadcast_arrays(operands[0], operands[1].astype(np.int64), operands[2].view(np.int32))
    left, bit = np.where(n == 0, 1, np.abs(n.astype(np.int64))), np.full(mask.shape, -1, dtype=np.int64)
    for distance in range(32):
        place = np.where(n < 0, base - distance, base + distance)
        is_place = (place >= 0) & (place < 32) & ((n != 0) | (distance == 0))
        is_set = is_place & (mask >> np.clip(place, 0, 31).astype(np.uint32) & np.uint32(1) != 0)
        left = left - is_set
        bit = np.where(is_set & (left == 0), place, bit)
    return bit.astype(np.uint32)


def _reverse_bits(_instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    value, result = operands[0].copy(), np.zeros_like(operands[0])
    one = value.dtype.type(1)
    for _ in range(8 * WIDTHS[kind]):
        result = (result << one) | (value & one)
        value = value >> one
    return result


def _extract(_instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    """Executes `bfe`: a field of bits by its first and its length; a signed one extends its highest bit."""
    bits = 8 * WIDTHS[kind]
    value, first, length = operands[0], operands[1].astype(np.int64) & 0xFF, _length(operands[2], bits)
    shift = np.minimum(first, bits - 1)
    if kind.startswith("s"):
        shifted = (value.astype(np.int64) >> shift).view(np.uint64)
    else:
        shifted = np.where(first < bits, value.astype(np.uint64) >> shift.astype(np.uint64), np.uint64(0))
    mask = _ones(length)
    field = shifted & mask
    if kind.startswith("s"):
        top = np.uint64(1) << np.maximum(length - 1, 0).astype(np.uint64)
        field = np.where((field & top != 0) & (length > 0), field | ~mask, field)
    return np.asarray(field.astype(DTYPES[f"u{bits}"]).view(DTYPES[kind]))


def _insert(_instruction: PtxInstruction, kind: str, operands: tuple[Array, ...]) -> Array:
    bits = 8 * WIDTHS[kind]
    source, target = operands[0].astype(np.uint64), operands[1].astype(np.uint64)
    first = operands[2].astype(np.int64) & 0xFF
    shift = np.minimum(first, 63).astype(np.uint64)
    mask = np.where(first < bits, _ones(_length(operands[3], bits)) << shift, np.uint64(0))
    return np.asarray(((target & ~mask) | (source << shift & mask)).astype(DTYPES[kind]))


def _dot_of_bytes(instruction: PtxInstruction, _kind: str, operands: tuple[Array, ...]) -> Array:
    a, b = (
        np.ascontiguousarray(np.atleast_1d(operand)).view(np.int8 if kind[0] == "s" else np.uint8).reshape(-1, 4)
        for operand, kind in zip(operands[:2], instruction.types, strict=False)
    )
    products = a.astype(np.int64) * b.astype(np.int64)
    return np.asarray((operands[2].astype(np.int64) + products.sum(axis=1)).astype(np.uint32))


def _plain(function: Callable[..., Array]) -> Operation:
    return lambda _instruction, _kind, operands: function(*operands)


INTEGER: dict[str, Operation] = {
    **{name: _plain(function) for name, function in {
        "add": np.add, "sub": np.subtract, "neg": np.negative, "abs": np.abs, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.bitwise_not,
    }.items()},
    "mul": _product,
    "mad": _product,
    "mul24": _short_product,
    "mad24": _short_product,
    "div": _integer_quotient,
    "rem": _integer_quotient,
    "cnot": lambda _i, _k, x: (x[0] == 0).astype(x[0].dtype),
    "sad": lambda _i, _k, x: np.where(x[0] < x[1], x[1] - x[0], x[0] - x[1]) + x[2],
    "shl": _shift,
    "shr": _shift,
    "shf": _funnel_shift,
    "lop3": _lookup,
    "prmt": _permute_bytes,
    "popc": lambda _i, _k, x: np.bitwise_count(x[0]).astype(np.uint32),
    "clz": lambda _i, kind, x: (8 * WIDTHS[kind] - 1 - _highest_bit(x[0])).astype(np.uint32),
    "bfind": _find_bit,
    "fns": _find_nth_bit,
    "brev": _reverse_bits,
    "bfe": _extract,
    "bfi": _insert,
    "dp4a": _dot_of_bytes,
}  # fmt: skip
