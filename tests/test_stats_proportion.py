"""Shares and their intervals, held against the binomial distribution that defines them."""

import math

import pytest
from scipy.stats import binom

from gdnbench.stats.interval import share_of


@pytest.mark.parametrize(("count", "trials"), [(1, 20), (10, 20), (3, 72), (71, 72)])
def test_an_end_is_the_share_that_makes_the_count_as_unlikely_as_the_tail(count, trials):
    share = share_of(count, trials)
    assert share.estimate == count / trials
    assert binom.sf(count - 1, trials, share.low) == pytest.approx(0.025)
    assert binom.cdf(count, trials, share.high) == pytest.approx(0.025)


def test_none_and_all_have_one_end():
    assert (share_of(0, 72).low, share_of(0, 72).high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 72)))
    assert (share_of(72, 72).low, share_of(72, 72).high) == (pytest.approx(0.025 ** (1 / 72)), 1.0)


def test_without_trials_nothing_is_known():
    nothing = share_of(0, 0)
    assert math.isnan(nothing.estimate)
    assert (nothing.low, nothing.high) == (0.0, 1.0)


@pytest.mark.parametrize(("count", "trials", "confidence"), [(3, 2, 0.95), (-1, 2, 0.95), (1, 2, 1.0)])
def test_what_is_no_share_is_refused(count, trials, confidence):
    with pytest.raises(ValueError, match=r"no share|confidence"):
        share_of(count, trials, confidence)
