"""Bounds of integers in a kernel: a smallest and a largest value for each program or block of the grid.

Values that follow from the program's index are exact, as they are computed for each program; values that differ within
a program, such as the lanes of `tl.arange` or `threadIdx.x`, have both bounds. None is an unknown number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

_MOST_PROGRAMS = 1 << 16  # of a larger grid, the first and the last programs represent all
_LARGEST = 2.0**62

Bounds = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Span:
    """Smallest and largest value, as arrays over programs, or of one element for all of them."""

    least: Bounds
    most: Bounds

    @property
    def value(self) -> int | None:
        """The number, or None if it varies."""
        low, high = self.bounds
        return low if low == high else None

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value over all programs."""
        return int(self.least.min()), int(self.most.max())

    @property
    def largest(self) -> float:
        """The largest absolute value over all programs."""
        low, high = self.bounds
        return float(max(-low, high))

    @property
    def ends(self) -> tuple[Bounds, ...]:
        """Smallest and largest values; one array where they are the same one, for which all is computed once."""
        return (self.least,) if self.least is self.most else (self.least, self.most)

    @property
    def is_exact(self) -> bool:
        """Whether there is a single number in each program."""
        return bool(np.array_equal(self.least, self.most))

    def fits(self, bits: int, *, signed: bool = True) -> bool:
        """Whether every value fits in an integer of so many bits."""
        low, high = self.bounds
        return low >= (-(1 << (bits - 1)) if signed else 0) and high < 1 << (bits - 1 if signed else bits)


def constant_span(value: int) -> Span:
    """Returns a span of one number."""
    return span_between(value, value)


def span_between(least: int, most: int) -> Span:
    """Returns the span from `least` to `most`."""
    low = np.array([least], dtype=np.int64)
    return Span(low, low if least == most else np.array([most], dtype=np.int64))


def program_spans(grid: tuple[int, ...]) -> tuple[Span, Span, Span]:
    """Returns the index of each program or block along x, y and z."""
    sizes = (*grid, 1, 1)[:3]
    count = prod(sizes)
    numbers = np.arange(min(count, _MOST_PROGRAMS), dtype=np.int64)
    half = _MOST_PROGRAMS // 2
    if count > _MOST_PROGRAMS:
        numbers[half:] += count - _MOST_PROGRAMS
    places = (numbers % sizes[0], numbers // sizes[0] % sizes[1], numbers // (sizes[0] * sizes[1]))
    x, y, z = (Span(place, place) for place in places)
    return x, y, z


def add(left: Span | None, right: Span | None) -> Span | None:
    """Returns the sum."""
    return _combined(np.add, left, right)


def subtract(left: Span | None, right: Span | None) -> Span | None:
    """Returns the difference."""
    return add(left, negate(right))


def negate(span: Span | None) -> Span | None:
    """Returns the negated span."""
    if span is None:
        return None
    low = -span.most
    return Span(low, low if span.least is span.most else -span.least)


def multiply(left: Span | None, right: Span | None) -> Span | None:
    """Returns the product."""
    return _combined(np.multiply, left, right)


def divide(left: Span | None, right: Span | None) -> Span | None:
    """Returns the quotient, rounded towards zero, if both are nonnegative and the divisor is not zero."""
    if left is None or right is None or left.bounds[0] < 0 or right.bounds[0] < 1:
        return None
    return Span(left.least // right.most, left.most // right.least)


def remainder(left: Span | None, right: Span | None) -> Span | None:
    """Returns the remainder, if both are nonnegative and the divisor is exact."""
    if left is None or right is None or not right.is_exact or left.bounds[0] < 0 or right.bounds[0] < 1:
        return None
    divisor = right.least
    within = left.least // divisor == left.most // divisor
    zero = np.zeros_like(left.least + divisor)
    return Span(
        np.where(within, left.least % divisor, zero),
        np.where(within, left.most % divisor, np.minimum(left.most, divisor - 1)),
    )


def minimum(left: Span | None, right: Span | None) -> Span | None:
    """Returns the smaller of both."""
    return Span(np.minimum(left.least, right.least), np.minimum(left.most, right.most)) if left and right else None


def maximum(left: Span | None, right: Span | None) -> Span | None:
    """Returns the larger of both."""
    return Span(np.maximum(left.least, right.least), np.maximum(left.most, right.most)) if left and right else None


def either(left: Span | None, right: Span | None) -> Span | None:
    """Returns a span that holds both."""
    return Span(np.minimum(left.least, right.least), np.maximum(left.most, right.most)) if left and right else None


def _combined(operation: Callable[[Any, Any], Any], left: Span | None, right: Span | None) -> Span | None:
    """Returns a sum or a product, bounded by those of the operands' bounds, or None if int64 may not hold them."""
    if left is None or right is None or operation(left.largest, right.largest) > _LARGEST:
        return None
    found = [operation(a, b) for a in left.ends for b in right.ends]
    if len(found) == 1:
        return Span(found[0], found[0])
    return Span(np.minimum.reduce(found), np.maximum.reduce(found))
