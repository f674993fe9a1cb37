"""Comparisons across runs: degrees of freedom and verdicts by hand, and simulated runs, each claim with a naive rival.

A simulated run has every source of variation that stored runs show: the launch of its process, that of its host, what a
workload moves by, what the placements of a case make of its time, and the noise of its rounds.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from compare_data import compared, figure, ratios_of, source
from decode_workloads import decode_at
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.analyse.run_change import RunChange
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


TRIALS = 1000
ROUNDS = 21
PROCESS_US, HOSTS_US = 0.057, (0.0, 1.65)
WORKLOAD_US, ROUND = 0.008, 0.003
PLACEMENT = {1: 0.0019, 8: 0.0014, 64: 0.0006}  # of a process, by batch, relative
TIMES = {1: 4.0, 8: 6.5, 64: 21.0}
CHANGED = "decode-0"
CLAIMS = {Verdict.FASTER, Verdict.SLOWER}


def covered(ratio, truth=0.0, confidence=0.95):
    return abs(ratio.mean - truth) <= ratio.half_width(confidence)


def test_welch_covers_where_one_side_is_short_and_wild_and_a_pooled_variance_does_not():
    rng = np.random.default_rng(1)
    hits, naive = [], []
    for _ in range(TRIALS):
        short, long = rng.normal(0, 0.03, 5), rng.normal(0, 0.003, 41)
        hits.append(covered(unpaired_log_ratio(mean_time(np.exp(short)), mean_time(np.exp(long)))))
        pooled = (4 * short.var(ddof=1) + 40 * long.var(ddof=1)) / 44
        naive.append(abs(long.mean() - short.mean()) <= 2.015 * math.sqrt(pooled * (1 / 5 + 1 / 41)))
    assert 0.93 <= np.mean(hits) <= 0.97
    assert np.mean(naive) < 0.8


def run(rng, name, kernels, *, host_us=0.0, slower=None):
    """A run of kernels at three batches; `slower` is what the first kernel's time is multiplied by, by batch."""
    launch = rng.normal(host_us, PROCESS_US)
    figures = []
    for batch, time_us in TIMES.items():
        shared = launch + rng.normal(0, WORKLOAD_US)
        for index in range(kernels):
            own = time_us * (1 + 0.03 * index) * math.exp(rng.normal(0, PLACEMENT[batch]))
            own *= (slower or {}).get(batch, 1.0) if index == 0 else 1.0
            rounds = (own + shared) * np.exp(rng.normal(0, ROUND, ROUNDS))
            figures.append(
                figure(f"decode-{index}", float(np.mean(rounds)), decode_at(B=batch), rounds=0, rounds_us=rounds)
            )
    return source(*figures, name=name)


def two_runs(rng, kernels=7, **more):
    """A run on the first host, and another on either."""
    return run(rng, "left", kernels), run(rng, "right", kernels, host_us=float(rng.choice(HOSTS_US)), **more)


@pytest.mark.parametrize("kernels", [3, 7, 15])
def test_a_case_that_nobody_changed_is_covered(kernels):
    rng = np.random.default_rng(2)
    hits, rounds_alone, launch_alone, factor = [], [], [], []
    for _ in range({3: 80, 7: 30, 15: 20}[kernels]):
        left, right = two_runs(rng, kernels)
        runs = RunChange(left, right)
        moved = np.log([a.time_us / b.time_us for a, b in zip(left.figures, right.figures, strict=True)])
        for one, other in zip(left.figures, right.figures, strict=True):
            ratio = runs.change(one, other)
            bare = unpaired_log_ratio(mean_time(other.rounds_us), mean_time(one.rounds_us))
            launch = runs.effect_on(one, other).whole.mean
            without = unpaired_log_ratio(mean_time(other.rounds_us), mean_time(one.rounds_us), launch_us=launch)
            hits.append(covered(ratio))
            rounds_alone.append(covered(bare))
            launch_alone.append(covered(without))
            factor.append(covered(bare, float(np.median(moved))))
    assert 0.93 <= np.mean(hits) < 1.0
    assert np.mean(rounds_alone) < 0.2, "the rounds of one process know nothing of the next"
    assert np.mean(factor) < 0.5, "a launch is no factor"
    assert np.mean(launch_alone) < 0.85, "nor does the launch tell how far a case strays on its own"


def test_unchanged_kernels_are_seldom_called_different_and_two_percent_at_a_small_batch_are_found():
    rng = np.random.default_rng(4)
    false, found, possible = [], [], []
    for _ in range(30):
        left, right = run(rng, "left", 7), run(rng, "right", 7, slower={1: 1.02})
        ratios = ratios_of(compared(left, right))
        slower = ratios.pop((CHANGED, 1)).comparison
        possible.append(slower.speedup.half_width + 0.005 < 0.0175)
        found.append(slower.verdict is Verdict.SLOWER)
        false.append(any(ratio.comparison.verdict in CLAIMS for ratio in ratios.values()))
    assert np.mean(false) <= 0.05
    assert np.mean(possible) > 0.3
    assert np.mean(np.array(found)[possible]) >= 0.8


def test_a_kernel_that_changed_at_one_batch_makes_no_claim_about_the_others():
    rng = np.random.default_rng(5)
    false = []
    for _ in range(12):
        ratios = ratios_of(compared(*two_runs(rng, slower={1: 2.0, 8: 1.3})))
        unchanged = [ratio for (label, _), ratio in ratios.items() if label != CHANGED]
        false.append(any(ratio.comparison.verdict in CLAIMS for ratio in unchanged))
    assert np.mean(false) <= 0.05
