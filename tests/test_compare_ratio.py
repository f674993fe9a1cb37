"""Ratios, intervals and verdicts of whole sources, and the gate on them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from compare_data import B1, DEFAULT, MAIN, RESULTS, compared, failed, figure, published, ratios_of, run_of, source
from hypothesis import given, settings
from hypothesis import strategies as st

from gdnbench.compare.comparison import check_regressions, parse_fail_on
from gdnbench.compare.ratio import check_settings
from gdnbench.compare.sources import load_sources
from gdnbench.errors import ExitCode, UsageError
from gdnbench.model.case import Role
from gdnbench.model.status import Status
from gdnbench.stats.comparison import Verdict
from gdnbench.stats.paired import compare_rounds

KERNELS = {f"decode-v{index}": 4.0 + 0.3 * index for index in range(1, 6)}
SLOWER = {("decode-v4", 1): 1.02, ("decode-v4", 8): 1.02}
RUNS = [
    *DEFAULT,
    "20261121-104557-h200-decode-default-3",
    MAIN,
    "20261121-185007-h200-decode-main",
    "20261121-185458-h200-decode-main",
]


def test_above_one_the_later_is_faster():
    side = compared(run_of(KERNELS), run_of(KERNELS, "other", strays={("decode-v4", 1): 0.9}))
    ratio = ratios_of(side)["decode-v4", 1]
    assert ratio.value == pytest.approx(1 / 0.9)
    assert ratio.comparison.verdict is Verdict.FASTER


def test_the_common_shift_is_taken_out():
    side = compared(run_of(KERNELS), run_of(KERNELS, "other", moved=1.03, strays=SLOWER))
    assert ratios_of(side)["decode-v4", 1].value == pytest.approx(1 / 1.02)
    assert ratios_of(side)["decode-v4", 1].comparison.verdict is Verdict.SLOWER
    assert ratios_of(side)["decode-v1", 1].comparison.verdict is Verdict.SAME
    ((one, other, shift),) = side.columns[0].shifts
    assert (one, other) == ("A", "B")
    assert shift.estimate().percent == pytest.approx(3.0)


def test_raw_leaves_the_shift_in_and_adds_it_to_the_interval():
    runs = run_of(KERNELS), run_of(KERNELS, "other", moved=1.03)
    raw, ratio = ratios_of(compared(*runs, raw=True))["decode-v1", 1], ratios_of(compared(*runs))["decode-v1", 1]
    assert raw.value == pytest.approx(1 / 1.03)
    assert raw.comparison.verdict is Verdict.UNCLEAR
    assert raw.comparison.speedup.high > 1.0 > raw.comparison.speedup.low
    assert raw.comparison.speedup.half_width > ratio.comparison.speedup.half_width + 0.028


def test_noise_of_either_side_widens():
    quiet = ratios_of(compared(run_of(KERNELS), run_of(KERNELS, "other")))["decode-v1", 1].comparison.speedup
    noisy = compared(run_of(KERNELS, noise={B1: 0.03}), run_of(KERNELS, "other", noise={B1: 0.04}))
    assert ratios_of(noisy)["decode-v1", 1].comparison.speedup.half_width == pytest.approx(0.05, rel=0.02)
    assert ratios_of(noisy)["decode-v1", 8].comparison.speedup.half_width == pytest.approx(quiet.half_width, rel=0.5)


def test_across_gpus_nothing_is_taken_out():
    side = compared(run_of(KERNELS), run_of(KERNELS, "other", gpu="b200", moved=0.8))
    assert ratios_of(side)["decode-v1", 1].value == pytest.approx(1.25)
    assert not side.columns[0].shifts


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


@given(STRAYS, st.floats(0.8, 1.25), st.sampled_from(["h200", "b200"]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_other_way_round_every_ratio_is_the_inverse(strays, moved, gpu, raw):
    one, other = run_of(KERNELS), run_of(KERNELS, "other", strays=strays, moved=moved, gpu=gpu)
    there, back = compared(one, other, raw=raw), compared(other, one, raw=raw)
    for case, ratio in ratios_of(there).items():
        assert_mirrored(ratio, ratios_of(back)[case])
    means = [side.columns[0].mean for side in (there, back)]
    assert means[0].value * means[1].value == pytest.approx(1.0)
    assert means[0].interval.low * means[1].interval.high == pytest.approx(1.0)


@given(st.floats(0.5, 2.0))
@settings(max_examples=25, deadline=None)
def test_kernels_of_one_run_are_mirrored_too(factor):
    one, other = figure("decode-a", 5.0, seed=1), figure("decode-b", 5.0 * factor, seed=2)
    there, back = (compared(source(*pair), columns="label") for pair in ((one, other), (other, one)))
    assert_mirrored(there.columns[0].ratios[0], back.columns[0].ratios[0])


@given(STRAYS, st.floats(0.5, 2.0))
@settings(max_examples=25, deadline=None)
def test_what_all_cases_move_by_changes_no_ratio(strays, moved):
    still, shifted = (
        ratios_of(compared(run_of(KERNELS), run_of(KERNELS, "other", strays=strays, moved=factor)))
        for factor in (1.0, moved)
    )
    for case, ratio in still.items():
        assert shifted[case].value == pytest.approx(ratio.value)
        assert shifted[case].comparison.speedup.half_width == pytest.approx(ratio.comparison.speedup.half_width)


@given(STRAYS)
@settings(max_examples=25, deadline=None)
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
    expected = compare_rounds(other.rounds_us, one.rounds_us)
    assert side.columns[0].ratios[0].comparison == expected
    assert side.columns[0].mean.interval.low == pytest.approx(expected.speedup.low)


def test_figures_without_rounds_have_a_ratio_and_nothing_more():
    side = compared(source(figure(time_us=4.0)), published(figure(time_us=5.0, rounds=0)))
    ratio = ratios_of(side)["decode-v4", 1]
    assert (ratio.value, ratio.comparison) == (0.8, None)
    assert side.columns[0].mean.interval is None


def test_floors_are_no_claims():
    side = compared(run_of({"decode-v1": 5.0}, shapes=(B1,)), run_of({"decode-v1": 5.0}, "other", shapes=(B1,)))
    assert side.columns[0].mean.cases == 2


def test_the_mean_is_surer_than_a_case_but_not_than_the_shift():
    strays = {(label, batch): 1 + 0.004 * (-1) ** index for index, label in enumerate(KERNELS) for batch in (1, 8)}
    side = compared(run_of(KERNELS), run_of(KERNELS, "other", strays=strays))
    mean, case = side.columns[0].mean.interval, ratios_of(side)["decode-v1", 1].comparison.speedup
    assert mean.half_width < 0.6 * case.half_width
    shift = side.columns[0].shifts[0][2].estimate()
    assert mean.half_width > 2 * math.sqrt(shift.shared.variance)


def test_cases_that_no_one_changed_are_not_called_different_between_stored_runs():
    """All but decode-compiled, for which TorchInductor chose another kernel in some runs."""
    called, settled, count = [], [], 0
    for group in (RUNS[:3], RUNS[3:]):
        for left, right in [(group[0], group[1]), (group[0], group[2]), (group[1], group[2])]:
            side = compared(*load_sources([left, right], RESULTS))
            for row, ratio in zip(side.grid.rows, side.columns[0].ratios, strict=True):
                one, other = (entry.figure for entry in row.entries)
                if ratio and one.role is not Role.FLOOR and one.source_hash == other.source_hash:
                    count += 1
                    settled.append(ratio.comparison.speedup.half_width / ratio.value)
                    if ratio.comparison.verdict in {Verdict.FASTER, Verdict.SLOWER}:
                        called.append(one.label)
    assert count > 200
    assert set(called) == {"decode-compiled"}
    assert np.median(settled) < 0.02


@pytest.mark.parametrize(("text", "margin"), [("slower", 0.005), ("slower:1%", 0.01), ("slower:0.25%", 0.0025)])
def test_a_gate_has_a_margin(text, margin):
    assert parse_fail_on(text, 0.005) == pytest.approx(margin)


@pytest.mark.parametrize("text", ["faster", "slower:1", "slower:", "slower:-1%", "slower:x%"])
def test_a_gate_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="not a condition"):
        parse_fail_on(text, 0.005)


@pytest.mark.parametrize("margin", [-0.1, 1.0, math.nan])
def test_a_margin_that_is_none_is_refused(margin):
    with pytest.raises(UsageError, match="not a relative difference"):
        check_settings(margin, raw=False, strict=False, gate="")


def test_strict_needs_a_gate():
    with pytest.raises(UsageError, match="--fail-on"):
        check_settings(0.005, raw=False, strict=True, gate="")


def outcome(left, right, margin=0.01):
    side = compared(left, right, margin=margin)
    return check_regressions(side.grid.rows, side.columns[-1].ratios, margin)


def test_the_gate_finds_what_is_slower_and_names_it():
    found = outcome(run_of(KERNELS), run_of(KERNELS, "other", strays=SLOWER))
    assert [row.entries[0].figure.label for row in found.slower] == ["decode-v4", "decode-v4"]
    assert found.exit_code(strict=False) is ExitCode.REGRESSION


@pytest.mark.parametrize("factor", [1.002, 0.9])
def test_the_gate_lets_less_than_the_margin_and_improvements_pass(factor):
    found = outcome(run_of(KERNELS), run_of(KERNELS, "other", strays={("decode-v4", 1): factor}))
    assert found.exit_code(strict=True) is ExitCode.OK


def test_a_run_too_noisy_to_tell_fails_only_a_strict_gate():
    noise = dict.fromkeys((B1,), 0.05)
    found = outcome(run_of(KERNELS, noise=noise), run_of(KERNELS, "other", strays=SLOWER, noise=noise, shapes=(B1,)))
    assert found.untold
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


def test_figures_without_an_interval_cannot_pass_a_strict_gate():
    found = outcome(source(figure(time_us=4.0)), published(figure(time_us=5.0, rounds=0)))
    assert (found.exit_code(strict=False), found.exit_code(strict=True)) == (ExitCode.OK, ExitCode.NOISY)
