"""Kernels of one run that were timed in different processes: compared over what was timed beside both."""

import json

import numpy as np
import pytest
from committed import EVIDENCE, ROOT
from faults import answer

from gdnbench.analyse.ratio import move_rounds
from gdnbench.analyse.suite import judge_suite, side_by_side
from gdnbench.model.op import Suite
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.store.measurements import read_measurements
from gdnbench.store.samples import read_case_rounds

RUN = "20261126-004353-h100-prefill-profiles"
PROCESSES, ROUNDS = 3, 4
EACH = PROCESSES * ROUNDS
PROCESS = np.repeat(np.arange(2 * PROCESSES), ROUNDS)
HERE, THERE = np.arange(2 * EACH) < EACH, np.arange(2 * EACH) >= EACH


def simulated(random, ratio=0.8):
    """A compiled kernel, one with Python of its own, and baseline and floor beside both, all with noise."""
    drift = random.normal(0.0, 0.02, 2 * PROCESSES)[PROCESS] + random.normal(0.0, 0.01, 2 * EACH)

    def timed(time_us, rounds):
        own = random.normal(0.0, 0.002, 2 * EACH)
        return np.where(rounds, time_us * np.exp(drift + own), np.nan)

    return {
        "baseline": timed(100.0, HERE | THERE),
        "compiled": timed(30.0, HERE),
        "python": timed(30.0 * ratio, THERE),
        "floor": timed(20.0, HERE | THERE),
    }


def test_the_ratio_of_two_that_share_no_round_is_covered_whatever_processes_add_to_all():
    random = np.random.default_rng(20261126)
    held, widths = [], []
    for _ in range(200):
        times = side_by_side(simulated(random), "baseline")
        ratio = PairedLogRatio.from_rounds(times["python"], times["compiled"], PROCESS)
        interval = ratio.speedup(0.95)
        held.append(interval.low <= 1.25 <= interval.high)
        widths.append(interval.half_width)
    assert 0.92 <= np.mean(held) <= 0.98
    assert np.median(widths) < 0.004  # what all cases of a round share is gone, 1 to 2 % of each


def test_cases_that_share_rounds_stay_as_they_are():
    times = {"a": np.array([1.0, 2.0, np.nan]), "b": np.array([np.nan, 2.0, 3.0]), "base": np.array([5.0, 5.0, 5.0])}
    beside = side_by_side(times, "base")
    assert all(np.array_equal(beside[name], each, equal_nan=True) for name, each in times.items())


@pytest.mark.parametrize("bridge", ["missing", "baseline"])
def test_without_a_bridge_nothing_is_moved(bridge):
    times = simulated(np.random.default_rng(1))
    times["baseline"][THERE] = np.nan
    assert np.isnan(side_by_side(times, bridge)["python"][HERE]).all()


@pytest.mark.parametrize("kept", range(EACH + 1))
def test_rounds_that_a_stopped_run_lacks_are_lacking_there_too(kept):
    times = simulated(np.random.default_rng(2))
    times["python"][EACH + kept :] = np.nan
    moved = move_rounds(times["python"], times["baseline"], HERE)
    assert np.isfinite(moved).sum() == kept
    assert not np.isfinite(moved[THERE]).any()


def ratios(*labels):
    words = ["compare", RUN, "--cols", "label", "--rows", "lengths,profile", "--json"]
    done = answer(*words, "--filter", f"label={','.join(labels)}", folder=ROOT)
    assert done.code == 0, done.err
    return {(case["lengths"], case["profile"]): case for case in json.loads(done.out)["cases"]}


def test_a_stored_run_tells_a_library_from_a_compiled_kernel_by_the_baseline_beside_both():
    over, ours, library = (
        ratios("prefill-v3", "prefill-flashinfer"),
        ratios("prefill-fla", "prefill-v3"),
        ratios("prefill-fla", "prefill-flashinfer"),
    )
    assert len(over) == 9
    for at, case in over.items():
        assert case["ratio"] == pytest.approx(library[at]["ratio"] / ours[at]["ratio"], rel=1e-3)
        assert case["ratio_hi"] / case["ratio_lo"] < 1.4
    assert over["8192", "mixed-heads"]["verdict"] == "faster"
    assert over["8192", "forgetful"]["verdict"] == over["1024", "never"]["verdict"] == "slower"


def test_the_mean_over_a_suite_is_over_the_better_library_wherever_it_was_timed():
    folder = EVIDENCE / RUN
    rows = read_measurements(folder)
    rounds = {case: each for (case, clock), each in read_case_rounds(folder).items() if clock is None}
    workloads = [row.case.workload for row in rows if row.case.label == "prefill-v3"]
    suite = Suite("three", {each: 1.0 for each in workloads if each.inputs == "never"})
    libraries = ("prefill-flashinfer", "prefill-flashqla")
    found = judge_suite(rows, rounds, suite, op="prefill", over=libraries, margin=0.005, confidence=0.95)
    speedups = {row.label: row.comparison.speedup for row in found.rows if row.comparison}
    assert speedups["prefill-v3"].estimate == pytest.approx((1.67 * 0.98 * 1.308) ** (1 / 3), rel=0.01)
    assert speedups["prefill-v3"].half_width < 0.03
    assert found.rows[-1].label == "prefill-fla"


def test_of_two_groups_of_one_size_the_first_keeps_its_rounds_whatever_the_names():
    for place in range(12):
        first, second = f"a{place}", f"b{place}"
        times = {name: np.full(4, 2.0) for name in ("base", first, second)}
        times[first][2:], times[second][:2] = np.nan, np.nan
        assert np.isfinite(side_by_side(times, "base")[first]).tolist() == [True, True, False, False]
