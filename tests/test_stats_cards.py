"""What cards add to times, held in the intervals of several runs; cards that stray are named, others are not."""

import math

import numpy as np
import pytest
from cards_data import KERNELS_US, simulate

from gdnbench.analyse.rounds import WorkloadTimes
from gdnbench.stats.card_effects import Deviation, common_deviations, estimate_card_effects, find_strays, within_cards
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US

TRIALS = {2: 80, 4: 60}


def estimate(times, process, card, *, has_launch=True):
    usual = USUAL_LAUNCH_SD_US if has_launch else 0.0
    return estimate_card_effects(times, process, card, twins={"again"}, has_launch=has_launch, usual_sd_us=usual)


def judge(cards, *, has_launch, trials=None, seed=5, **sources):
    """Coverage of the true ratios to the baseline, and the rms z of the baseline against itself."""
    generator, covered, z = np.random.default_rng(seed), [], []
    for _ in range(trials or TRIALS[cards]):
        launch = {} if has_launch else {"launch_sd_us": 0.0}
        times, process, card = simulate(generator, cards, **launch, **sources)
        effects = estimate(times, process, card, has_launch=has_launch)
        at = WorkloadTimes(times, effects, 0.95)
        for name in {"equal", "v8", "v9"} & times.keys():
            interval = at.ratio(name, "base")
            covered.append(interval.low <= KERNELS_US["base"] / KERNELS_US[name] <= interval.high)
        again = WorkloadTimes(times, within_cards(effects), 0.95).paired("again", "base")
        z.append(again.mean / math.sqrt(again.variance.value))
    return float(np.mean(covered)), math.sqrt(float(np.mean(np.square(z))))


@pytest.mark.parametrize("has_launch", [True, False], ids=["stream", "kernel"])
@pytest.mark.parametrize("cards", [2, 4])
def test_the_interval_over_cards_holds_the_true_ratio_and_a_baseline_differs_from_itself_by_its_noise(
    cards, has_launch
):
    coverage, z = judge(cards, has_launch=has_launch)
    assert coverage >= 0.93
    assert 0.8 < z < 1.25


@pytest.mark.parametrize("has_launch", [True, False], ids=["stream", "kernel"])
def test_two_cards_and_one_kernel_beside_the_baseline_are_enough(has_launch):
    few = {name: KERNELS_US[name] for name in ("base", "again", "v9", "copy")}
    coverage, z = judge(2, has_launch=has_launch, trials=150, kernels_us=few)
    assert coverage >= 0.93
    assert 0.8 < z < 1.25


def test_the_interval_holds_times_of_cards_and_not_only_of_those_at_hand():
    """Kernel times: what all cases of a card share is in the interval of a time."""
    generator, covered = np.random.default_rng(8), []
    for _ in range(60):
        times, process, card = simulate(generator, 4, launch_sd_us=0.0)
        interval = WorkloadTimes(times, estimate(times, process, card, has_launch=False), 0.95).interval("v9")
        covered.append(interval.low <= KERNELS_US["v9"] <= interval.high)
    assert np.mean(covered) >= 0.9


def test_a_slower_card_widens_times_and_no_ratio():
    times, process, card = simulate(np.random.default_rng(3), 4, launch_sd_us=0.0, common_sd=0.0)
    shifted = {name: each * np.where(card == 2, 1.03, 1.0) for name, each in times.items()}
    before, after = (
        WorkloadTimes(each, estimate(each, process, card, has_launch=False), 0.95) for each in (times, shifted)
    )
    assert after.interval("v9").relative_half_width > 0.01 > before.interval("v9").relative_half_width
    assert after.ratio("v9", "base").half_width == pytest.approx(before.ratio("v9", "base").half_width, rel=0.2)
    assert after.ratio("v9", "base").estimate == pytest.approx(before.ratio("v9", "base").estimate, rel=1e-3)


def test_hosts_with_other_launches_are_told_and_the_ratio_is_at_their_mean():
    times, process, card = simulate(np.random.default_rng(4), 2, host_us=(0.0, 1.65))
    effects = estimate(times, process, card)
    assert effects.launches_apart_us == pytest.approx(1.65, abs=0.15)
    ratio = WorkloadTimes(times, effects, 0.95).ratio("v9", "base")
    assert ratio.estimate == pytest.approx((5.1 + 0.825) / (4.21 + 0.825), rel=0.01)
    times, process, card = simulate(np.random.default_rng(4), 2)
    assert estimate(times, process, card).launches_apart_us == 0.0


def test_a_card_with_most_of_the_rounds_leaves_the_interval_wider_than_as_many_of_each():
    """Two cards tell less where one of them has a tenth of the rounds."""
    generator, wider = np.random.default_rng(6), []
    for _ in range(30):
        times, process, card = simulate(generator, 2, launch_sd_us=0.0, card_sd=0.005)
        even = WorkloadTimes(times, estimate(times, process, card, has_launch=False), 0.95)
        kept = (card == 0) | (np.arange(len(card)) % 8 == 0)
        fewer = {name: each[kept] for name, each in times.items()}
        uneven = WorkloadTimes(fewer, estimate(fewer, process[kept], card[kept], has_launch=False), 0.95)
        wider.append(uneven.ratio("v9", "base").half_width / even.ratio("v9", "base").half_width)
    assert np.median(wider) > 1.05


def test_a_case_whose_cards_differ_more_than_the_others_is_judged_by_its_cards_alone():
    times, process, card = simulate(np.random.default_rng(9), 8)
    odd = {**times, "v8": times["v8"] * (1 + np.linspace(-0.05, 0.05, 8))[card]}
    effects = estimate(odd, process, card)
    assert effects.outliers - {"again"} == {"v8"}
    at = WorkloadTimes(odd, effects, 0.95)
    assert at.ratio("v8", "base").half_width > 3 * at.ratio("v9", "base").half_width


def deviations(generator, slower, *, has_launch):
    launch = {"launch_sd_us": 0.06 if has_launch else 0.0}
    kernels = {f"k{number}": time for number, time in enumerate((2.1, 2.3, 4.1, 4.4, 9.0, 18.0))}
    times, _, card = simulate(generator, len(slower), kernels_us=kernels, common_sd=0.001, slower=slower, **launch)
    means = np.array([[each[card == number].mean() for each in times.values()] for number in range(len(slower))])
    return common_deviations(means, has_launch=has_launch)


@pytest.mark.parametrize("has_launch", [True, False], ids=["stream", "kernel"])
def test_a_card_that_takes_two_percent_longer_is_named_and_no_other_is(has_launch):
    generator, found = np.random.default_rng(1), []
    for _ in range(40):
        strays = find_strays(deviations(generator, (0, 0, 0, 0.025, 0, 0), has_launch=has_launch))
        found.append([each.card for each in strays])
        assert all(each.share == pytest.approx(0.025, abs=0.01) for each in strays)
    assert found.count([3]) >= 36
    assert all(set(each) <= {3} for each in found)


@pytest.mark.parametrize("cards", [2, 3, 8])
def test_cards_within_noise_are_not_named(cards):
    generator = np.random.default_rng(2)
    assert not any(find_strays(deviations(generator, (0,) * cards, has_launch=False)) for _ in range(60))


def test_of_two_cards_the_slower_one_is_told_once():
    (stray,) = find_strays([Deviation(-0.01, 0.0005), Deviation(0.01, 0.0005)])
    assert (stray.card, stray.share) == (1, pytest.approx(0.02))
