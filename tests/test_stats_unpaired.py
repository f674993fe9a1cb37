"""Differences of separate rounds: means, Satterthwaite's degrees of freedom, and verdicts that agree with intervals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.stats.interval import Variance, Verdict
from gdnbench.stats.multiple import compare_unpaired
from gdnbench.stats.paired import UnpairedLogRatio, mean_time, unpaired_log_ratio

RNG = np.random.default_rng(3)
LEFT, RIGHT = 5.0 * np.exp(RNG.normal(0, 0.01, 11)), 4.0 * np.exp(RNG.normal(0, 0.03, 31))


def log_ratio(kernel_us, baseline_us, **more):
    return unpaired_log_ratio(mean_time(kernel_us), mean_time(baseline_us), **more)


def test_it_is_welchs_t_interval_of_relative_times_where_there_are_no_other_components():
    from scipy.stats import ttest_ind  # which takes half a second, here and not in each process of the tests

    expected = ttest_ind(LEFT / LEFT.mean(), RIGHT / RIGHT.mean(), equal_var=False)
    low, high = expected.confidence_interval(0.95)
    ratio = log_ratio(RIGHT, LEFT)
    found = ratio.speedup(0.95)
    assert ratio.variance.df == pytest.approx(expected.df)
    assert found.estimate == pytest.approx(LEFT.mean() / RIGHT.mean())
    assert np.log([found.low, found.high]) == pytest.approx(np.log(found.estimate) + np.array([low, high]))


def test_the_longer_launch_is_taken_from_both_sides_by_half():
    ratio = log_ratio(RIGHT + 0.5, LEFT, launch_us=0.5)
    assert math.exp(ratio.mean) == pytest.approx((LEFT.mean() + 0.25) / (RIGHT.mean() + 0.25))
    back = log_ratio(LEFT, RIGHT + 0.5, launch_us=-0.5)
    assert (back.mean, back.half_width(0.9)) == pytest.approx((-ratio.mean, ratio.half_width(0.9)))
    assert math.isnan(log_ratio(RIGHT, LEFT, launch_us=9.0).mean)


def test_what_differs_between_processes_is_no_error_of_the_mean():
    apart = np.concatenate([LEFT, LEFT + 0.9])
    processes = np.repeat([1, 2], LEFT.size)
    one, two = mean_time(apart), mean_time(apart, processes)
    assert one.mean_us == two.mean_us
    assert two.error.df == 2 * (LEFT.size - 1)
    assert two.error.value == pytest.approx(mean_time(LEFT).error.value / 2)
    assert one.error.value > 5 * two.error.value
    assert math.isinf(mean_time(np.array([4.0, 5.0]), np.array([1, 2])).error.value)


def test_sides_can_change_places():
    one, other = log_ratio(RIGHT, LEFT).speedup(0.9), log_ratio(LEFT, RIGHT).speedup(0.9)
    assert (one.low, one.high) == pytest.approx((1 / other.high, 1 / other.low))


@pytest.mark.parametrize("rounds", [[], [np.nan], [4.0]])
def test_too_few_rounds_tell_nothing(rounds):
    ratio = log_ratio(np.array(rounds, dtype=float), LEFT)
    assert (ratio.speedup(0.95).low, ratio.speedup(0.95).high) == (0.0, math.inf)
    assert ratio.p_value(0.005) == 1.0
    assert compare_unpaired({"x": ratio})["x"].verdict is Verdict.UNCLEAR


def test_noise_is_added_in_quadrature():
    plain = log_ratio(RIGHT, LEFT)
    half = plain.half_width(0.95)
    wide = UnpairedLogRatio(plain.mean, plain.components, noise=0.03)
    assert wide.half_width(0.95) == pytest.approx(math.hypot(half, 0.03))


def test_a_component_of_few_degrees_of_freedom_widens_most():
    plain = log_ratio(RIGHT, LEFT)
    more = [replace(plain, components=(*plain.components, Variance(1e-4, df))) for df in (math.inf, 8, 1)]
    half = [each.half_width(0.95) for each in more]
    assert half == sorted(half)
    assert plain.half_width(0.95) < half[0]


def test_identical_rounds_have_no_width():
    same = np.full(5, 4.0)
    ratio = log_ratio(same, same)
    assert ratio.speedup(0.95).half_width == 0
    assert ratio.p_value(0.005) == 1.0
    assert log_ratio(same, 1.02 * same).p_value(0.005) == 0.0


@given(
    mean=st.floats(-0.1, 0.1),
    sd=st.floats(1e-4, 0.05),
    noise=st.floats(0, 0.03),
    df=st.floats(1, 50),
    level=st.floats(0.001, 0.2),
)
def test_the_p_value_and_the_interval_agree(mean, sd, noise, df, level):
    ratio = UnpairedLogRatio(mean, (Variance(sd**2, df),), noise)
    interval, p = ratio.speedup(1 - level), ratio.p_value(0.005)
    if abs(p - level) > 1e-9:
        assert (interval.low > 1.005 or interval.high < 1 / 1.005) == (p < level)


def test_a_family_is_corrected_as_a_runs_own_is():
    ratios = {index: UnpairedLogRatio(0.02, (Variance(0.006**2, 30.0),)) for index in range(20)}
    alone = compare_unpaired({0: ratios[0]})[0]
    together = compare_unpaired(ratios)[0]
    assert alone.verdict is Verdict.FASTER
    assert together.verdict is Verdict.UNCLEAR
    assert together.speedup.half_width > alone.speedup.half_width
    assert together.more_rounds is None
