"""Values of a Triton function before it runs (type, shape, bounds), and its events: accesses, products, sums."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from gdnbench.lint import span as spans
from gdnbench.lint.settings import LaunchSetting
from gdnbench.lint.span import Span

CONSTANT = "constexpr"
Dims = tuple[int, ...]

_INTEGER = re.compile(r"([iu])(\d+)")
_FLOAT_BITS: Mapping[str, int] = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16}


@dataclass(frozen=True)
class WideOffset:
    """An integer that its type cannot hold: the operation, and the largest value it would have."""

    node: ast.expr
    most: int
    dtype: str


@dataclass(frozen=True)
class TritonValue:
    """A value.

    Attributes:
        dtype: Triton's type, `i32` or `bf16`, for a pointer of its elements; `constexpr` for a constant; empty if
            unknown.
        shape: () for a scalar; None if unknown.
        span: bounds of an integer, or of a pointer's offset in elements.
        tensor: the argument that a pointer points into.
        by_lane: whether it comes from `tl.arange`.
        constant: the value of a `constexpr`.
        wide: the operation in which it overflowed its type, if it did.
    """

    dtype: str = ""
    shape: Dims | None = None
    span: Span | None = None
    tensor: str = ""
    by_lane: bool = False
    constant: Any = None
    wide: WideOffset | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the compiler knows the value."""
        return self.dtype == CONSTANT

    @property
    def bits(self) -> int:
        """Bits of an element; 0 if unknown."""
        whole = _INTEGER.fullmatch(self.dtype)
        return int(whole[2]) if whole else _FLOAT_BITS.get(self.dtype, 8 if self.dtype.startswith("fp8") else 0)


UNKNOWN = TritonValue()


def constant(value: Any) -> TritonValue:
    """Returns a compile-time constant."""
    whole = isinstance(value, int) and abs(value) < 1 << 62
    return TritonValue(CONSTANT, (), spans.constant_span(int(value)) if whole else None, constant=value)


def joined(left: TritonValue, right: TritonValue) -> TritonValue:
    """Returns a value that is one or the other, after a branch."""
    if left is right or (left.is_constant and right.is_constant and left.constant == right.constant):
        return left
    return TritonValue(
        dtype=left.dtype if left.dtype == right.dtype and not left.is_constant else "",
        shape=left.shape if left.shape == right.shape else None,
        span=spans.either(left.span, right.span),
        tensor=left.tensor if left.tensor == right.tensor else "",
        by_lane=left.by_lane or right.by_lane,
        wide=left.wide or right.wide,
    )


def broadcast(left: Dims | None, right: Dims | None) -> Dims | None:
    """Returns the common shape, or None if unknown or incompatible."""
    if left is None or right is None:
        return None
    if not left or not right:
        return left or right
    if len(left) != len(right) or any(a != b and 1 not in {a, b} for a, b in zip(left, right, strict=True)):
        return None
    return tuple(max(a, b) for a, b in zip(left, right, strict=True))


def promoted(left: TritonValue, right: TritonValue) -> str:
    """Returns the result type of an operation on both; empty if unknown."""
    if left.is_constant or right.is_constant:
        other, known = (right, left) if left.is_constant else (left, right)
        if _INTEGER.fullmatch(other.dtype) and isinstance(known.constant, float):
            return "fp32"
        is_long = isinstance(known.constant, int) and not -(1 << 31) <= known.constant < 1 << 31
        return "i64" if is_long and _INTEGER.fullmatch(other.dtype) else other.dtype
    whole = [_INTEGER.fullmatch(each.dtype) for each in (left, right)]
    if all(whole):
        return max((left, right), key=lambda each: (each.bits, each.dtype[0] == "u")).dtype
    floats = [each.dtype for each in (left, right) if each.dtype in _FLOAT_BITS]
    if len(floats) == 2:
        same = floats[0] == floats[1]
        wider = max(floats, key=lambda each: _FLOAT_BITS[each])
        return wider if same or _FLOAT_BITS[wider] > 16 else "fp32"
    return floats[0] if floats and any(whole) else ""


_ON_SPANS: Mapping[type[ast.operator], Callable[[Span | None, Span | None], Span | None]] = {
    ast.Add: spans.add,
    ast.Sub: spans.subtract,
    ast.Mult: spans.multiply,
    ast.FloorDiv: spans.divide,
    ast.Mod: spans.remainder,
}
_ON_CONSTANTS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_LARGEST_POWER = 64


def binary(node: ast.expr, sign: ast.operator, left: TritonValue, right: TritonValue) -> TritonValue:
    """Returns `left sign right`."""
    if left.is_constant and right.is_constant:
        return _of_constants(sign, left, right)
    shape = broadcast(left.shape, right.shape)
    by_lane = left.by_lane or right.by_lane
    span = _ON_SPANS[type(sign)](left.span, right.span) if type(sign) in _ON_SPANS else None
    wide = left.wide or right.wide
    if left.tensor or right.tensor:
        pointer = left if left.tensor else right
        return replace(pointer, shape=shape, span=span, by_lane=by_lane, wide=wide)
    dtype = promoted(left, right)
    if isinstance(sign, ast.Div) and _INTEGER.fullmatch(dtype):
        dtype = "fp32"
    made = TritonValue(dtype, shape, span, by_lane=by_lane, wide=wide)
    return _checked(node, made)


def cast(value: TritonValue, dtype: str) -> TritonValue:
    """Converts the value to another type; overflow before the cast stays recorded."""
    return replace(value, dtype=dtype, constant=None, tensor="")


def _checked(node: ast.expr, value: TritonValue) -> TritonValue:
    whole = _INTEGER.fullmatch(value.dtype)
    if not whole or value.span is None or value.span.fits(value.bits, signed=whole[1] == "i"):
        return value
    low, high = value.span.bounds
    is_large = high >= 1 << (value.bits - 1)
    wide = value.wide or (WideOffset(node, high, value.dtype) if is_large and low >= -(1 << 31) else None)
    return replace(value, span=None, wide=wide)


def _of_constants(sign: ast.operator, left: TritonValue, right: TritonValue) -> TritonValue:
    if not all(isinstance(each.constant, int | float) for each in (left, right)):
        return UNKNOWN
    if isinstance(sign, ast.Pow | ast.LShift) and not (
        isinstance(right.constant, int) and 0 <= right.constant <= _LARGEST_POWER
    ):
        return UNKNOWN
    try:
        return constant(_ON_CONSTANTS[type(sign)](left.constant, right.constant))
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return UNKNOWN


AccessKind = Literal["load", "store", "atomic"]


@dataclass(frozen=True)
class MemoryAccess:
    """A load, a store or an atomic operation; `is_conditional` if it is in a branch that may not be taken."""

    node: ast.Call
    kind: AccessKind
    pointer: TritonValue
    masked: bool
    is_conditional: bool


@dataclass(frozen=True)
class MatrixProduct:
    """A `tl.dot`; `says_precision` if `input_precision` or `allow_tf32` is given."""

    node: ast.Call
    left: TritonValue
    says_precision: bool


@dataclass(frozen=True)
class TensorSum:
    """A `tl.sum` of the value `summed`."""

    node: ast.Call
    summed: TritonValue


TritonEvent = MemoryAccess | MatrixProduct | TensorSum


@dataclass(frozen=True)
class EventsAtSetting:
    """The events of a function at a setting, in source order; none if a `tl.static_assert` refuses it."""

    setting: LaunchSetting
    events: tuple[TritonEvent, ...]
