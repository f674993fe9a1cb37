"""The best of many: what a race may conclude, by hand and by simulation (see `test_stats_simulation`)."""

import numpy as np
import pytest
from timing_model import TimingModel

from gdnbench.stats import Verdict, compare_rounds, compare_with_best

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
    trials = 1000
    assert losses(by_the_book, trials, seed=1) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_looking_again_and_again_at_95_percent_drops_it_far_more_often():
    assert losses(naive, 200, seed=1) > 0.15


def test_only_the_first_of_several_looks_may_spend_half_of_the_chance():
    """Every look as if it were the first: with many looks, that spends more than there is."""
    first, second = (
        compare_with_best({"a": np.array([4.0, 4.1, 4.2]), "b": np.array([4.1, 4.21, 4.29])}, look=look)
        for look in (1, 2)
    )
    assert second.others["b"].speedup.low < first.others["b"].speedup.low
    assert second.others["b"].speedup.high > first.others["b"].speedup.high


def test_the_more_rivals_the_wider_the_intervals():
    rng = np.random.default_rng(3)
    times = racers(rng, [1.0, 1.01] + [1.5] * 30, 20)
    few = compare_with_best({name: times[name] for name in (0, 1)}).others[1].speedup
    many = compare_with_best(times).others[1].speedup
    assert many.low < few.low < few.estimate == many.estimate < few.high < many.high


def test_points_that_are_clearly_slower_are_dropped_at_once_and_the_best_leads():
    rng = np.random.default_rng(4)
    fields = [compare_with_best(racers(rng, [1.0] + [1.05] * 20, LOOKS[0])) for _ in range(50)]
    assert np.mean([field.leader == 0 for field in fields]) == 1.0
    dropped = [each.verdict is Verdict.SLOWER for field in fields for each in field.others.values()]
    assert np.mean(dropped) > 0.95


def test_points_as_fast_as_the_best_end_as_the_same():
    rng = np.random.default_rng(5)
    fields = [compare_with_best(racers(rng, [1.0] * TIED, 150), look=5) for _ in range(40)]
    verdicts = [each.verdict for field in fields for each in field.others.values()]
    assert np.mean([verdict is Verdict.SAME for verdict in verdicts]) > 0.95


def test_few_rounds_do_not_make_a_tie():
    """Else every point would tie after the coarse pass."""
    rng = np.random.default_rng(6)
    noisy = TimingModel(samples=10)
    times = {name: noisy.normal_times(rng, TIME_US, np.ones(3)) for name in range(5)}
    assert {each.verdict for each in compare_with_best(times).others.values()} == {Verdict.UNCLEAR}


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


def test_the_others_keep_their_order():
    times = {name: np.array([4.0, 4.1]) + place for place, name in enumerate("dacb")}
    assert list(compare_with_best(times).others) == ["a", "c", "b"]


def test_a_single_point_leads_alone():
    field = compare_with_best({"a": np.array([4.0, 4.1])})
    assert (field.leader, field.others) == ("a", {})


def test_one_round_decides_nothing():
    field = compare_with_best({"a": np.array([4.0]), "b": np.array([40.0])})
    assert field.leader == "a"
    assert field.others["b"].verdict is Verdict.UNCLEAR
    assert field.others["b"].speedup.high == float("inf")


@pytest.mark.parametrize("times", [{}, {"a": np.array([])}, {"a": np.array([np.nan, np.nan])}])
def test_without_a_round_there_is_no_best(times):
    with pytest.raises(ValueError, match="no case has a round"):
        compare_with_best(times)


def test_looks_count_from_one():
    with pytest.raises(ValueError, match="looks count from 1"):
        compare_with_best({"a": np.array([4.0, 4.1])}, look=0)
