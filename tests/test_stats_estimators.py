"""Estimators: exact on few samples, unmoved by outliers, steady where a median jumps between two peaks."""

from __future__ import annotations

import numpy as np
import pytest
from timing_model import TimingModel

from gdnbench.stats.estimators import interpolated_median, trimmed_mean
from gdnbench.store.settings import GPU_TRIM, INTERQUARTILE

# By number of samples: how much of each, in ascending order, lies between the quartiles.
WEIGHTS = {
    1: [0.5],
    2: [0.5, 0.5],
    3: [0.25, 1, 0.25],
    4: [0, 1, 1, 0],
    5: [0, 0.75, 1, 0.75, 0],
    6: [0, 0.5, 1, 1, 0.5, 0],
    7: [0, 0.25, 1, 1, 1, 0.25, 0],
    8: [0, 0, 1, 1, 1, 1, 0, 0],
}
ASCENDING = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 190.0]


@pytest.mark.parametrize("count", WEIGHTS)
def test_few_samples_worked_by_hand(count):
    samples, weights = ASCENDING[:count], WEIGHTS[count]
    assert sum(weights) == count / 2
    by_hand = sum(weight * sample for weight, sample in zip(weights, samples, strict=True)) / sum(weights)
    assert trimmed_mean(np.array(samples), INTERQUARTILE) == pytest.approx(by_hand, rel=1e-14)


@pytest.mark.parametrize("count", [4, 8, 100, 252])
def test_where_no_sample_is_cut_it_is_the_mean_of_the_middle_half(count):
    samples = np.random.default_rng(count).lognormal(size=count)
    assert trimmed_mean(samples, INTERQUARTILE) == pytest.approx(
        np.sort(samples)[count // 4 : -count // 4].mean(), rel=1e-12
    )
    assert trimmed_mean(samples, 0.0) == pytest.approx(samples.mean(), rel=1e-12)


def test_of_64_samples_three_and_a_fifth_are_left_out_at_either_end():
    samples = np.sort(np.random.default_rng(1).lognormal(size=64))
    by_hand = (samples[4:-4].sum() + 0.8 * (samples[3] + samples[-4])) / 57.6
    assert trimmed_mean(samples, GPU_TRIM) == pytest.approx(by_hand, rel=1e-12)
    wild = np.concatenate([np.full(3, 1e-3), samples[3:-3], np.full(3, 1e9)])
    assert trimmed_mean(wild, GPU_TRIM) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("trim", [-0.01, 0.5, 1.0, np.nan])
def test_a_share_that_leaves_nothing_is_refused(trim):
    with pytest.raises(ValueError, match="cannot be left out"):
        trimmed_mean(np.ones(4), trim)


def peaked_us(rng, time_us, phase_us, shape):
    """Times that end at the next slot of a cycle of 0.2 µs, which begins elsewhere in every process, in ticks."""
    ends = time_us + rng.normal(0.0, 0.03, shape) + rng.uniform(0.0, 0.2, shape) * (rng.random(shape) < 0.7)
    return np.rint((np.ceil((ends - phase_us) / 0.2) * 0.2 + phase_us + rng.normal(0.0, 0.02, shape)) / 0.032) * 0.032


def test_what_a_kernel_takes_longer_reads_the_same_in_every_process():
    """0.08 µs in 5.8, over 40 processes whose peaks lie elsewhere: the middle half reads anything from 0.02 to 0.15."""
    rng, phases = np.random.default_rng(3), np.linspace(0.0, 0.2, 40, endpoint=False)
    read = {GPU_TRIM: [], INTERQUARTILE: []}
    for phase_us in phases:
        one, other = (peaked_us(rng, time_us, phase_us, (60, 64)) for time_us in (5.80, 5.88))
        for trim, differences in read.items():
            means = [np.mean([trimmed_mean(samples, trim) for samples in rounds]) for rounds in (one, other)]
            differences.append(means[1] - means[0])
    nearly_all, middle = (np.std(differences) for differences in read.values())
    assert np.mean(read[GPU_TRIM]) == pytest.approx(0.08, abs=0.004)
    assert nearly_all < middle / 2


@pytest.mark.parametrize("count", [40, 41, 42, 43])
def test_up_to_a_quarter_of_outliers_on_either_side_changes_nothing(count):
    ordered = np.sort(np.random.default_rng(count).normal(5.0, 0.1, count))
    expected, quarter = trimmed_mean(ordered, INTERQUARTILE), count // 4
    wild = ordered.copy()
    wild[:quarter], wild[-quarter:] = 1e-3, 1e9
    assert trimmed_mean(wild, INTERQUARTILE) == expected
    wild[-quarter - 1] = 1e9
    assert trimmed_mean(wild, INTERQUARTILE) > 1e3


@pytest.mark.parametrize("samples", [[], [np.nan], [1.0, np.nan, 2.0], [1.0, np.inf], [-np.inf, 1.0, 2.0, 3.0, 4.0]])
def test_bad_samples_are_refused(samples):
    with pytest.raises(ValueError, match="finite"):
        trimmed_mean(np.array(samples), INTERQUARTILE)


def test_between_two_peaks_it_moves_by_a_share_of_the_gap_where_the_median_jumps():
    """Peaks 0.16 µs apart, half of the samples in each: how far do rounds of one and the same kernel differ?"""
    rng = np.random.default_rng(9)
    rounds = rng.choice([5.00, 5.16], (500, 250)) + rng.normal(0.0, 0.01, (500, 250))
    trimmed = np.std([trimmed_mean(samples, INTERQUARTILE) for samples in rounds])
    median = np.std([interpolated_median(samples, None) for samples in rounds])
    assert trimmed < median / 4
    assert trimmed < 0.1 * 0.16


def errors_us(noise):
    """Errors of trimmed and interpolated median, over true times spread across a tick; 250 samples each."""
    model, rng = TimingModel(noise=noise, samples=250, outlier_share=0.0), np.random.default_rng(6)
    truth = rng.uniform(5.0, 5.0 + model.tick_us, 4000)
    samples = model.samples_us(rng, 1.0, truth)
    trimmed = np.array([trimmed_mean(s, GPU_TRIM) for s in samples]) - model.true_time_us(1.0) * truth
    median = np.array([interpolated_median(s, model.tick_us) for s in samples]) - truth
    return model.tick_us, trimmed, median


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_ticks_do_not_bias_it(noise):
    """Within four standard errors of nothing, and those are below a thousandth of the time."""
    _, trimmed, _ = errors_us(noise)
    error = trimmed.std() / np.sqrt(trimmed.size)
    assert abs(trimmed.mean()) < 4 * error < 0.005
