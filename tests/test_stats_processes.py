"""What processes add to times: found, taken out, and held in the intervals."""

import math

import numpy as np
import pytest

from gdnbench.stats.interval import Variance, Verdict, add_variances, half_width_of
from gdnbench.stats.multiple import judge_family
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, Between, estimate_effects

PROCESSES, ROUNDS = 3, 14
PROCESS = np.repeat(np.arange(PROCESSES), ROUNDS)
KERNELS_US = {"base": 5.1, "again": 5.1, "equal": 5.1, "faster": 5.1 / 1.012, "v8": 4.27, "v9": 4.21, "copy": 4.02}


def simulate(generator, *, launch_sd_us=USUAL_LAUNCH_SD_US, own_sd=0.0005, round_sd=0.0035, strays=()):
    """Round times of a workload with every source of noise that runs on H200s show.

    A launch that all cases of a process share, each case's own effect of a process, the mean of a round's placements
    and its samples, and a clock that all cases of a round share.
    """
    launch = generator.normal(0, launch_sd_us, PROCESSES)[PROCESS]
    clock = generator.normal(1, 0.002, len(PROCESS))
    times = {}
    for name, time_us in KERNELS_US.items():
        own = generator.normal(0, 0.05 if name in strays else own_sd, PROCESSES)[PROCESS]
        kernel = time_us * (1 + own + generator.normal(0, round_sd / math.sqrt(2), len(PROCESS)))
        times[name] = kernel * clock + launch
    return times


def paired(times, name):
    effects = estimate_effects(times, PROCESS, usual_sd_us=USUAL_LAUNCH_SD_US)
    sides = [effects.without_launch(times[each]) for each in (name, "base")]
    return PairedLogRatio.from_rounds(*sides, effects.process, effects.of_ratio((name, "base"), tuple(sides)))


@pytest.fixture(scope="module")
def runs():
    generator = np.random.default_rng(7)
    return [simulate(generator) for _ in range(250)]


def test_the_launch_that_all_cases_share_is_found():
    generator = np.random.default_rng(1)
    times = simulate(generator, launch_sd_us=0.0, own_sd=0.0)
    shifted = {name: each + np.array([0.0, 0.06, -0.06])[PROCESS] for name, each in times.items()}
    found, before = (estimate_effects(each, PROCESS).launch_us for each in (shifted, times))
    assert found - before == pytest.approx([0.0, 0.06, -0.06], abs=1e-9)


def test_a_process_that_is_slow_for_all_moves_no_ratio_of_equal_times():
    times = simulate(np.random.default_rng(2))
    shifted = {name: each + np.array([0.0, 1.5, 0.0])[PROCESS] for name, each in times.items()}
    assert math.exp(paired(shifted, "equal").mean) == pytest.approx(math.exp(paired(times, "equal").mean), rel=1e-3)
    assert paired(shifted, "equal").speedup(0.95).half_width < 0.01


@pytest.mark.parametrize("name", ["again", "equal"])
def test_equal_kernels_are_as_far_apart_as_their_intervals_say(runs, name):
    z = np.array([ratio.mean / math.sqrt(ratio.variance.value) for ratio in (paired(run, name) for run in runs)])
    assert 0.8 < math.sqrt(np.mean(z**2)) < 1.25


@pytest.mark.parametrize("name", ["equal", "v8"])
def test_the_interval_holds_the_truth_as_often_as_it_says(runs, name):
    """The truth as a stream pays it: with the launch of a usual process, which has none beside its kernel here."""
    truth = KERNELS_US["base"] / KERNELS_US[name]
    intervals = [paired(run, name).speedup(0.95) for run in runs]
    assert np.mean([each.low <= truth <= each.high for each in intervals]) >= 0.93


def test_equal_kernels_are_told_apart_in_one_of_twenty_runs_at_most(runs):
    verdicts = [judge_paired(paired(run, "equal"), 0.0, 0.95).verdict for run in runs]
    assert np.mean([each in {Verdict.FASTER, Verdict.SLOWER} for each in verdicts]) <= 0.07
    family = [judge_family({n: paired(run, n) for n in ("again", "equal")}, margin=0.005) for run in runs]
    claims = [any(each.verdict in {Verdict.FASTER, Verdict.SLOWER} for each in run.values()) for run in family]
    assert np.mean(claims) <= 0.01


def test_a_case_that_is_another_in_every_process_is_judged_by_its_processes_alone():
    generator, covered, strayed = np.random.default_rng(3), [], []
    for _ in range(100):
        times = simulate(generator, strays=("v8",))
        effects = estimate_effects(times, PROCESS)
        strayed.append("v8" in effects.outliers)
        interval = paired(times, "v8").speedup(0.95)
        covered.append(interval.low <= KERNELS_US["base"] / KERNELS_US["v8"] <= interval.high)
        assert effects.inflation < 20  # the others do not pay for it
    assert np.mean(strayed) > 0.85
    assert np.mean(covered) >= 0.9


def test_one_process_tells_nothing_of_processes():
    times = {name: each[:ROUNDS] for name, each in simulate(np.random.default_rng(4)).items()}
    effects = estimate_effects(times, PROCESS[:ROUNDS])
    assert effects.count == 1
    assert effects.of_time("base", times["base"]) == Between()
    assert effects.of_ratio(("v9", "base"), (times["v9"], times["base"])) == Between()
    assert effects.without_launch(times["v9"]) == pytest.approx(times["v9"])


def test_variances_add_with_the_degrees_of_freedom_of_satterthwaite():
    total = add_variances([Variance(1.0, 4.0), Variance(3.0, 2.0)])
    assert total.value == 4.0
    assert total.df == pytest.approx(16 / (1 / 4 + 9 / 2))
    assert add_variances([Variance(), Variance(2.0, 5.0)]) == Variance(2.0, 5.0)
    assert half_width_of(Variance(4.0, math.inf), 0.95) == pytest.approx(2 * 1.959964)
    assert half_width_of(Variance(4.0, 2.0), 0.95) == pytest.approx(2 * 4.302653, rel=1e-6)
    assert half_width_of(Variance(math.inf, 1.0), 0.95) == math.inf


def test_a_case_that_is_left_out_is_judged_alone():
    times = simulate(np.random.default_rng(6))
    odd = {**times, "empty": 2.8 + np.array([0.0, 0.3, -0.3])[PROCESS] + np.tile([1e-4, -1e-4], 21)}
    effects, before = estimate_effects(odd, PROCESS, left_out={"empty"}), estimate_effects(times, PROCESS)
    assert effects.launch_us == pytest.approx(before.launch_us)
    assert effects.inflation == before.inflation
    assert effects.of_time("empty", odd["empty"]).variance.df == PROCESSES - 1


def test_a_slow_kernels_noise_is_no_launch():
    """It moves by microseconds from process to process, which would leave a short kernel with no time at all."""
    generator = np.random.default_rng(11)
    slow = {name: 800.0 * (1 + generator.normal(0, 0.02, PROCESSES))[PROCESS] for name in ("slow", "slower")}
    times = simulate(generator)
    short = {"v9": times["v9"], "copy": times["copy"]}
    found = estimate_effects({**slow, **short}, PROCESS, usual_sd_us=USUAL_LAUNCH_SD_US).launch_us
    assert found == pytest.approx(estimate_effects(short, PROCESS, usual_sd_us=USUAL_LAUNCH_SD_US).launch_us, abs=0.01)
    alone = estimate_effects(slow, PROCESS, usual_sd_us=USUAL_LAUNCH_SD_US)
    assert np.abs(alone.launch_us).max() < 0.01  # nothing there tells a launch
    assert (alone.without_launch(times["v9"]) > 4.0).all()


def test_a_kernels_own_time_has_no_launch_in_it():
    """What all cases of a process share then stays in the interval."""
    generator = np.random.default_rng(12)
    times = simulate(generator)
    effects = estimate_effects(times, PROCESS, has_launch=False)
    assert not effects.launch_us.any()
    assert effects.without_launch(times["v9"]) == pytest.approx(times["v9"])
    assert effects.inflation > estimate_effects(times, PROCESS).inflation


def test_own_times_are_covered_as_often_as_their_intervals_say():
    """Three processes of seven rounds, as CUPTI has them: no launch, a share of each case's own, noise of rounds."""
    generator, z = np.random.default_rng(13), []
    process = np.repeat(np.arange(PROCESSES), 7)
    for _ in range(400):
        times = {
            name: 2.0 * (1 + generator.normal(0, 0.0005, PROCESSES)[process] + generator.normal(0, 0.003, len(process)))
            for name in KERNELS_US
        }
        effects = estimate_effects(times, process, has_launch=False)
        between = effects.of_ratio(("v9", "base"), (times["v9"], times["base"]))
        z.append(PairedLogRatio.from_rounds(times["v9"], times["base"], process, between).speedup(0.95))
    assert np.mean([each.low <= 1.0 <= each.high for each in z]) >= 0.93
