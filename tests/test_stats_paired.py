"""Comparisons of two cases by the rounds that they share."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_rounds import compare_rounds

from gdnbench.stats.interval import Comparison, Interval, Variance, Verdict, half_width_of
from gdnbench.stats.paired import PairedLogRatio, judge_paired, more_rounds_to_decide
from gdnbench.stats.processes import Between

CLOCK = np.array([1.0, 1.01, 0.99, 1.02, 0.98])  # what both sides share in each round
WOBBLE = np.array([1.0, 1.0002, 0.9998, 1.0001, 0.9999])  # what they do not

ROUNDS = st.lists(
    st.tuples(st.floats(min_value=1.0, max_value=10.0), st.floats(min_value=1.0, max_value=10.0)),
    min_size=2,
    max_size=20,
).map(lambda pairs: tuple(np.array(side) for side in zip(*pairs, strict=True)))

MIRROR = {
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.SLOWER: Verdict.FASTER,
    Verdict.SAME: Verdict.SAME,
    Verdict.UNCLEAR: Verdict.UNCLEAR,
}


@pytest.mark.parametrize(
    ("kernel_time", "verdict"),
    [(0.98, Verdict.FASTER), (1.02, Verdict.SLOWER), (1.0, Verdict.SAME), (1 / 1.005, Verdict.UNCLEAR)],
)
def test_the_shared_clock_cancels(kernel_time, verdict):
    comparison = compare_rounds(5.0 * CLOCK * WOBBLE * kernel_time, 5.0 * CLOCK)
    assert comparison.verdict is verdict
    assert comparison.speedup.estimate == pytest.approx(1 / kernel_time, rel=1e-4)
    assert comparison.speedup.relative_half_width < 1e-3


def test_a_speedup_worked_by_hand():
    # log-ratios log 2 and log 8: mean log 4, sd log(4) / sqrt(2), half-width 12.7062 * log(4) / 2
    speedup = compare_rounds(np.array([1.0, 1.0]), np.array([2.0, 8.0])).speedup
    half_width = 12.7062 * math.log(4) / 2
    assert speedup.estimate == pytest.approx(4.0)
    assert math.log(speedup.high / 4.0) == pytest.approx(half_width, rel=1e-5)
    assert math.log(4.0 / speedup.low) == pytest.approx(half_width, rel=1e-5)


@pytest.mark.parametrize(("kernel_us", "verdict"), [(4.0, Verdict.FASTER), (6.25, Verdict.SLOWER), (5.0, Verdict.SAME)])
def test_rounds_without_any_spread_are_sure(kernel_us, verdict):
    comparison = compare_rounds(np.full(5, kernel_us), np.full(5, 5.0))
    assert comparison == Comparison(comparison.speedup, verdict)
    assert comparison.speedup.half_width == pytest.approx(0.0, abs=1e-12)


def test_a_round_missing_on_either_side_is_dropped_on_both():
    nan = math.nan
    kernel = np.array([4.0, nan, 4.2, 4.1, 4.3])
    baseline = np.array([5.0, 5.1, nan, 5.2, 5.1])
    kept = [0, 3, 4]
    assert compare_rounds(kernel, baseline) == compare_rounds(kernel[kept], baseline[kept])


def test_one_round_tells_nothing():
    comparison = compare_rounds(np.array([4.0, math.nan]), np.array([5.0, 5.0]))
    assert comparison.speedup == Interval(1.25, 0.0, math.inf)
    assert (comparison.verdict, comparison.more_rounds) == (Verdict.UNCLEAR, None)


def decides(mean: float, sd: float, rounds: int) -> bool:
    half_width, edge = half_width_of(Variance(sd**2 / rounds, rounds - 1), 0.95), math.log1p(0.005)
    return abs(mean) - half_width > edge or abs(mean) + half_width < edge


@given(
    st.floats(min_value=-0.03, max_value=0.03),
    st.floats(min_value=1e-4, max_value=0.1),
    st.integers(min_value=2, max_value=50),
)
def test_the_number_of_rounds_is_the_fewest_that_decide(mean, sd, n):
    more = more_rounds_to_decide(PairedLogRatio(mean, sd, n), margin=0.005, confidence=0.95)
    if more is None:
        assert not decides(mean, sd, 10_000)
    else:
        assert decides(mean, sd, n + more)
        assert more == 1 or not decides(mean, sd, n + more - 1)


@pytest.mark.parametrize("n", [0, 1])
def test_without_a_spread_nothing_can_be_foretold(n):
    assert more_rounds_to_decide(PairedLogRatio(0.01, math.nan, n), margin=0.005, confidence=0.95) is None


@given(ROUNDS)
def test_only_the_unclear_ask_for_rounds_and_by_hand_agree(sides):
    comparison = compare_rounds(*sides)
    ratio = PairedLogRatio.from_rounds(*sides)
    if comparison.verdict is Verdict.UNCLEAR:
        expected = more_rounds_to_decide(ratio, margin=0.005, confidence=0.95)
        assert comparison.more_rounds == expected
    else:
        assert comparison.more_rounds is None


@given(ROUNDS)
def test_changing_places_inverts_the_speedup_and_the_verdict(sides):
    kernel, baseline = sides
    one, other = compare_rounds(kernel, baseline), compare_rounds(baseline, kernel)
    assert other.verdict is MIRROR[one.verdict]
    assert other.speedup.estimate == pytest.approx(1 / one.speedup.estimate)
    assert math.isclose(-math.log(other.speedup.estimate), math.log(one.speedup.estimate), abs_tol=1e-12)
    if one.speedup.low > 0 and one.speedup.high < math.inf:
        assert other.speedup.high == pytest.approx(1 / one.speedup.low)
        assert other.speedup.low == pytest.approx(1 / one.speedup.high)


@given(ROUNDS, st.floats(min_value=0.0, max_value=1.0))
def test_the_p_value_and_the_interval_agree(sides, margin):
    """Significant at 5 % exactly where the 95 % interval lies outside the margin."""
    p_value = PairedLogRatio.from_rounds(*sides).p_value(margin)
    different = compare_rounds(*sides, margin=margin).verdict in {Verdict.FASTER, Verdict.SLOWER}
    assert different == (p_value < 0.05) or p_value == pytest.approx(0.05, rel=1e-6)


def test_what_lies_between_processes_widens_the_interval_and_more_rounds_do_not_lessen_it():
    rounds = PairedLogRatio(0.003, 0.001, 40)
    wide = replace(rounds, between=Between(variance=Variance(0.002**2, 10.0)))
    assert wide.speedup(0.95).half_width > 5 * rounds.speedup(0.95).half_width
    assert judge_paired(rounds, 0.005, 0.95).verdict is Verdict.SAME
    assert judge_paired(wide, 0.005, 0.95) == Comparison(wide.speedup(0.95), Verdict.UNCLEAR, None)
    assert wide.p_value(0.0) > 0.05 > rounds.p_value(0.0)


def test_processes_that_vary_more_than_rounds_explain_inflate_the_variance():
    inflated = PairedLogRatio(0.003, 0.001, 40, processes=4, between=Between(inflation=9.0, df=12.0))
    assert inflated.variance == Variance(pytest.approx(9.0 * 0.001**2 / 40), 12.0)
    assert inflated.variance_of(400).value == pytest.approx(0.001**2 / 400 + 8.0 * 0.001**2 / 40)


def test_rounds_vary_about_the_mean_of_their_process():
    process = np.repeat([0, 1], 20)
    wobble = np.tile([1.001, 0.999], 20)
    baseline = np.where(process == 0, 5.0, 5.5) * wobble
    apart = PairedLogRatio.from_rounds(np.full(40, 5.0), baseline, process)
    assert apart.sd == pytest.approx(0.001, rel=0.05)
    assert (apart.n, apart.processes) == (40, 2)
    assert PairedLogRatio.from_rounds(np.full(40, 5.0), baseline).sd > 0.04


def test_a_baseline_told_apart_from_itself_widens_the_others():
    ratio = PairedLogRatio(0.02, 0.001, 40)
    quiet, loud = PairedLogRatio(0.0002, 0.001, 40), PairedLogRatio(0.01, 0.001, 40)
    assert ratio.widened_by(None, 0.95) == ratio.widened_by(quiet, 0.95) == ratio
    assert judge_paired(ratio, 0.005, 0.95).verdict is Verdict.FASTER
    assert judge_paired(ratio.widened_by(loud, 0.95), 0.005, 0.95).verdict is Verdict.UNCLEAR
