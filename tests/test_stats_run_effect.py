"""The random effect of a run: found, not dragged by a peer that changed, and as uncertain as it is."""

import math

import numpy as np
import pytest

from gdnbench.stats.run_effect import PRIOR_DF, Peer, Spread, estimate_run_effect

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
