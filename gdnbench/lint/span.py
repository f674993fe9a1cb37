"""Bounds of whole numbers in a kernel: a least and a greatest value for each program or block of the grid.

What follows from the number of the program is exact, for it is computed for each of them; what differs within one, such
as the lanes of `tl.arange` or `threadIdx.x`, is bounded from both sides. None stands for a number of which nothing is
known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

_MOST_PROGRAMS = 1 << 16  # the first and the last ones of a larger grid stand for all
_LARGEST = 2.0**62

Bounds = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Span:
    """Least and greatest value, as arrays over programs or of one element for all of them."""

    least: Bounds
    most: Bounds

    @property
    def value(self) -> int | None:
        """The number, where it is the same everywhere."""
        low, high = self.bounds
        return low if low == high else None

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and greatest over all programs."""
        return int(self.least.min()), int(self.most.max())

    @property
    def is_exact(self) -> bool:
        """Whether it is one number in each program."""
        return bool(np.array_equal(self.least, self.most))

    def fits(self, bits: int, *, signed: bool = True) -> bool:
        """Whether every value is a number of so many bits."""
        low, high = self.bounds
        return low >= (-(1 << (bits - 1)) if signed else 0) and high < 1 << (bits - 1 if signed else bits)


def constant_span(value: int) -> Span:
    """One number."""
    return span_between(value, value)


def span_between(least: int, most: int) -> Span:
    """All numbers from `least` to `most`."""
    return Span(np.array([least], dtype=np.int64), np.array([most], dtype=np.int64))


def program_spans(grid: tuple[int, ...]) -> tuple[Span, Span, Span]:
    """The number of the program or block along x, y and z, for each of the grid.

    Raises:
        ValueError: if the grid is empty.
    """
    sizes = (*grid, 1, 1)[:3]
    count = prod(sizes)
    if count < 1:
        raise ValueError(f"a grid of {sizes} has no programs")
    numbers = np.arange(min(count, _MOST_PROGRAMS), dtype=np.int64)
    half = _MOST_PROGRAMS // 2
    if count > _MOST_PROGRAMS:
        numbers[half:] += count - _MOST_PROGRAMS
    places = (numbers % sizes[0], numbers // sizes[0] % sizes[1], numbers // (sizes[0] * sizes[1]))
    x, y, z = (Span(place, place) for place in places)
    return x, y, z


def add(left: Span | None, right: Span | None) -> Span | None:
    """Their sum."""
    return _combined(np.add, left, right)


def subtract(left: Span | None, right: Span | None) -> Span | None:
    """Their difference."""
    return add(left, negate(right))


def negate(span: Span | None) -> Span | None:
    """Minus it."""
    return Span(-span.most, -span.least) if span else None


def multiply(left: Span | None, right: Span | None) -> Span | None:
    """Their product."""
    return _combined(np.multiply, left, right)


def divide(left: Span | None, right: Span | None) -> Span | None:
    """Their quotient, rounded towards zero, where neither is negative and the divisor not zero."""
    if left is None or right is None or left.bounds[0] < 0 or right.bounds[0] < 1:
        return None
    return Span(left.least // right.most, left.most // right.least)


def remainder(left: Span | None, right: Span | None) -> Span | None:
    """What the quotient leaves, where neither is negative and the divisor is known."""
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
    """The lesser of both."""
    return Span(np.minimum(left.least, right.least), np.minimum(left.most, right.most)) if left and right else None


def maximum(left: Span | None, right: Span | None) -> Span | None:
    """The greater of both."""
    return Span(np.maximum(left.least, right.least), np.maximum(left.most, right.most)) if left and right else None


def either(left: Span | None, right: Span | None) -> Span | None:
    """What is one or the other."""
    return Span(np.minimum(left.least, right.least), np.maximum(left.most, right.most)) if left and right else None


def _combined(operation: Callable[[Any, Any], Any], left: Span | None, right: Span | None) -> Span | None:
    """A sum or a product, whose bounds are among those of the operands' bounds; None if int64 may not hold them."""
    if left is None or right is None:
        return None
    pairs = [(a, b) for a in (left.least, left.most) for b in (right.least, right.most)]
    if any(np.abs(operation(a.astype(float), b.astype(float))).max() > _LARGEST for a, b in pairs):
        return None
    found = [operation(a, b) for a, b in pairs]
    return Span(np.minimum.reduce(found), np.maximum.reduce(found))
