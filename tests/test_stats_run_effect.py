"""Steps between runs: found where planted, not found in what runs do by themselves. By simulation."""

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from gdnbench.stats.comparison import Verdict
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.run_effect import PRIOR_DF, PRIOR_SD, RunEffect, compare_runs, estimate_run_effect

TRIALS, ROUNDS, ROUND_SD, RUN_SD, RUNS, PEERS = 1000, 21, 0.004, 0.004, 8, 6
MARGIN = 0.01


def ratio(mean, sd=ROUND_SD, n=ROUNDS):
    return PairedLogRatio(mean, sd, n)


def drawn(random, true, run_sd=RUN_SD):
    """What one run says of a true log-ratio: off by something of its own, and noisy from round to round."""
    own = true + random.normal(0.0, run_sd)
    rounds = own + random.normal(0.0, ROUND_SD, ROUNDS)
    return PairedLogRatio(float(rounds.mean()), float(rounds.std(ddof=1)), ROUNDS)


def peers(random, run_sd=RUN_SD, runs=RUNS, count=PEERS):
    """Changes of unchanged peers between neighbouring runs."""
    means = random.normal(0.0, run_sd, (runs, count)) + random.normal(0.0, ROUND_SD / math.sqrt(ROUNDS), (runs, count))
    return list(np.diff(means, axis=0))


def naive(before, after, margin):
    """Welch's interval over rounds alone, as if a run had nothing of its own."""
    parts = [run.sd**2 / run.n for run in (before, after)]
    df = sum(parts) ** 2 / sum(part**2 / (ROUNDS - 1) for part in parts)
    half = stdtrit(df, 0.975) * math.sqrt(sum(parts))
    mean = after.mean - before.mean
    edge = math.log1p(margin)
    return mean - half > edge or mean + half < -edge


def simulate(step, margin, run_sd=RUN_SD):
    """The shares of trials in which a step is called by both methods."""
    random = np.random.default_rng(1)
    called, called_naively = 0, 0
    for _ in range(TRIALS):
        before, after = drawn(random, 0.0, run_sd), drawn(random, step, run_sd)
        found = compare_runs(before, after, estimate_run_effect(peers(random, run_sd)), margin=margin)
        called += found.verdict in {Verdict.FASTER, Verdict.SLOWER}
        called_naively += naive(before, after, margin)
    return called / TRIALS, called_naively / TRIALS


@pytest.mark.parametrize("run_sd", [0.002, 0.004])
def test_the_run_effect_is_no_step_where_rounds_alone_would_make_it_one(run_sd):
    """Without a margin, 5 % of equal pairs may be called different; the naive interval calls most of them."""
    ours, naively = simulate(0.0, margin=0.0, run_sd=run_sd)
    assert ours <= 0.05
    assert naively > 0.3


def test_with_the_margin_false_steps_are_rare():
    ours, naively = simulate(0.0, MARGIN)
    assert ours <= 0.002
    assert naively > 0.01


@pytest.mark.parametrize("step", [0.04, -0.04])
def test_a_planted_step_is_found(step):
    assert simulate(step, MARGIN)[0] >= 0.95


def test_the_interval_covers_the_true_change():
    random = np.random.default_rng(2)
    covered = 0
    for _ in range(TRIALS):
        before, after = drawn(random, 0.0), drawn(random, 0.02)
        speedup = compare_runs(before, after, estimate_run_effect(peers(random)), margin=MARGIN).speedup
        covered += speedup.low <= math.exp(0.02) <= speedup.high
    assert 0.93 <= covered / TRIALS <= 0.995


def test_the_run_effect_is_what_unchanged_peers_show():
    random = np.random.default_rng(3)
    for run_sd in (0.002, 0.02):  # of the prior, 300 runs leave little
        found = [estimate_run_effect(peers(random, run_sd, runs=300)).sd for _ in range(50)]
        assert np.mean(found) == pytest.approx(run_sd, rel=0.2)


def test_a_peer_that_stepped_does_not_hide_the_steps_of_others():
    changes = peers(np.random.default_rng(4), runs=20)
    for change in changes[::2]:
        change[0] = 0.3
    assert estimate_run_effect(changes).sd < 1.5 * RUN_SD
    assert np.std(np.concatenate(changes)) / math.sqrt(2) > 5 * RUN_SD  # what a plain sd would say


def test_without_peers_the_prior_holds():
    assert estimate_run_effect([]) == RunEffect(PRIOR_SD, PRIOR_DF)
    assert estimate_run_effect([np.array([]), np.array([])]) == RunEffect(PRIOR_SD, PRIOR_DF)


def test_freedom_grows_with_pairs_of_runs_not_with_peers():
    assert estimate_run_effect([np.zeros(100)]).df == PRIOR_DF + 1
    assert estimate_run_effect([np.zeros(1)] * 3).df == PRIOR_DF + 3


def test_the_half_width_is_that_of_the_formula():
    found = compare_runs(ratio(0.0, 0.004, 20), ratio(0.05, 0.006, 10), RunEffect(0.003, 7), margin=MARGIN)
    parts = [(0.004**2 / 20, 19), (0.006**2 / 10, 9), (2 * 0.003**2, 7)]
    total = sum(part for part, _ in parts)
    half = stdtrit(total**2 / sum(part**2 / df for part, df in parts), 0.975) * math.sqrt(total)
    assert math.log(found.speedup.low) == pytest.approx(0.05 - half)
    assert math.log(found.speedup.high) == pytest.approx(0.05 + half)


def test_a_kernel_that_gained_on_its_anchor_is_faster():
    assert compare_runs(ratio(-0.2), ratio(0.0), RunEffect(), margin=MARGIN).verdict is Verdict.FASTER
    assert compare_runs(ratio(0.2), ratio(0.0), RunEffect(), margin=MARGIN).verdict is Verdict.SLOWER


def test_to_change_the_order_of_the_runs_turns_the_change_around():
    there = compare_runs(ratio(0.0), ratio(0.1), RunEffect(), margin=MARGIN).speedup
    back = compare_runs(ratio(0.1), ratio(0.0), RunEffect(), margin=MARGIN).speedup
    assert there.low == pytest.approx(1 / back.high)


@pytest.mark.parametrize("n", [0, 1])
def test_a_run_of_less_than_two_rounds_settles_nothing(n):
    lone = PairedLogRatio(0.5, math.nan, n) if n else PairedLogRatio(math.nan, math.nan, 0)
    found = compare_runs(ratio(0.0), lone, RunEffect(), margin=MARGIN)
    assert found.verdict is Verdict.UNCLEAR
    assert (found.speedup.low, found.speedup.high) == (0.0, math.inf)


def test_rounds_that_do_not_scatter_at_all_are_taken_at_their_word():
    still = RunEffect(0.0, 5)
    assert compare_runs(ratio(0.0, 0.0), ratio(0.02, 0.0), still, margin=MARGIN).verdict is Verdict.FASTER


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        compare_runs(ratio(0.0), ratio(0.0), RunEffect(), margin=MARGIN, confidence=confidence)


@pytest.mark.parametrize("margin", [-0.1, math.nan, math.inf])
def test_a_margin_that_is_none_is_refused(margin):
    with pytest.raises(ValueError, match="margin"):
        compare_runs(ratio(0.0), ratio(0.0), RunEffect(), margin=margin)
