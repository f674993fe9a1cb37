"""Several comparisons at once: Holm's procedure by hand; the best of many by hand and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_rounds import compare_family, compare_rounds
from timing_model import TimingModel

from gdnbench.stats.interval import Verdict
from gdnbench.stats.multiple import compare_with_best, holm_levels

P_VALUES = st.lists(st.floats(min_value=0.0, max_value=1.0), min_size=1, max_size=15)


def rounds(time_us, sd, seed, n=21):
    return time_us * np.exp(np.random.default_rng(seed).normal(0.0, sd, n))


BASELINE = rounds(5.0, 0.0005, seed=0)
FAMILY = {
    "same": (rounds(5.0, 0.0005, seed=1), BASELINE),
    "fast": (rounds(4.0, 0.0005, seed=2), BASELINE),
    "noisy": (rounds(5.0, 0.05, seed=3), BASELINE),
    "slow": (rounds(6.0, 0.0005, seed=4), BASELINE),
    "once": (np.append(5.0, np.full(20, np.nan)), BASELINE),
}


def test_levels_worked_by_hand():
    # Sorted: 0.001 <= 0.05/4 and 0.01 <= 0.05/3 are rejected; 0.03 > 0.05/2 stops it, so 0.04 stays at 0.05/2.
    assert holm_levels([0.04, 0.001, 0.03, 0.01], 0.05) == [0.05 / 2, 0.05 / 4, 0.05 / 2, 0.05 / 3]


def adjusted(p_values):
    """Holm's adjusted p-values, the other textbook form of the same procedure."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    result = np.empty(len(p_values))
    result[order] = np.maximum.accumulate(factors * np.asarray(p_values)[order])
    return result


@given(P_VALUES)
def test_the_levels_reject_what_holms_adjusted_p_values_reject(p_values):
    for p_value, level, adjusted_p in zip(p_values, holm_levels(p_values, 0.05), adjusted(p_values), strict=True):
        assert (p_value <= level) == (adjusted_p <= 0.05) or adjusted_p == pytest.approx(0.05)


def test_each_of_a_family_gets_its_verdict_in_the_order_given():
    family = compare_family(FAMILY)
    assert [(name, comparison.verdict) for name, comparison in family.items()] == [
        ("same", Verdict.SAME),
        ("fast", Verdict.FASTER),
        ("noisy", Verdict.UNCLEAR),
        ("slow", Verdict.SLOWER),
        ("once", Verdict.UNCLEAR),
    ]


def test_each_interval_is_the_one_at_its_own_level():
    family = compare_family(FAMILY)
    # Five members, two rejected: they were judged at 1/5 and 1/4 of 5 %, the rest at 1/3.
    for name in ("same", "noisy", "once"):
        assert family[name] == compare_rounds(*FAMILY[name], confidence=1 - (1 - 0.95) / 3)
    rejected = {
        (name, standing)
        for name in ("fast", "slow")
        for standing in (5, 4)
        if family[name] == compare_rounds(*FAMILY[name], confidence=1 - (1 - 0.95) / standing)
    }
    assert rejected in ({("fast", 5), ("slow", 4)}, {("fast", 4), ("slow", 5)})


def test_a_family_can_take_away_a_claim_that_stood_alone():
    kernel = rounds(5.0 / 1.0062, 0.0022, seed=8)
    alone = compare_rounds(kernel, BASELINE)
    among = compare_family({0: (kernel, BASELINE)} | dict.fromkeys(range(1, 12), (BASELINE, BASELINE)))[0]
    assert (alone.verdict, among.verdict) == (Verdict.FASTER, Verdict.UNCLEAR)
    assert among.speedup.low < 1.005 < alone.speedup.low
    assert among.more_rounds is not None


@given(st.lists(st.floats(min_value=0.98, max_value=1.02), min_size=1, max_size=8), st.integers(0, 1000))
def test_a_verdict_can_be_read_off_the_printed_interval(times, seed):
    family = {i: (rounds(5.0 * t, 0.005, seed=seed + i), BASELINE) for i, t in enumerate(times)}
    for comparison in compare_family(family).values():
        low, high = comparison.speedup.low, comparison.speedup.high
        assert (comparison.verdict is Verdict.FASTER) == (low > 1.005)
        assert (comparison.verdict is Verdict.SLOWER) == (high < 1 / 1.005)
        assert (comparison.verdict is Verdict.SAME) == (low >= 1 / 1.005 and high <= 1.005)


LOOKS = (7, 14, 28, 56)
TIED = 8  # that are as fast as the best
TIME_US = 4.4
QUIET = TimingModel(samples=100)


def racers(rng, slowdowns, rounds):
    """Round times of points whose times relative to the first are known; all share the level of a round."""
    levels = QUIET.levels(rng, 1)[0]
    levels = np.resize(levels, rounds)
    return {name: QUIET.normal_times(rng, TIME_US * slow, levels) for name, slow in enumerate(slowdowns)}


def race(times, judge):
    """The points that every look leaves in; a dropped one is measured no more, as in a sweep."""
    left, most = set(times), len(times[0])
    for look, rounds in enumerate(LOOKS, start=1):
        seen = {
            name: np.where(np.arange(most) < (rounds if name in left else LOOKS[0]), values, np.nan)[:rounds]
            for name, values in times.items()
        }
        left -= judge(seen, left, look)
    return left


def by_the_book(seen, left, look, margin=0.0):
    field = compare_with_best(seen, margin=margin, look=look)
    return {name for name, each in field.others.items() if each.verdict is Verdict.SLOWER}


def naive(seen, left, look):
    """What not to do: the fastest so far, and each look and each rival at 95 %."""
    del look
    leader = min(left, key=lambda name: float(np.nanmean(seen[name])))
    return {
        name
        for name in left - {leader}
        if compare_rounds(seen[name], seen[leader], margin=0.0).verdict is Verdict.SLOWER
    }


def losses(judge, trials, seed):
    """How often the best, of which there are copies, is dropped at any look, with no margin to save it."""
    rng = np.random.default_rng(seed)
    slowdowns = [1.0] * TIED + [1.03, 1.1]
    return np.mean([0 not in race(racers(rng, slowdowns, LOOKS[-1]), judge) for _ in range(trials)])


def test_the_fastest_point_is_dropped_no_more_often_than_promised():
    trials = 200
    assert losses(by_the_book, trials, seed=1) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_looking_again_and_again_at_95_percent_drops_it_far_more_often():
    assert losses(naive, 80, seed=1) > 0.15


def test_only_the_first_of_several_looks_may_spend_half_of_the_chance():
    """Every look as if it were the first: with many looks, that spends more than there is."""
    first, second = (
        compare_with_best({"a": np.array([4.0, 4.1, 4.2]), "b": np.array([4.1, 4.21, 4.29])}, look=look)
        for look in (1, 2)
    )
    assert second.others["b"].speedup.low < first.others["b"].speedup.low
    assert second.others["b"].speedup.high > first.others["b"].speedup.high


def test_points_that_are_clearly_slower_are_dropped_at_once_and_the_best_leads():
    rng = np.random.default_rng(4)
    fields = [compare_with_best(racers(rng, [1.0] + [1.05] * 20, LOOKS[0])) for _ in range(50)]
    assert np.mean([field.leader == 0 for field in fields]) == 1.0
    dropped = [each.verdict is Verdict.SLOWER for field in fields for each in field.others.values()]
    assert np.mean(dropped) > 0.95


def test_a_point_with_fewer_rounds_never_leads():
    lucky = np.array([3.0, 3.0, np.nan, np.nan])
    field = compare_with_best(
        {"lucky": lucky, "a": np.array([4.0, 4.1, 4.0, 4.1]), "b": np.array([5.0, 5.1, 5.0, 5.1])}
    )
    assert field.leader == "a"
    assert field.others["lucky"].speedup.estimate > 1.0
    assert field.others["lucky"].verdict is not Verdict.SLOWER


def test_a_dropped_point_is_compared_by_the_rounds_that_both_have():
    """A race slows down as the GPU warms up; the point that was measured early gets no credit for it."""
    early = np.array([4.0, 4.01, 3.99, np.nan, np.nan, np.nan])
    late = np.array([4.0, 4.01, 3.99, 8.0, 8.01, 7.99])
    field = compare_with_best({"early": early, "late": late})
    assert field.leader == "late"
    assert field.others["early"].speedup.estimate == pytest.approx(1.0)
