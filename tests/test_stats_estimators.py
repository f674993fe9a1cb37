"""Estimators: exact on few samples, unmoved by outliers, steady where a median jumps between two peaks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import trim_mean
from timing_model import TimingModel

from gdnbench.stats.estimators import QN_EFFICIENCY, interpolated_median, interquartile_mean, robust_scale

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
TIMES = st.lists(st.floats(min_value=0.1, max_value=1e6), min_size=1, max_size=60)


@pytest.mark.parametrize("count", WEIGHTS)
def test_few_samples_worked_by_hand(count):
    samples, weights = ASCENDING[:count], WEIGHTS[count]
    assert sum(weights) == count / 2
    by_hand = sum(weight * sample for weight, sample in zip(weights, samples, strict=True)) / sum(weights)
    assert interquartile_mean(np.array(samples)) == pytest.approx(by_hand, rel=1e-14)


@pytest.mark.parametrize("count", [4, 8, 100, 252])
def test_where_no_sample_is_cut_it_is_the_trimmed_mean(count):
    samples = np.random.default_rng(count).lognormal(size=count)
    assert interquartile_mean(samples) == pytest.approx(trim_mean(samples, 0.25), rel=1e-12)


@given(TIMES, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(samples, random):
    shuffled = np.array(random.sample(samples, len(samples)))
    assert interquartile_mean(shuffled) == interquartile_mean(np.array(samples))


@given(TIMES, st.floats(min_value=0.01, max_value=100.0), st.floats(min_value=0.0, max_value=100.0))
def test_it_follows_the_unit_and_a_shift(samples, factor, shift):
    moved = interquartile_mean(factor * np.array(samples) + shift)
    assert moved == pytest.approx(factor * interquartile_mean(np.array(samples)) + shift, rel=1e-9)


@given(TIMES)
def test_it_lies_among_the_samples(samples):
    assert min(samples) * (1 - 1e-12) <= interquartile_mean(np.array(samples)) <= max(samples) * (1 + 1e-12)


def test_equal_samples_are_their_own_mean():
    for count in range(1, 10):
        assert interquartile_mean(np.full(count, 5.12)) == pytest.approx(5.12, rel=1e-14)


def test_the_samples_stay_as_they_were():
    samples = np.array([3.0, 1.0, 2.0, 9.0, 4.0])
    interquartile_mean(samples)
    assert samples.tolist() == [3.0, 1.0, 2.0, 9.0, 4.0]


@pytest.mark.parametrize("count", [40, 41, 42, 43])
def test_up_to_a_quarter_of_outliers_on_either_side_changes_nothing(count):
    ordered = np.sort(np.random.default_rng(count).normal(5.0, 0.1, count))
    expected, quarter = interquartile_mean(ordered), count // 4
    wild = ordered.copy()
    wild[:quarter], wild[-quarter:] = 1e-3, 1e9
    assert interquartile_mean(wild) == expected
    wild[-quarter - 1] = 1e9
    assert interquartile_mean(wild) > 1e3


@pytest.mark.parametrize("samples", [[], [np.nan], [1.0, np.nan, 2.0], [1.0, np.inf], [-np.inf, 1.0, 2.0, 3.0, 4.0]])
def test_bad_samples_are_refused(samples):
    with pytest.raises(ValueError, match="finite"):
        interquartile_mean(np.array(samples))


def test_between_two_peaks_it_moves_by_a_share_of_the_gap_where_the_median_jumps():
    """Peaks 0.16 µs apart, half of the samples in each: how far do rounds of one and the same kernel differ?"""
    rng = np.random.default_rng(9)
    rounds = rng.choice([5.00, 5.16], (500, 250)) + rng.normal(0.0, 0.01, (500, 250))
    midmean = np.std([interquartile_mean(samples) for samples in rounds])
    median = np.std([interpolated_median(samples, None) for samples in rounds])
    assert midmean < median / 4
    assert midmean < 0.1 * 0.16


def errors_us(noise):
    """Errors of midmean and interpolated median, over true times spread across a tick; 250 samples each."""
    model, rng = TimingModel(noise=noise, samples=250, outlier_share=0.0), np.random.default_rng(6)
    truth = rng.uniform(5.0, 5.0 + model.tick_us, 4000)
    samples = model.samples_us(rng, 1.0, truth)
    midmean = np.array([interquartile_mean(s) for s in samples]) - model.true_time_us(1.0) * truth
    median = np.array([interpolated_median(s, model.tick_us) for s in samples]) - truth
    return model.tick_us, midmean, median


def rms(errors):
    return np.sqrt(np.mean(errors**2))


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_ticks_do_not_bias_it(noise):
    """Within four standard errors of nothing, and those are below a thousandth of the time."""
    _, midmean, _ = errors_us(noise)
    error = midmean.std() / np.sqrt(midmean.size)
    assert abs(midmean.mean()) < 4 * error < 0.005


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
def test_it_is_no_further_from_the_truth_than_the_interpolated_median(noise):
    _, midmean, median = errors_us(noise)
    assert rms(midmean) <= rms(median)


def test_where_the_noise_is_half_a_tick_it_still_finds_an_eighth_of_one():
    """Here the interpolated median does better: too few ticks are in the middle half to average over."""
    tick_us, midmean, median = errors_us(0.003)
    assert rms(median) < rms(midmean) < tick_us / 8


RNG = np.random.default_rng(5)


@pytest.mark.parametrize("count", [8, 9, 12, 41, 75])
def test_it_is_right_on_average_for_normal_values(count):
    assert np.mean([robust_scale(RNG.normal(0, 2.0, count)) for _ in range(2000)]) == pytest.approx(2.0, rel=0.03)


def test_its_efficiency_is_as_told():
    values = RNG.normal(0, 1.0, (2000, 75))
    robust, plain = np.var([robust_scale(each) for each in values]), np.var(values.std(axis=1, ddof=1))
    assert plain / robust == pytest.approx(QN_EFFICIENCY, abs=0.08)


def test_a_few_far_off_change_little_where_a_standard_deviation_explodes():
    values = np.append(RNG.normal(0, 1.0, 20), [50.0, -80.0])
    assert robust_scale(values) < 2.0
    assert np.std(values, ddof=1) > 10


def test_equal_values_have_none_and_impossible_ones_are_refused():
    assert robust_scale(np.zeros(9)) == 0
    for bad in (np.array([1.0]), np.array([1.0, np.nan, 2.0])):
        with pytest.raises(ValueError, match="two values"):
            robust_scale(bad)
