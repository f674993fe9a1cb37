from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.stats.estimators import infer_resolution_us, interpolated_median

TICK_US = 0.032
TICK_COUNTS = st.lists(st.integers(min_value=1, max_value=2000), min_size=1, max_size=60)


def as_timer(ticks, tick_us=TICK_US):
    """Tick counts as NVBench gives them: float32 seconds."""
    return (np.asarray(ticks) * (tick_us * 1e-6)).astype(np.float32).astype(np.float64) * 1e6


def ticked(time_us, relative_sd, n, tick_us=TICK_US, seed=0):
    times = np.random.default_rng(seed).normal(time_us, relative_sd * time_us, n)
    return as_timer(np.rint(times / tick_us), tick_us)


@pytest.mark.parametrize("time_us", [2.85, 5.13, 20.6, 69.0, 260.6, 1000.0])
@pytest.mark.parametrize("tick_us", [0.001, 0.032, 0.5, 1.024])
def test_the_tick_is_found(time_us, tick_us):
    samples = ticked(time_us, max(0.01, 3 * tick_us / time_us), 20_000, tick_us)
    found = infer_resolution_us(samples)
    if tick_us == 0.001 and time_us > 500:  # a millionth of the time: float32 hides it, and nobody misses it
        assert found is None
    else:
        assert found == pytest.approx(tick_us, rel=1e-5)


def test_the_tick_is_found_in_a_pool_of_short_and_long_cases():
    pool = np.concatenate([ticked(t, 0.005, 2000, seed=i) for i, t in enumerate((2.85, 5.13, 69.0, 260.6))])
    assert infer_resolution_us(pool) == pytest.approx(TICK_US, rel=1e-6)


def test_the_tick_is_found_where_neighbouring_values_never_differ_by_one_tick():
    """Gaps of 2 and 3 ticks: the smallest gap is not the tick."""
    counts = np.repeat(np.cumsum([100, 2, 3, 2, 3, 2, 3, 2, 3]), 10)
    assert infer_resolution_us(as_timer(counts)) == pytest.approx(TICK_US, rel=1e-6)


def test_even_multiples_alone_look_like_twice_the_tick():
    """The documented limit: nothing in such samples tells of the finer tick."""
    even = np.repeat(np.arange(100, 120, 2), 10)
    assert infer_resolution_us(as_timer(even)) == pytest.approx(2 * TICK_US, rel=1e-6)
    one_odd_value = np.append(even, [107, 107])
    assert infer_resolution_us(as_timer(one_odd_value)) == pytest.approx(TICK_US, rel=1e-6)


def test_a_few_strays_are_forgiven_and_many_are_not():
    grid = ticked(5.13, 0.03, 10_000)
    strays = np.random.default_rng(1).uniform(4.0, 6.0, 1000)
    assert infer_resolution_us(np.append(grid, strays[:50])) == pytest.approx(TICK_US, rel=1e-6)
    assert infer_resolution_us(np.append(grid, strays)) is None


@pytest.mark.parametrize("n", [2, 10, 500, 100_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_continuous_times_have_no_tick(n, dtype):
    for seed in range(5):
        samples = np.random.default_rng(seed).lognormal(np.log(5.13), 0.03, n).astype(dtype)
        assert infer_resolution_us(samples.astype(np.float64)) is None


@pytest.mark.parametrize("ticks", [[], [120], [120] * 1000, [120, 121, 122, 123, 124] * 100])
def test_too_few_values_are_no_evidence(ticks):
    assert infer_resolution_us(as_timer(ticks)) is None


def test_a_median_worked_by_hand():
    # m = 121, F = 2, f = 4, n = 8: 120.5 + (4 - 2) / 4 = 121.0, and one more sample above moves it on.
    ticks = [119, 120, 121, 121, 121, 121, 122, 123]
    assert interpolated_median(as_timer(ticks), TICK_US) == pytest.approx(121.0 * TICK_US)
    assert interpolated_median(as_timer([*ticks, 124]), TICK_US) == pytest.approx(121.125 * TICK_US)


@pytest.mark.parametrize(
    ("samples", "tick_us", "message"),
    [
        ([], TICK_US, "no samples"),
        ([], None, "no samples"),
        ([1.0, np.nan], TICK_US, "finite"),
        ([1.0, np.nan], None, "finite"),
        ([1.0, np.inf], None, "finite"),
        ([1.0], 0.0, "resolution"),
        ([1.0], -1.0, "resolution"),
        ([1.0], np.nan, "resolution"),
    ],
)
def test_bad_samples_are_refused(samples, tick_us, message):
    with pytest.raises(ValueError, match=message):
        interpolated_median(np.array(samples), tick_us)


@given(TICK_COUNTS.filter(lambda ticks: len(ticks) % 2 == 1))
def test_it_is_the_standard_librarys_grouped_median(ticks):
    assert interpolated_median(as_timer(ticks), TICK_US) == pytest.approx(
        TICK_US * statistics.median_grouped(ticks), rel=1e-9
    )


@given(TICK_COUNTS)
def test_the_median_stays_within_half_a_tick(ticks):
    samples = as_timer(ticks)
    moved = interpolated_median(samples, TICK_US) - np.median(samples)
    assert abs(moved) <= TICK_US * (0.5 + 1e-3)
