"""Ratios, intervals and verdicts of whole sources, and the gate on them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from compare_data import B1, RESULTS, compared, failed, figure, published, ratios_of, run_of, source
from hypothesis import given, settings
from hypothesis import strategies as st
from paired_rounds import compare_rounds

from gdnbench.analyse.comparison import check_regressions
from gdnbench.analyse.ratio import check_settings
from gdnbench.analyse.run_change import TimeKind
from gdnbench.analyse.sources import load_sources
from gdnbench.errors import ExitCode, UsageError
from gdnbench.model.status import Role, Status
from gdnbench.stats.interval import Verdict
from gdnbench.store.measurements import read_measurements

HOPPER, RIVAL = "20261123-014131-h200-decode-hopper", "decode-flashinfer"
KERNELS = {f"decode-v{index}": 4.0 + 0.3 * index for index in range(1, 6)}
SLOWER = {("decode-v4", 1): 1.02, ("decode-v4", 8): 1.02}


def test_above_one_the_later_is_faster():
    side = compared(run_of(KERNELS), run_of(KERNELS, "other", strays={("decode-v4", 1): 0.9}))
    ratio = ratios_of(side)["decode-v4", 1]
    assert ratio.value == pytest.approx(1 / 0.9)
    assert ratio.comparison.verdict is Verdict.FASTER


@pytest.mark.parametrize("launch", [0.09, 1.65, -1.65])
def test_the_launch_of_a_run_is_taken_out(launch):
    side = compared(run_of(KERNELS), run_of(KERNELS, "other", launch=launch, strays=SLOWER))
    slower, unchanged = (ratios_of(side)[label, 1] for label in ("decode-v4", "decode-v1"))
    # 2 % of 5.2 µs, over a time with half of the launch
    assert slower.value == pytest.approx((5.2 + launch / 2) / (1.02 * 5.2 + launch / 2), abs=0.002)
    assert slower.comparison.verdict is Verdict.SLOWER
    assert unchanged.value == pytest.approx(1.0, abs=0.002)
    assert unchanged.comparison.speedup.low < 1.0 < unchanged.comparison.speedup.high
    assert unchanged.comparison.speedup.half_width < 0.01
    ((one, other, runs),) = side.columns[0].runs
    assert (one, other) == ("A", "B")
    assert runs.stream.effect.whole.mean == pytest.approx(launch, abs=0.01)


def test_noise_of_either_side_widens_by_what_cases_do_not_stray_by_anyway():
    quiet = ratios_of(compared(run_of(KERNELS), run_of(KERNELS, "other")))["decode-v1", 1].comparison.speedup
    noisy = compared(run_of(KERNELS, noise={B1: 0.03}), run_of(KERNELS, "other", noise={B1: 0.04}))
    assert ratios_of(noisy)["decode-v1", 1].comparison.speedup.half_width == pytest.approx(0.05, rel=0.03)
    assert ratios_of(noisy)["decode-v1", 8].comparison.speedup.half_width == pytest.approx(quiet.half_width, rel=0.5)
    usual = compared(run_of(KERNELS, noise={B1: 0.001}), run_of(KERNELS, "other", noise={B1: 0.001}))
    assert ratios_of(usual)["decode-v1", 1].comparison.speedup == quiet


def test_where_the_card_is_another_kernel_times_are_judged_and_on_one_card_stream_times():
    left = run_of(KERNELS, kernel_times=True, conditions={"GPU": "GPU-1"})
    right = {"kernel_times": True, "launch": 1.65, "strays": SLOWER}
    apart = ratios_of(compared(left, run_of(KERNELS, "other", conditions={"GPU": "GPU-2"}, **right)))
    assert apart["decode-v4", 1].kind is TimeKind.KERNEL
    assert apart["decode-v4", 1].value == pytest.approx(1 / 1.02, abs=0.002)
    assert set(apart["decode-v4", 1].by_kind) == set(TimeKind)
    on_one = ratios_of(compared(left, run_of(KERNELS, "other", conditions={"GPU": "GPU-1"}, **right)))
    assert on_one["decode-v4", 1].kind is TimeKind.STREAM
    lacking = ratios_of(compared(left, run_of(KERNELS, "other", conditions={"GPU": "GPU-2"}, launch=1.65)))
    assert {ratio.kind for ratio in lacking.values()} == {TimeKind.STREAM}


def test_across_gpus_kernel_times_are_judged_where_both_runs_have_them():
    sides = run_of(KERNELS, kernel_times=True), run_of(KERNELS, "other", gpu="h100", moved=1.3, kernel_times=True)
    ratio = ratios_of(compared(*sides))["decode-v4", 1]
    assert ratio.kind is TimeKind.KERNEL
    assert ratio.value == pytest.approx(1 / 1.3, rel=1e-3)
    assert ratio.comparison.verdict is Verdict.SLOWER


def test_one_changed_kernel_moves_no_other_and_does_not_widen_it_for_ever():
    wild = ratios_of(compared(run_of(KERNELS), run_of(KERNELS, "other", strays={("decode-v4", 1): 3.0})))
    calm = ratios_of(compared(run_of(KERNELS), run_of(KERNELS, "other")))
    for case in (("decode-v1", 1), ("decode-fla", 8)):
        assert wild[case].value == pytest.approx(calm[case].value, abs=5e-4)
        assert wild[case].comparison.speedup.half_width < 1.5 * calm[case].comparison.speedup.half_width


def test_a_run_of_several_processes_is_surer_of_its_launch():
    def narrow(processes):
        numbers = np.arange(21) % processes + 1
        runs = [
            replace(run, figures=tuple(replace(each, processes=numbers) for each in run.figures))
            for run in (run_of(KERNELS), run_of(KERNELS, "other", launch=0.05))
        ]
        return ratios_of(compared(*runs))["decode-v1", 1].comparison.speedup.half_width

    assert narrow(3) < 0.75 * narrow(1)


def test_a_time_shorter_than_the_launch_that_is_taken_out_is_not_judged():
    right = run_of(KERNELS, "other", launch=12.0)
    short = replace(right, figures=(*right.figures, figure("decode-x", 3.0)))
    left = run_of({**KERNELS, "decode-x": 3.0})
    ratio = ratios_of(compared(left, short))["decode-x", 1]
    assert ratio.comparison.verdict is Verdict.UNCLEAR
    assert (ratio.comparison.speedup.low, ratio.comparison.speedup.high) == (0.0, math.inf)


MIRROR = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
STRAYS = st.dictionaries(st.tuples(st.sampled_from(sorted(KERNELS)), st.sampled_from([1, 8])), st.floats(0.5, 2.0))


def assert_mirrored(one, other):
    assert one.value * other.value == pytest.approx(1.0)
    if one.comparison is None or other.comparison is None:
        assert one.comparison is other.comparison is None
        return
    left, right = one.comparison, other.comparison
    assert left.speedup.low * right.speedup.high == pytest.approx(1.0)
    assert left.speedup.high * right.speedup.low == pytest.approx(1.0)
    assert right.verdict is MIRROR.get(left.verdict, left.verdict)


@given(STRAYS, st.floats(0.8, 1.25), st.sampled_from(["h200", "b200"]))
@settings(max_examples=5, deadline=None)
def test_the_other_way_round_every_ratio_is_the_inverse(strays, moved, gpu):
    one, other = run_of(KERNELS), run_of(KERNELS, "other", strays=strays, moved=moved, gpu=gpu)
    there, back = compared(one, other), compared(other, one)
    for case, ratio in ratios_of(there).items():
        assert_mirrored(ratio, ratios_of(back)[case])
    means = [side.columns[0].mean for side in (there, back)]
    assert means[0].value * means[1].value == pytest.approx(1.0)
    assert means[0].interval.low * means[1].interval.high == pytest.approx(1.0)


@given(STRAYS)
@settings(max_examples=5, deadline=None)
def test_the_mean_is_the_geometric_one_of_all_but_the_floors(strays):
    side = compared(run_of(KERNELS), run_of(KERNELS, "other", strays=strays))
    logs = [math.log(ratio.value) for (label, _), ratio in ratios_of(side).items() if "-floor-" not in label]
    mean = side.columns[0].mean
    assert mean.cases == len(logs)
    assert math.log(mean.value) == pytest.approx(np.mean(logs))
    assert mean.interval.low <= mean.value * (1 + 1e-12)
    assert mean.interval.high >= mean.value * (1 - 1e-12)


def test_figures_of_one_run_are_paired_by_round_as_run_does():
    level = np.exp(np.random.default_rng(1).normal(0, 0.05, 21))
    one, other = (figure(label, 5.0, rounds_us=time * level) for label, time in (("decode-a", 5.0), ("decode-b", 4.9)))
    side = compared(source(one, other), columns="label")
    by_rounds = compare_rounds(other.rounds_us, one.rounds_us).speedup
    found = side.columns[0].ratios[0].comparison.speedup
    assert found.estimate == pytest.approx(by_rounds.estimate)
    assert found.low < by_rounds.low - 0.001  # of one process, which does not show what processes differ by
    assert found.high > by_rounds.high + 0.001
    assert side.columns[0].mean.interval.low == pytest.approx(found.low)


def test_figures_without_rounds_have_a_ratio_and_nothing_more():
    side = compared(source(figure(time_us=4.0)), published(figure(time_us=5.0, rounds=0)))
    ratio = ratios_of(side)["decode-v4", 1]
    assert (ratio.value, ratio.comparison) == (0.8, None)
    assert side.columns[0].mean.interval is None


@pytest.mark.parametrize("margin", [-0.1, 1.0, math.nan])
def test_a_margin_that_is_none_is_refused(margin):
    with pytest.raises(UsageError, match="not a relative difference"):
        check_settings(margin, strict=False, gate="")


def test_strict_needs_a_gate():
    with pytest.raises(UsageError, match="--fail-on"):
        check_settings(0.005, strict=True, gate="")


def outcome(left, right, margin=0.01):
    side = compared(left, right, margin=margin)
    return check_regressions(side.grid.rows, side.columns[-1].ratios, margin)


def test_the_gate_finds_what_is_slower_and_names_it():
    found = outcome(run_of(KERNELS), run_of(KERNELS, "other", strays=SLOWER))
    assert [row.entries[0].figure.label for row in found.slower] == ["decode-v4", "decode-v4"]
    assert found.exit_code(strict=False) is ExitCode.REGRESSION


def test_a_run_too_noisy_to_tell_fails_only_a_strict_gate():
    noise = dict.fromkeys((B1,), 0.05)
    found = outcome(run_of(KERNELS, noise=noise), run_of(KERNELS, "other", strays=SLOWER, noise=noise, workloads=(B1,)))
    assert found.undecided
    assert (found.exit_code(strict=False), found.exit_code(strict=True)) == (ExitCode.OK, ExitCode.NOISY)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.CRASHED, ExitCode.REGRESSION),
        (Status.WRONG_NUMBERS, ExitCode.REGRESSION),
        (Status.MISSING, ExitCode.OK),
        (Status.NOT_RUN, ExitCode.NOISY),
    ],
)
def test_a_case_that_had_a_time_and_failed_is_a_regression(status, code):
    left, right = run_of({**KERNELS, "decode-x": 4.0}), run_of(KERNELS, "other")
    right = replace(right, figures=(*right.figures, failed("decode-x", status)))
    assert outcome(left, right).exit_code(strict=True) is code
    assert outcome(right, left).exit_code(strict=True) is ExitCode.OK


PROCESS = np.repeat([1, 2, 3], 14)


def run_of_processes(seed, times, own_sd=0.002):
    """A run of three processes, each of which adds a launch to all times, and a share of each kernel's own."""
    random = np.random.default_rng(seed)
    launch = random.normal(0, 0.06, 4)[PROCESS]

    def simulated(label, time_us, **values):
        noise = random.normal(0, own_sd, 4)[PROCESS] + random.normal(0, 0.003, PROCESS.size)
        return figure(label, time_us, rounds_us=launch + time_us * (1 + noise), processes=PROCESS, **values)

    control = simulated("decode-fla", times["decode-fla"], role=Role.CONTROL)
    return source(*(simulated(*each) for each in times.items()), controls=(control,))


def test_within_a_run_what_its_processes_add_is_in_the_interval():
    """95 % of 100 runs, within four standard errors; the rounds alone hold the truth in half of them."""
    times = {"decode-fla": 5.0, "decode-v4": 7.5, "decode-v1": 6.0, "decode-floor-copy": 4.0}
    wanted, held, means, naive = 5.0 / 7.5, 0, 0, 0
    for seed in range(100):
        run = run_of_processes(seed, times)
        side = compared(run, columns="label", filtered="label=decode-fla,decode-v4")
        (ratio,), mean = side.columns[0].ratios, side.columns[0].mean
        rounds = [figure.rounds_us for figure in run.figures[:2]]
        alone = compare_rounds(rounds[1], rounds[0]).speedup
        held += ratio.comparison.speedup.low < wanted < ratio.comparison.speedup.high
        means += mean.interval.low < wanted < mean.interval.high
        naive += alone.low < wanted < alone.high
    assert min(held, means) / 100 > 0.95 - 4 * 0.0218
    assert naive / 100 < 0.7


def test_within_a_run_the_ratio_is_that_of_the_run_s_own_table():
    side = compared(*load_sources([HOPPER], RESULTS), columns="label", filtered=f"label=decode-fla,{RIVAL}")
    rows = {row.case.workload: row.versus for row in read_measurements(RESULTS / HOPPER) if row.case.label == RIVAL}
    for row, ratio in zip(side.grid.rows, side.columns[0].ratios, strict=True):
        own = rows[row.entries[0].figure.workload]
        assert ratio.value == pytest.approx(own.speedup, rel=1e-4)
        assert ratio.comparison.speedup.half_width == pytest.approx((own.high - own.low) / 2, rel=0.3)


def test_within_a_run_a_baseline_that_is_told_apart_from_itself_widens_all_others():
    times = {"decode-fla": 5.0, "decode-v4": 4.9, "decode-v1": 6.0, "decode-floor-copy": 4.0}
    quiet = run_of_processes(1, times)
    apart = replace(quiet.controls[0], rounds_us=1.03 * quiet.controls[0].rounds_us)
    widths = []
    for run in (quiet, replace(quiet, controls=(apart,))):
        (ratio,) = compared(run, columns="label", filtered="label=decode-fla,decode-v4").columns[0].ratios
        widths.append(ratio.comparison.speedup.half_width)
    assert widths[1] > 0.03 > 5 * widths[0]
