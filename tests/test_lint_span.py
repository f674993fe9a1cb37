"""Bounds of numbers hold for every number, against all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.lint import span as spans

ranges = st.tuples(st.integers(-60, 60), st.integers(0, 30)).map(lambda pair: (pair[0], pair[0] + pair[1]))
OPERATIONS = {
    spans.add: lambda a, b: a + b,
    spans.subtract: lambda a, b: a - b,
    spans.multiply: lambda a, b: a * b,
    spans.divide: lambda a, b: a // b,
    spans.remainder: lambda a, b: a % b,
    spans.minimum: min,
    spans.maximum: max,
}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
@given(left=ranges, right=ranges)
def test_no_number_is_outside_of_its_bounds(operation, left, right):
    found = operation(spans.span_between(*left), spans.span_between(*right))
    if found is None:
        assert operation in {spans.divide, spans.remainder}
        return
    low, high = found.bounds
    every = [OPERATIONS[operation](a, b) for a in range(left[0], left[1] + 1) for b in range(right[0], right[1] + 1)]
    assert low <= min(every)
    assert max(every) <= high


@pytest.mark.parametrize("grid", [(3,), (2, 3), (2, 3, 4)])
def test_every_program_has_its_own_numbers(grid):
    axes = spans.program_spans(grid)
    told = {tuple(int(axis.least[place]) for axis in axes) for place in range(int(np.prod(grid)))}
    assert len(told) == np.prod(grid)
    assert [axis.bounds[1] + 1 for axis in axes] == [*grid, 1, 1][:3]


def test_the_last_programs_of_a_large_grid_are_among_those_looked_at():
    x, y, _ = spans.program_spans((1 << 20, 100))
    assert x.bounds == (0, (1 << 20) - 1)
    assert y.bounds == (0, 99)


def test_what_even_64_bits_do_not_hold_is_unknown():
    large = spans.constant_span(1 << 40)
    assert spans.multiply(large, large) is None
    assert spans.add(None, large) is None


@pytest.mark.parametrize(("value", "signed", "fits"), [
    ((1 << 31) - 1, True, True), (1 << 31, True, False), (-(1 << 31), True, True), (-(1 << 31) - 1, True, False),
    (1 << 31, False, True), (1 << 32, False, False), (-1, False, False),
])  # fmt: skip
def test_the_limits_of_32_bits(value, signed, fits):
    assert spans.constant_span(value).fits(32, signed=signed) == fits
