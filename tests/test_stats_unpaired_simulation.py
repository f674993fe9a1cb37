"""Do comparisons across runs keep their promise? Simulated runs whose truth is known, each claim with a naive rival.

A simulated run has every source of variation that stored runs show: the launch of its process, that of its host, what
a workload moves by, what the placements of a case make of its time, and the noise of its rounds.
"""

import math

import numpy as np
import pytest
from compare_data import compared, figure, ratios_of, source
from decode_workloads import decode_at

from gdnbench.analyse.run_change import RunChange
from gdnbench.stats.interval import Verdict
from gdnbench.stats.paired import mean_time, unpaired_log_ratio

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
