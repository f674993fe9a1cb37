from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.stats import Verdict, compare_family, compare_rounds
from gdnbench.stats.holm import holm_levels

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


# --- the levels


def test_levels_worked_by_hand():
    # Sorted: 0.001 <= 0.05/4 and 0.01 <= 0.05/3 are rejected; 0.03 > 0.05/2 stops it, so 0.04 stays at 0.05/2.
    assert holm_levels([0.04, 0.001, 0.03, 0.01], 0.05) == [0.05 / 2, 0.05 / 4, 0.05 / 2, 0.05 / 3]


def test_levels_when_all_or_none_are_rejected():
    assert holm_levels([0.0, 0.0, 0.0], 0.06) == pytest.approx([0.02, 0.03, 0.06])
    assert holm_levels([0.5, 1.0, 0.03], 0.06) == pytest.approx([0.02, 0.02, 0.02])
    assert holm_levels([], 0.05) == []


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


@given(P_VALUES)
def test_holm_lies_between_bonferroni_and_no_correction(p_values):
    assert all(0.05 / len(p_values) <= level <= 0.05 for level in holm_levels(p_values, 0.05))


# --- the family


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


@pytest.mark.parametrize("name", FAMILY)
def test_a_family_of_one_is_a_plain_comparison(name):
    assert compare_family({name: FAMILY[name]}) == {name: compare_rounds(*FAMILY[name])}


def test_a_family_can_take_away_a_claim_that_stood_alone():
    kernel = rounds(5.0 / 1.0062, 0.0022, seed=8)
    alone = compare_rounds(kernel, BASELINE)
    among = compare_family({0: (kernel, BASELINE)} | dict.fromkeys(range(1, 12), (BASELINE, BASELINE)))[0]
    assert (alone.verdict, among.verdict) == (Verdict.FASTER, Verdict.UNCLEAR)
    assert among.speedup.low < 1.005 < alone.speedup.low
    assert among.more_rounds is not None


def test_an_empty_family_has_no_verdicts():
    assert compare_family({}) == {}


def test_a_bad_member_is_refused():
    with pytest.raises(ValueError, match="positive"):
        compare_family({"bad": (np.zeros(3), np.ones(3))})
    with pytest.raises(ValueError, match="margin"):
        compare_family(FAMILY, margin=-1.0)


@given(st.permutations(list(FAMILY)))
def test_the_order_of_a_family_does_not_matter(order):
    assert compare_family({name: FAMILY[name] for name in order}) == compare_family(FAMILY)


@given(st.lists(st.floats(min_value=0.98, max_value=1.02), min_size=1, max_size=8), st.integers(0, 1000))
def test_a_verdict_can_be_read_off_the_printed_interval(times, seed):
    family = {i: (rounds(5.0 * t, 0.005, seed=seed + i), BASELINE) for i, t in enumerate(times)}
    for comparison in compare_family(family).values():
        low, high = comparison.speedup.low, comparison.speedup.high
        assert (comparison.verdict is Verdict.FASTER) == (low > 1.005)
        assert (comparison.verdict is Verdict.SLOWER) == (high < 1 / 1.005)
        assert (comparison.verdict is Verdict.SAME) == (low >= 1 / 1.005 and high <= 1.005)
