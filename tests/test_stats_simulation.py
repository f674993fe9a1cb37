"""Do the intervals and verdicts keep their promises? Simulated runs whose truth is known.

A claim is paired with a naive use of the same that fails the check on the same data, so that checks are known to be
able to fail.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from paired_rounds import compare_family, compare_rounds
from timing_model import TimingModel, trimmed_means

from gdnbench.stats.estimators import interpolated_median, trimmed_mean
from gdnbench.stats.interval import Interval, Verdict
from gdnbench.store.settings import GPU_TRIM

TRIALS = 800
BASELINE_US = 5.13
DIFFERENT = {Verdict.FASTER, Verdict.SLOWER}


def share(hits) -> float:
    return float(np.mean(list(hits)))


def at_most(promise: float, trials: int) -> float:
    """The largest share that chance allows where `promise` holds: three standard errors above it."""
    return promise + 3.0 * np.sqrt(promise * (1.0 - promise) / trials)


def holds(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


@pytest.fixture(scope="module")
def drifting():
    """Round times, shape (TRIALS, 41), of a baseline, its twin and a kernel 1 % faster, under all drift."""
    model, rng = TimingModel(), np.random.default_rng(20240601)
    levels = model.levels(rng, TRIALS)
    return SimpleNamespace(
        baseline=model.round_times(rng, BASELINE_US, levels),
        twin=model.round_times(rng, BASELINE_US, levels),
        faster=model.round_times(rng, BASELINE_US / 1.01, levels),
    )


@pytest.mark.parametrize("samples", [4, 5, 6, 7, 50, 250])
def test_the_simulated_rounds_have_the_time_that_gdnbench_gives_them(samples):
    model, rng = TimingModel(samples=samples), np.random.default_rng(8)
    rounds = model.samples_us(rng, BASELINE_US, model.levels(rng, 2))
    expected = [[trimmed_mean(one_round, GPU_TRIM) for one_round in trial] for trial in rounds]
    np.testing.assert_allclose(trimmed_means(rounds), expected, rtol=1e-12)


def test_coverage_of_a_speedup(drifting):
    for kernel, truth in ((drifting.twin, 1.0), (drifting.faster, 1.01)):
        comparisons = map(compare_rounds, kernel, drifting.baseline)
        assert 0.93 <= share(holds(c.speedup, truth) for c in comparisons) <= 0.97


def test_measure_one_after_the_other_does_not_cover(drifting):
    """Half the rounds for the baseline, then half for the kernel: the drift becomes a difference."""
    first, last = drifting.baseline[:, :20], drifting.twin[:, -20:]
    assert share(holds(compare_rounds(k, b).speedup, 1.0) for k, b in zip(last, first, strict=True)) < 0.5


def test_one_percent_is_found(drifting):
    found = map(compare_rounds, drifting.faster, drifting.baseline)
    assert share(c.verdict is Verdict.FASTER for c in found) >= 0.95
    found = map(compare_rounds, drifting.baseline, drifting.faster)
    assert share(c.verdict is Verdict.SLOWER for c in found) >= 0.95


def test_equal_kernels_are_called_the_same(drifting):
    verdicts = [compare_rounds(k, b).verdict for k, b in zip(drifting.twin, drifting.baseline, strict=True)]
    assert share(v in DIFFERENT for v in verdicts) <= 0.05
    assert share(v is Verdict.SAME for v in verdicts) >= 0.95


def test_without_a_margin_equal_kernels_differ_as_often_as_promised(drifting):
    """The sharp test of the level: neither more often nor much less often than 5 %."""
    comparisons = [compare_rounds(k, b, margin=0.0) for k, b in zip(drifting.twin, drifting.baseline, strict=True)]
    false_claims = share(c.verdict in DIFFERENT for c in comparisons)
    assert 1.0 - at_most(0.95, TRIALS) <= false_claims <= at_most(0.05, TRIALS)


def families(trials: int, true_speedup: float, seed: int):
    """Families of 12 kernels that share one baseline, as in a run."""
    model, rng = TimingModel(), np.random.default_rng(seed)
    for levels in model.levels(rng, trials):
        baseline = model.normal_times(rng, BASELINE_US, levels)
        kernels = model.normal_times(rng, BASELINE_US / true_speedup, np.tile(levels, (12, 1)))
        yield {index: (kernel, baseline) for index, kernel in enumerate(kernels)}


def any_different(comparisons) -> bool:
    return any(comparison.verdict in DIFFERENT for comparison in comparisons)


@pytest.mark.parametrize(("true_speedup", "margin"), [(1.0, 0.0), (1.005, 0.005)], ids=["equal", "on-the-margin"])
def test_a_family_makes_no_more_false_claims_than_one(true_speedup, margin):
    trials = list(families(TRIALS, true_speedup, seed=3))
    corrected = share(any_different(compare_family(f, margin=margin).values()) for f in trials)
    assert corrected <= at_most(0.05, TRIALS)
    naive = share(any_different(compare_rounds(*p, margin=margin) for p in f.values()) for f in trials[:250])
    assert naive > 0.10


def test_a_family_still_finds_one_percent():
    found = [
        comparison.verdict is Verdict.FASTER
        for family in families(120, 1.01, seed=4)
        for comparison in compare_family(family).values()
    ]
    assert share(found) >= 0.95


@pytest.mark.parametrize("true_speedup", [1.0, 1.002, 1.01], ids=["same", "0.2%", "1%"])
def test_the_further_rounds_asked_for_settle_it(true_speedup):
    """Five noisy rounds, then as many more as asked for; a quarter as many would not have done."""
    model, rng = TimingModel(rounds=5, samples=50), np.random.default_rng(5)
    enough, too_few = [], []
    for levels in model.levels(rng, 500):
        kernel = model.normal_times(rng, BASELINE_US / true_speedup, levels)
        baseline = model.normal_times(rng, BASELINE_US, levels)
        more = compare_rounds(kernel, baseline).more_rounds
        if more is None or more < 8:
            continue
        further = np.ones(more)
        kernel = np.append(kernel, model.normal_times(rng, BASELINE_US / true_speedup, further))
        baseline = np.append(baseline, model.normal_times(rng, BASELINE_US, further))
        enough.append(compare_rounds(kernel, baseline).verdict is not Verdict.UNCLEAR)
        part = 5 + more // 4
        too_few.append(compare_rounds(kernel[:part], baseline[:part]).verdict is not Verdict.UNCLEAR)
    assert len(enough) >= 100
    assert share(enough) > 0.5 > share(too_few)


@pytest.mark.parametrize("noise", [0.003, 0.03])
def test_the_interpolated_median_is_nearer_the_truth(noise):
    """Over true times spread across a tick, so that no one phase of the grid decides."""
    model, rng = TimingModel(noise=noise, outlier_share=0.0), np.random.default_rng(6)
    truth = rng.uniform(5.0, 5.0 + model.tick_us, TRIALS)
    samples = model.samples_us(rng, 1.0, truth)
    errors = {tick: np.array([interpolated_median(s, tick) for s in samples]) - truth for tick in (model.tick_us, None)}
    rms = {tick: np.sqrt(np.mean(error**2)) for tick, error in errors.items()}
    assert rms[model.tick_us] < rms[None]
