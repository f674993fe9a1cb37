import math

import numpy as np
import pytest

from gdnbench.stats.interval import (
    Comparison,
    Interval,
    Variance,
    Verdict,
    half_width_of,
    judge,
    share_of,
    t_interval,
    t_upper_tail,
)


def test_half_widths():
    interval = Interval(4.0, 3.0, 6.0)
    assert interval.half_width == 1.5
    assert interval.relative_half_width == 0.375
    assert Interval(-4.0, -6.0, -3.0).relative_half_width == 0.375


@pytest.mark.parametrize(
    ("estimate", "low", "high"),
    [(1.0, 2.0, 0.0), (1.0, math.nan, 2.0), (1.0, 0.0, math.nan), (3.0, 0.0, 2.0), (-1.0, 0.0, 2.0)],
)
def test_an_illegal_interval_cannot_be_made(estimate, low, high):
    with pytest.raises(ValueError, match=r"interval needs|lies outside"):
        Interval(estimate, low, high)


@pytest.mark.parametrize(
    ("n", "confidence", "critical"),
    [(2, 0.95, 12.7062), (5, 0.95, 2.7764), (21, 0.95, 2.0860), (21, 0.99, 2.8453), (10_000, 0.95, 1.9602)],
)
def test_critical_values_are_those_of_the_tables(n, confidence, critical):
    assert half_width_of(Variance(1.0, n - 1), confidence) == pytest.approx(critical, abs=1e-4)


def test_the_tail_is_that_of_the_tables_and_keeps_its_digits():
    assert t_upper_tail(2.0860, 20) == pytest.approx(0.025, abs=1e-5)
    assert 0.0 < t_upper_tail(40.0, 20) < 1e-18


def test_an_interval_worked_by_hand():
    # mean 3, sd sqrt(2.5), t_{4, 0.975} = 2.7764: 2.7764 * sqrt(2.5 / 5) = 1.9632
    interval = t_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert (interval.estimate, interval.low, interval.high) == pytest.approx((3.0, 1.0368, 4.9632), abs=1e-4)


def test_one_value_says_nothing_of_its_spread():
    assert t_interval(np.array([5.0])) == Interval(5.0, -math.inf, math.inf)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [1.0, math.inf]])
def test_bad_values_are_refused(values):
    with pytest.raises(ValueError, match="values"):
        t_interval(np.array(values))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.006, 1.02, Verdict.FASTER),
        (0.98, 0.994, Verdict.SLOWER),
        (0.996, 1.004, Verdict.SAME),
        (1.005, 1.02, Verdict.UNCLEAR),
        (0.98, 1.001, Verdict.UNCLEAR),
        (0.98, 1.02, Verdict.UNCLEAR),
        (0.0, math.inf, Verdict.UNCLEAR),
    ],
)
def test_the_verdict_is_read_off_the_interval(low, high, verdict):
    assert judge(Interval(1.0 if low <= 1.0 <= high else low, low, high), 0.005) is verdict


def test_a_settled_comparison_cannot_ask_for_rounds():
    with pytest.raises(ValueError, match="no more rounds"):
        Comparison(Interval(1.0, 1.0, 1.0), Verdict.SAME, more_rounds=3)


@pytest.mark.parametrize(("count", "trials"), [(1, 20), (10, 20), (3, 72), (71, 72)])
def test_an_end_is_the_share_that_makes_the_count_as_unlikely_as_the_tail(count, trials):
    from scipy.stats import binom  # which takes half a second, here and not in each process of the tests

    share = share_of(count, trials)
    assert share.estimate == count / trials
    assert binom.sf(count - 1, trials, share.low) == pytest.approx(0.025)
    assert binom.cdf(count, trials, share.high) == pytest.approx(0.025)


def test_none_and_all_have_one_end():
    assert (share_of(0, 72).low, share_of(0, 72).high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 72)))
    assert (share_of(72, 72).low, share_of(72, 72).high) == (pytest.approx(0.025 ** (1 / 72)), 1.0)


@pytest.mark.parametrize(("count", "trials", "confidence"), [(3, 2, 0.95), (-1, 2, 0.95), (1, 2, 1.0)])
def test_what_is_no_share_is_refused(count, trials, confidence):
    with pytest.raises(ValueError, match=r"not a share|confidence"):
        share_of(count, trials, confidence)
