"""What cards and runs add to times: found, held in the intervals, and those that stray are named."""

import math

import numpy as np
import pytest
from cards_data import KERNELS_US, simulate

from gdnbench.analyse.rounds import WorkloadTimes
from gdnbench.stats.card_effects import Deviation, common_deviations, estimate_card_effects, find_strays, within_cards
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US
from gdnbench.stats.run_effect import PRIOR_DF, Peer, Spread, estimate_run_effect

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


SPREAD = Spread(stray=0.015, workload=0.02)
WHOLE = 1.5


def peer(change, workload="B=1", variance=0.0, spread=SPREAD):
    return Peer(workload, change, variance, spread)


def half_width(prediction, more=0.0):
    parts = (prediction.own, prediction.of_workload, prediction.of_run)
    return math.sqrt(sum(part.value for part in parts) + more)


def test_without_peers_it_is_what_was_expected():
    found = estimate_run_effect([], WHOLE).predict("B=1", SPREAD)
    assert found.mean == 0.0
    assert [math.sqrt(part.value) for part in (found.own, found.of_workload, found.of_run)] == pytest.approx(
        [SPREAD.stray, SPREAD.workload, WHOLE]
    )
    assert found.own.df == PRIOR_DF


def test_what_all_share_is_found_and_hardly_drawn_to_nothing():
    effect = estimate_run_effect([peer(1.65 + each) for each in (-0.01, 0.0, 0.01)], WHOLE)
    assert effect.whole.mean == pytest.approx(1.65, abs=0.002)
    assert effect.predict("B=8", SPREAD).mean == effect.whole.mean


def test_a_workload_with_many_peers_has_an_effect_of_its_own_and_one_without_has_that_of_all():
    peers = [peer(0.09, "B=1")] * 8 + [peer(0.0, "B=64")] * 8
    effect = estimate_run_effect(peers, WHOLE)
    assert effect.predict("B=1", SPREAD).mean == pytest.approx(0.09, abs=0.005)
    assert effect.predict("B=64", SPREAD).mean == pytest.approx(0.0, abs=0.005)
    elsewhere = effect.predict("B=8", SPREAD)
    assert elsewhere.mean == pytest.approx(0.045, abs=0.005)
    assert half_width(elsewhere) > 2 * half_width(effect.predict("B=1", SPREAD))


def test_a_lone_peer_is_drawn_to_the_others_of_its_run():
    rng = np.random.default_rng(4)
    known = [peer(rng.normal(0, SPREAD.stray), f"B={batch}") for batch in range(1, 9) for _ in range(6)]
    peers = [*known, peer(0.04, "B=99")]
    assert 0.0 < estimate_run_effect(peers, WHOLE).predict("B=99", SPREAD).mean < 0.03


@pytest.mark.parametrize("wild", [0.08, 0.3, 50.0])
def test_one_that_changed_drags_no_other(wild):
    calm = [peer(each) for each in np.random.default_rng(1).normal(0, SPREAD.stray, 9)]
    without, within = (estimate_run_effect(peers, WHOLE) for peers in (calm, [*calm, peer(wild)]))
    moved = within.predict("B=1", SPREAD).mean - without.predict("B=1", SPREAD).mean
    assert abs(moved) < 0.01
    assert half_width(within.predict("B=1", SPREAD)) < 1.6 * half_width(without.predict("B=1", SPREAD))


def test_of_two_that_disagree_neither_is_believed():
    agreeing, apart = ([peer(0.0), peer(far)] for far in (0.0, 3.0))
    told = [estimate_run_effect(peers, WHOLE).predict("B=1", SPREAD) for peers in (agreeing, apart)]
    assert half_width(told[1]) > 20 * half_width(told[0])


def test_peers_that_stray_more_than_expected_widen_and_less_narrow():
    rng = np.random.default_rng(2)
    widths = [
        half_width(estimate_run_effect([peer(each) for each in rng.normal(0, sd, 30)], WHOLE).predict("B=1", SPREAD))
        for sd in (0.005, 0.015, 0.1)
    ]
    assert widths == sorted(widths)
    assert widths[0] < 0.7 * SPREAD.stray
    assert widths[2] > 0.05


def test_it_does_not_depend_on_the_unit_nor_on_the_order():
    rng = np.random.default_rng(3)
    changes = list(rng.normal(0.3, 0.02, 7))
    forward = estimate_run_effect([peer(each) for each in changes], WHOLE)
    backward = estimate_run_effect([peer(each) for each in reversed(changes)], WHOLE)
    nanoseconds = Spread(1e3 * SPREAD.stray, 1e3 * SPREAD.workload)
    thousandfold = estimate_run_effect([peer(1e3 * each, spread=nanoseconds) for each in changes], 1e3 * WHOLE)
    assert backward.whole.mean == pytest.approx(forward.whole.mean)
    assert thousandfold.whole.mean == pytest.approx(1e3 * forward.whole.mean)
