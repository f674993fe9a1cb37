"""What a launch takes, out of replays with flushes and replays of flushes alone."""

import numpy as np
import pytest

from gdnbench.measure.worker.graph import LAUNCHES_PER_GRAPH, launches_per_graph, per_launch_us
from gdnbench.stats.estimators import GPU_TRIM, trimmed_mean
from gdnbench.stats.interval import t_interval

FLUSH_US = 38.2


def simulate(launch_us, random, *, rounds=41, replays=6, sd_us=5.2, drift=0.02):
    """Round times of a launch. A replay's noise is that of 20 launches on an H200; the flush drifts over the run."""
    times = []
    for level in np.linspace(1.0, 1.0 + drift, rounds):
        flush_us = LAUNCHES_PER_GRAPH * FLUSH_US * level
        flushes = flush_us + random.normal(0.0, sd_us, replays)
        cases = flush_us + LAUNCHES_PER_GRAPH * launch_us + random.normal(0.0, sd_us, replays)
        times.append(trimmed_mean(np.array(per_launch_us(cases.tolist(), flushes.tolist())), GPU_TRIM))
    return np.array(times)


def test_without_noise_the_share_is_exact():
    flushes, cases = [LAUNCHES_PER_GRAPH * FLUSH_US] * 6, [LAUNCHES_PER_GRAPH * (FLUSH_US + 2.5)] * 6
    assert per_launch_us(cases, flushes) == pytest.approx([2.5] * 6, abs=1e-4)


def test_the_interval_over_rounds_covers_the_truth_and_the_flushs_drift_cancels():
    random, covered = np.random.default_rng(1), 0
    for _ in range(300):
        interval = t_interval(simulate(0.83, random), 0.95)
        covered += interval.low <= 0.83 <= interval.high
    assert 0.91 <= covered / 300 <= 0.99


def test_a_tenth_of_a_microsecond_is_told_apart_in_a_default_run():
    random = np.random.default_rng(2)
    shorter, longer = (t_interval(simulate(launch_us, random), 0.95) for launch_us in (2.3, 2.5))
    assert shorter.high < longer.low


def test_launches_that_take_no_time_beside_the_flushes_have_none():
    with pytest.raises(RuntimeError, match="no slower than the flushes"):
        per_launch_us([1000.0] * 6, [1001.0] * 6)


def test_a_case_in_place_is_launched_once_at_each_of_few_placements():
    """A second launch there would begin with what the first has left, and be wrong when it is checked."""
    assert launches_per_graph(7, is_in_place=True) == 7
    assert launches_per_graph(7, is_in_place=False) == launches_per_graph(40, is_in_place=True) == LAUNCHES_PER_GRAPH
    assert per_launch_us([7 * (FLUSH_US + 2.5)], [7 * FLUSH_US], 7) == pytest.approx([2.5], abs=1e-4)
