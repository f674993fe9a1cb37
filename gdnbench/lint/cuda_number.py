"""Integers of CUDA C++ before it runs: their type by C's rules, their bounds, and whether they fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gdnbench.lint import span as spans
from gdnbench.lint.span import Span

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class CudaNumber:
    """A number, or a pointer.

    Attributes:
        bits: of its type; 0 if unknown or not an integer.
        span: bounds; None if unknown, and for a pointer.
        wide: the operation in which it overflowed its type, and the value reached; else None.
    """

    bits: int = 0
    signed: bool = True
    span: Span | None = None
    is_pointer: bool = False
    wide: tuple[Node, int] | None = None


UNKNOWN_NUMBER = CudaNumber()
POINTER = CudaNumber(is_pointer=True)

_TYPES: Mapping[str, tuple[int, bool]] = {
    "int": (32, True), "int32_t": (32, True), "signed": (32, True), "short": (32, True), "char": (32, True),
    "unsigned": (32, False), "uint32_t": (32, False), "unsigned int": (32, False), "uint": (32, False),
    "bool": (32, True), "size_t": (64, False), "uint64_t": (64, False), "unsigned long long": (64, False),
    "unsigned long": (64, False), "long long": (64, True), "int64_t": (64, True), "long": (64, True),
    "ptrdiff_t": (64, True), "std::size_t": (64, False),
}  # fmt: skip

_OPERATIONS: Mapping[str, Callable[[Span | None, Span | None], Span | None]] = {
    "+": spans.add,
    "-": spans.subtract,
    "*": spans.multiply,
    "/": spans.divide,
    "%": spans.remainder,
}


def literal(text: str) -> CudaNumber:
    """Parses a literal: `128`, `0x20`, `1ull`."""
    found = re.fullmatch(r"(0[xX][0-9a-fA-F']+|[0-9][0-9']*)([uUlLzZ]*)", text)
    if not found:
        return UNKNOWN_NUMBER
    value, suffix = int(found[1].replace("'", ""), 0 if found[1][:2].lower() == "0x" else 10), found[2].lower()
    if value >= 1 << 62:
        return UNKNOWN_NUMBER
    bits = 64 if "l" in suffix or "z" in suffix or value >= 1 << 31 else 32
    return CudaNumber(bits, "u" not in suffix, spans.constant_span(value))


def of_type(number: CudaNumber, type_name: str, node: Node) -> CudaNumber:
    """Converts a number to a declared, cast or returned type; unknown if that is not an integer type."""
    bare = re.sub(r"\b(const|constexpr|static|volatile|mutable)\b", "", type_name).strip()
    if bare == "auto":
        return number
    bits, signed = _TYPES.get(re.sub(r"\s+", " ", bare), (0, True))
    if not bits:
        return CudaNumber(wide=number.wide)
    return _checked(replace(number, bits=bits, signed=signed, is_pointer=False), node)


def combined(sign: str, left: CudaNumber, right: CudaNumber, node: Node) -> CudaNumber:
    """Returns `left sign right` by C's usual conversions; a pointer and an offset give a pointer."""
    wide = left.wide or right.wide
    if left.is_pointer or right.is_pointer:
        return CudaNumber(is_pointer=True, wide=wide)
    if not (left.bits and right.bits):
        return CudaNumber(wide=wide)
    bits = max(left.bits, right.bits)
    signed = all(each.signed for each in (left, right) if each.bits == bits)
    span = _OPERATIONS[sign](left.span, right.span) if sign in _OPERATIONS else None
    return _checked(CudaNumber(bits, signed, span, wide=wide), node)


def _checked(number: CudaNumber, node: Node) -> CudaNumber:
    """Marks the number if its type cannot hold it."""
    if number.span is None or number.span.fits(number.bits, signed=number.signed):
        return number
    low, high = number.span.bounds
    grew = low >= 0 and number.bits == 32
    return replace(number, span=None, wide=number.wide or ((node, high) if grew else None))
