"""Numbers of PTX: literals, and arithmetic as the GPU rounds it: fused, directed, flushed subnormals, bfloat16."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from gdnbench.errors import NotInterpretedError
from gdnbench.ptx.program import WIDTHS, Variable

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_INTEGERS = {"b": "u", "u": "u", "s": "i"}
DTYPES: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(bool),
    **{f"{kind}{8 * size}": np.dtype(f"{held}{size}") for kind, held in _INTEGERS.items() for size in (1, 2, 4, 8)},
    "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8"), "tf32": np.dtype("f4"),
    "bf16": np.dtype("u2"), "bf16x2": np.dtype("u4"), "f16x2": np.dtype("u4"),
    "f32x2": np.dtype("u8"), "e4m3x2": np.dtype("u2"), "e5m2x2": np.dtype("u2"), "e2m1x2": np.dtype("u1"),
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


def _signed(sizes: Array) -> Array:
    return np.concatenate([sizes, -sizes])


_BITS = np.arange(128)
_E4M3 = np.ldexp((_BITS & 7) + 8.0 * (_BITS > 7), np.maximum(_BITS >> 3, 1) - 10)
SHORT_FLOATS: dict[str, Array] = {
    "e4m3": _signed(np.where(_BITS == 127, np.nan, _E4M3)),
    "e5m2": _signed((_BITS << 8).astype(np.uint16).view(np.float16).astype(np.float64)),
    "e2m1": _signed(np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])),
}
"""The value of each bit pattern of 8 and 4 bits (OCP Microscaling Formats Specification)."""


def narrowed(value: Array, kind: str) -> Array:
    """Rounds floats to a type of `SHORT_FLOATS`, the nearest or of two the even one; beyond its largest to that.

    NaN is 0x7f, or the largest where the type has none.
    """
    half = len(SHORT_FLOATS[kind]) // 2
    sizes = SHORT_FLOATS[kind][:half]
    finite = sizes[np.isfinite(sizes)]
    below, above = (np.searchsorted((finite[1:] + finite[:-1]) / 2, np.abs(value), side) for side in ("left", "right"))
    bits = np.where(below % 2, above, below) + np.where(np.signbit(value), half, 0)
    return np.asarray(np.where(np.isnan(value), half - 1, bits))


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
    """Splits bits into the low and the high half of them."""
    half = BITS[pair.dtype.itemsize // 2]
    return pair.astype(half), (pair >> pair.dtype.type(8 * half.itemsize)).astype(half)


def joined_halves(low: Array, high: Array) -> Array:
    """Joins the low and the high half of some bits."""
    whole = BITS[2 * low.dtype.itemsize]
    return np.asarray(low.astype(whole) | (high.astype(whole) << whole.type(4 * whole.itemsize)))


_VARIABLE = re.compile(
    r"\.(?P<space>global|const|shared|local|param)\b(?:\s*\.align\s+(?P<align>\d+))?(?:\s*\.attribute\([^)]*\))?"
    r"(?:\s*\.ptr(?:\s*\.\w+)*(?:\s*\.align\s+\d+)?)?"
    r"\s*\.(?P<vector>v[24]\s+\.)?(?P<type>\w+)\s*(?:\.ptr[\s\w.]*?)?\s+(?P<name>[\w$%.]+)\s*(?P<sizes>(?:\[\d*\])*)"
    r"\s*(?:=\s*(?P<value>.*))?$",
    re.DOTALL,
)


def read_variables(text: str) -> tuple[Variable, ...]:
    """Reads declarations separated by commas, such as those of parameters."""
    return tuple(read_variable(each) for each in text.split(",") if each.strip())


def read_variable(text: str) -> Variable:
    """Reads a variable's declaration, without the semicolon; raises NotInterpretedError for an unknown form."""
    match = _VARIABLE.match(text.strip())
    if match is None or match["type"] not in WIDTHS:
        raise NotInterpretedError(f"the declaration `{' '.join(text.split())[:80]}` cannot be interpreted")
    lanes = int(match["vector"][1]) if match["vector"] else 1
    width = WIDTHS[match["type"]] * lanes
    count, sizes = 1, re.findall(r"\[(\d*)\]", match["sizes"] or "")
    for size in sizes:
        count *= int(size or 0)
    content = _content(match["value"], match["type"], count * width) if match["value"] else b""
    return Variable(match["name"], match["space"], int(match["align"] or width), count * width, content)


def _content(value: str, kind: str, nbytes: int) -> bytes:
    words = [word for word in re.split(r"[{},\s]+", value) if word]
    parts = []
    for word in words:
        bits = read_number(word, kind)
        if bits is None:
            raise NotInterpretedError(f"a variable that starts as `{word}` cannot be interpreted")
        parts.append((bits % (1 << 8 * WIDTHS[kind])).to_bytes(WIDTHS[kind], "little"))
    return b"".join(parts).ljust(nbytes, b"\0")


def read_number(text: str, kind: str) -> int | None:
    """Returns a literal's bits in a type, or None if the text is not a literal."""
    text = text.rstrip("U")
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return _as_kind(int(text[2:], 16), 4, kind)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return _as_kind(int(text[2:], 16), 8, kind)
    if not re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)", text):
        return 32 if text == "WARP_SZ" else None
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    base = 0 if digits.lower().startswith(("0x", "0b")) or digits == "0" else 8 if digits.startswith("0") else 10
    return sign * int(digits, base)


def _as_kind(bits: int, width: int, kind: str) -> int:
    if not kind.startswith("f") or WIDTHS[kind] == width:
        return bits
    value = struct.unpack("<f" if width == 4 else "<d", bits.to_bytes(width, "little"))[0]
    return int.from_bytes(struct.pack({2: "<e", 4: "<f", 8: "<d"}[WIDTHS[kind]], value), "little")


def holder_of(kind: str) -> np.dtype[Any]:
    """The dtype that holds a register of a type, as bits."""
    return DTYPES["pred"] if kind == "pred" else BITS[WIDTHS[kind]]


def view_as(values: Array, kind: str) -> Array:
    """Views bits as a type; a wider register gives its low bits."""
    if kind == "pred":
        return values.astype(bool)
    width = WIDTHS[kind]
    if values.dtype.itemsize != width:
        values = values.astype(BITS[width])
    return np.ascontiguousarray(values).view(DTYPES[kind]) if values.ndim else values.view(DTYPES[kind])
