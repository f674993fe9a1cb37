"""The verdict of an interval against a margin."""

import math

import pytest

from gdnbench.stats.interval import Comparison, Interval, Verdict, judge


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
