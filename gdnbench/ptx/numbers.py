"""Arithmetic as the GPU rounds it: fused multiply-add, directed rounding, flushed subnormals, bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_INTEGERS = {"b": "u", "u": "u", "s": "i"}
DTYPES: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(bool),
    **{f"{kind}{8 * size}": np.dtype(f"{held}{size}") for kind, held in _INTEGERS.items() for size in (1, 2, 4, 8)},
    "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8"), "tf32": np.dtype("f4"),
    "bf16": np.dtype("u2"), "bf16x2": np.dtype("u4"), "f16x2": np.dtype("u4"),
}  # fmt: skip
"""The dtype that holds each type; bfloat16 and pairs are held as bits."""

BITS: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}
NAN_32 = np.uint32(0x7FFFFFFF).view(np.float32)
"""The NaN that a GPU's arithmetic gives for any NaN operand."""
_LEAST_NORMAL = np.float32(2.0**-126)


def odd_sum(a: Array, b: Array) -> Array:
    """Adds doubles and rounds to odd, so that rounding again to fewer digits gives the sum as if rounded once.

    The error is Knuth's TwoSum; of the two doubles about an inexact sum the odd one is taken (Boldo and Melquiond, IEEE
    Transactions on Computers 57, 2008).
    """
    total = a + b
    shifted = total - a
    error = (a - (total - shifted)) + (b - shifted)
    bits = total.view(np.int64)
    is_even = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(is_even, bits + step, bits).view(np.float64)


def to_single(value: Array, mode: str) -> Array:
    """Rounds doubles, exact or rounded to odd, to singles: `rn` to nearest, `rz` to zero, `rm` down, `rp` up."""
    single = value.astype(np.float32)
    if mode == "rn":
        return single
    back = single.astype(np.float64)
    too_far = {"rz": np.abs(back) > np.abs(value), "rm": back > value, "rp": back < value}[mode]
    towards = {"rz": np.float32(0), "rm": np.float32(-np.inf), "rp": np.float32(np.inf)}[mode]
    return np.where(too_far, np.nextafter(single, towards), single)


def fused_multiply_add(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """Computes a b + c of singles, rounded once: the product of two singles is exact in a double."""
    product = a.astype(np.float64) * b.astype(np.float64)
    return to_single(odd_sum(*np.broadcast_arrays(product, c.astype(np.float64))), mode)


def fused_multiply_add_double(a: Array, b: Array, c: Array) -> Array:
    """Computes a b + c of doubles, adding Dekker's error of the product; it is rounded twice if digits cancel."""
    product = a * b
    split = 134217729.0  # 2^27 + 1
    a_high, b_high = split * a - (split * a - a), split * b - (split * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    shifted = total - product
    rest = (product - (total - shifted)) + (c - shifted)
    return np.where(np.isfinite(total + error), total + (rest + error), total)


def flushed(value: Array) -> Array:
    """Replaces subnormal singles by zeros of their sign."""
    small = (np.abs(value) < _LEAST_NORMAL) & (value != 0)
    return np.where(small, np.copysign(np.float32(0), value), value)


def canonical(value: Array) -> Array:
    """Replaces NaNs of singles by the GPU's own, so that no result keeps the bits that mark uninitialised memory."""
    bad = np.isnan(value)
    return np.where(bad, NAN_32, value) if value.dtype == np.float32 and bad.any() else value


def widen_bfloat16(bits: Array) -> Array:
    """Converts bfloat16 to singles, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _values_of_e4m3() -> Array:
    """Returns the value of each bit pattern: no infinities, all ones NaN (OCP 8-bit Floating Point Specification)."""
    bits = np.arange(256)
    exponent, fraction = bits >> 3 & 15, bits & 7
    size = np.where(exponent > 0, np.ldexp(8.0 + fraction, exponent - 10), np.ldexp(1.0 * fraction, -9))
    return np.where(bits & 127 == 127, np.nan, np.where(bits >= 128, -size, size))


_E4M3 = _values_of_e4m3()


def widen_e4m3(bits: Array) -> Array:
    """Converts fp8 with 4 bits of exponent and 3 of fraction to doubles, exactly."""
    return _E4M3[bits]


def to_bfloat16(value: Array, mode: str = "rn") -> Array:
    """Rounds singles to bfloat16, to nearest even or to zero; NaN is 0x7fff."""
    bits = np.asarray(value, dtype=np.float32).view(np.uint32)
    if mode == "rn":
        bits = np.where(np.isnan(value), bits, bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    short = (bits >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(value), np.uint16(0x7FFF), short)


def odd_to_bfloat16(value: Array) -> Array:
    """Rounds doubles, exact or rounded to odd, once to bfloat16, by way of singles that are rounded to odd."""
    single = to_single(value, "rz")
    is_inexact = (single.astype(np.float64) != value) & np.isfinite(single)
    return to_bfloat16((single.view(np.uint32) | is_inexact.astype(np.uint32)).view(np.float32))


def halves(pair: Array) -> tuple[Array, Array]:
    """Splits 32 bits into the low and the high 16."""
    return (pair & np.uint32(0xFFFF)).astype(np.uint16), (pair >> np.uint32(16)).astype(np.uint16)


def joined_halves(low: Array, high: Array) -> Array:
    """Joins the low and the high 16 bits."""
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))
