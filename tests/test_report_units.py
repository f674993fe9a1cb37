"""Units of columns, and rates: chosen once, for every table."""

import math

import pytest

from gdnbench.render.units import MICROSECONDS, MILLISECONDS, half_text, plus_minus, tflops_text, time_unit


@pytest.mark.parametrize(
    ("times_us", "unit"),
    [
        ((), MICROSECONDS),
        ((math.nan,), MICROSECONDS),
        ((4.5, 12_000.0), MICROSECONDS),
        ((9_999.9, 12_000.0), MICROSECONDS),
        ((10_000.0, 12_000.0), MILLISECONDS),
        ((math.nan, 10_000.0), MILLISECONDS),
    ],
)
def test_a_column_is_in_milliseconds_where_all_of_its_known_times_are_long(times_us, unit):
    assert time_unit(times_us) == unit


@pytest.mark.parametrize(
    ("tflops", "text"), [(0.5178, "0.52"), (41.26, "41.3"), (811.7, "812"), (1234.0, "1234"), (math.nan, "")]
)
def test_a_rate_has_three_digits(tflops, text):
    assert tflops_text(tflops) == text


@pytest.mark.parametrize(
    ("half", "told"),
    [
        (0.0, "±0.00%"),
        (0.0027, "±0.27%"),
        (1.3, "±130%"),
        (9.0, "±900%"),
        (9.01, "±>900%"),
        (1e200, "±>900%"),
        (math.inf, ""),
        (math.nan, ""),
    ],
)
def test_half_of_an_interval_has_digits_where_they_tell_something(half, told):
    assert half_text(half) == told
    assert plus_minus(half) == (f" {told}" if told else "")
