"""Rows out of samples whose medians and ratios are known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from paired_rounds import compare_rounds
from run_data import WORKLOAD, case, collect, healthy

from gdnbench.analyse.analysis import analyse
from gdnbench.analyse.rounds import Collected
from gdnbench.errors import ExitCode
from gdnbench.machine.gpus import spec_of
from gdnbench.model.gpu import Build
from gdnbench.model.status import Role, Status
from gdnbench.stats.estimators import trimmed_mean
from gdnbench.store.journal import Examined, HostTimes, Sampled
from gdnbench.store.settings import GPU_TRIM, Settings

DECODE = CATALOG.ops["decode"]
BASELINE, CONTROL = case("decode-fla", Role.BASELINE), case("decode-fla", Role.CONTROL)
FLOOR = case("decode-floor-copy", Role.FLOOR, WARPS=8)
FAST, SLOW, SAME = case("decode-fast"), case("decode-slow"), case("decode-same")
CASES = (BASELINE, FAST, SLOW, SAME, FLOOR, CONTROL)
MEDIANS_US = {BASELINE.id: 5.0, FAST.id: 4.5, SLOW.id: 5.5, SAME.id: 5.0, FLOOR.id: 4.0, CONTROL.id: 5.0}


def rows_of(cases=CASES, collected=None, checked=None, builds=None, settings=Settings(), op=DECODE, told=()):  # noqa: B008
    found = analyse(
        op, cases, checked or healthy(cases), builds or {}, collected or collect(MEDIANS_US), settings,
        timer="nvbench", run_id="r", copying={"decode-floor-copy", "decode-floor-other"}, warnings=told,
    )  # fmt: skip
    return {row.case.id: row for row in found.measurements}, found


@pytest.fixture(scope="module")
def rows():
    return rows_of()[0]


@pytest.mark.parametrize(("each", "median_us"), [(BASELINE, 5.0), (FAST, 4.5), (SLOW, 5.5), (FLOOR, 4.0)])
def test_a_time_is_the_typical_sample_within_its_interval(rows, each, median_us):
    timing = rows[each.id].timing
    assert timing.time_us == pytest.approx(median_us, rel=0.01)
    assert timing.median_us == pytest.approx(median_us, rel=0.01)
    assert timing.time_lo_us <= timing.time_us <= timing.time_hi_us
    assert timing.min_us <= timing.p10_us < timing.time_us < timing.p90_us
    assert (timing.samples, timing.rounds, timing.timer) == (1600, 8, "nvbench")
    assert timing.noise == pytest.approx(0.02, abs=0.01)


@pytest.mark.parametrize(
    ("each", "speedup", "verdict"),
    [(FAST, 5.0 / 4.5, "faster"), (SLOW, 5.0 / 5.5, "slower"), (SAME, 1.0, "same"), (CONTROL, 1.0, "same")],
)
def test_a_speedup_is_baseline_over_kernel(rows, each, speedup, verdict):
    versus = rows[each.id].versus
    assert versus.speedup == pytest.approx(speedup, rel=0.006)
    assert versus.low < versus.speedup < versus.high
    assert (versus.verdict, versus.baseline) == (verdict, "decode-fla")


def test_a_floor_has_the_bandwidth_of_what_it_moves_and_the_empty_one_has_none():
    empty = case("decode-floor-empty", Role.FLOOR)
    rows, _ = rows_of(cases=(BASELINE, FLOOR, empty), collected=collect(MEDIANS_US | {empty.id: 2.0}))
    copying = rows[FLOOR.id]
    assert copying.nbytes == DECODE.copy_bytes(WORKLOAD) < rows[BASELINE.id].nbytes
    assert copying.timing.bandwidth_gbs == pytest.approx(copying.nbytes / copying.timing.time_us / 1e3)
    assert rows[empty.id].nbytes == 0
    assert math.isnan(rows[empty.id].timing.bandwidth_gbs)


@pytest.mark.parametrize(("gpu", "peak_tflops"), [("h200", 989.5 * 1980 / 1830), ("b200", 9000.0)])
def test_operations_of_a_precision_that_a_gpu_lacks_are_bound_by_the_one_they_are_widened_to(gpu, peak_tflops):
    count = 44e9  # 41.1 µs at the peak of an H200 for fp16, and a copy takes 40
    op = replace(DECODE, flops=lambda workload: {"fp4": count}, instead={"fp4": "fp16"})
    collected = collect({each: 10 * time_us for each, time_us in MEDIANS_US.items()})
    rows = {
        row.case.id: row
        for row in analyse(
            op, CASES, healthy(CASES), {}, collected, Settings(),
            timer="nvbench", run_id="r", copying={"decode-floor-copy"}, rated=spec_of(gpu),
        ).measurements
    }  # fmt: skip
    timing = rows[FAST.id].timing
    binds = count / peak_tflops / 1e6 > 40.0
    assert timing.bound == ("flops" if binds else "copy")
    assert binds == (gpu == "h200")
    if binds:
        assert timing.sol == pytest.approx(count / peak_tflops / 1e6 / timing.time_us)


def test_a_shift_of_whole_rounds_cancels_out():
    """The clock drops by 20 % in half of the rounds: times spread, comparisons do not."""
    collected = collect(MEDIANS_US)
    for rounds in collected.samples.values():
        for number in (2, 3, 6, 7):
            slowed = tuple(1.2 * time for time in rounds[number].times_us)
            rounds[number] = replace(rounds[number], times_us=slowed)
    rows, _ = rows_of(collected=collected)
    assert rows[FAST.id].versus.verdict == "faster"
    assert rows[FAST.id].versus.high - rows[FAST.id].versus.low < 0.012
    assert rows[FAST.id].timing.relative_half_width > 0.02
    assert "interval" in "".join(rows[FAST.id].warnings)


def times_by_round(collected, each):
    rounds = collected.samples[each.id]
    return np.array([trimmed_mean(np.array(rounds[number].times_us), GPU_TRIM) for number in sorted(rounds)])


def test_of_one_process_an_interval_holds_what_processes_differ_by_and_the_controls_its_rounds_alone():
    collected = collect({each.id: MEDIANS_US[each.id] for each in (BASELINE, FAST, CONTROL)})
    rows, _ = rows_of(cases=(BASELINE, FAST, CONTROL), collected=collected)
    by_rounds = {
        each: compare_rounds(times_by_round(collected, each), times_by_round(collected, BASELINE)).speedup
        for each in (FAST, CONTROL)
    }
    control, found = rows[CONTROL.id].versus, rows[FAST.id].versus
    assert (control.low, control.high) == pytest.approx((by_rounds[CONTROL].low, by_rounds[CONTROL].high), rel=1e-4)
    assert found.low < by_rounds[FAST].low - 0.001
    assert found.high > by_rounds[FAST].high + 0.001


def test_many_kernels_are_corrected_for_their_number():
    """Holm takes the clearest first: that one's interval widens most, the control's does not."""
    collected = collect(MEDIANS_US)
    rows, _ = rows_of(collected=collected)
    plain = {each: compare_rounds(times_by_round(collected, each), times_by_round(collected, BASELINE)).speedup
             for each in (FAST, SLOW, SAME, CONTROL)}  # fmt: skip
    widths = {each: rows[each.id].versus.high - rows[each.id].versus.low for each in plain}
    widened = {each: widths[each] / (plain[each].high - plain[each].low) for each in plain}
    assert widened[CONTROL] == pytest.approx(1.0, rel=1e-3)
    assert max(widened[each] for each in (FAST, SLOW, SAME)) > 1.2
    assert min(widened[each] for each in (FAST, SLOW, SAME)) >= 1 - 1e-9


def test_the_margin_and_the_confidence_are_the_users():
    rows, _ = rows_of(settings=Settings(margin=0.3))
    assert {rows[each.id].versus.verdict for each in (FAST, SLOW, SAME)} == {"same"}
    narrow, wide = (rows_of(settings=Settings(confidence=level))[0][FAST.id].timing for level in (0.5, 0.99))
    assert narrow.relative_half_width < wide.relative_half_width


def test_a_baseline_that_differs_from_itself_raises_the_alarm():
    rows, found = rows_of(collected=collect(MEDIANS_US | {CONTROL.id: 5.1}))
    assert rows[CONTROL.id].versus.verdict == "slower"
    (warning,) = found.warnings
    assert "noise" in warning
    assert rows_of()[1].warnings == ()


@pytest.mark.parametrize("status", [Status.WRONG_NUMBERS, Status.CRASHED, Status.UNSUPPORTED])
def test_a_case_that_failed_its_preflight_has_no_time(status):
    checked = healthy(CASES) | {SLOW.id: Examined(SLOW.id, status, "because")}
    rows, _ = rows_of(checked=checked)
    assert (rows[SLOW.id].timing, rows[SLOW.id].versus) == (None, None)
    assert (rows[SLOW.id].status, rows[SLOW.id].reason) == (status, "because")
    assert rows[FAST.id].versus.verdict == "faster"


def test_without_its_baseline_a_kernel_still_has_a_time():
    checked = healthy(CASES) | {BASELINE.id: Examined(BASELINE.id, Status.CRASHED, "SIGSEGV")}
    rows, found = rows_of(checked=checked)
    assert rows[FAST.id].timing
    assert {row.versus for row in rows.values()} == {None}
    assert any("the baseline has no time (crashed)" in warning for warning in found.warnings)


def test_what_was_not_reached_says_so():
    rows, found = rows_of(checked={BASELINE.id: Examined(BASELINE.id, Status.OK)}, collected=Collected())
    assert found.warnings == ()  # which a run that is resumed would keep, though it has the time then
    assert {row.status for row in rows.values()} == {Status.NOT_RUN}
    assert all(row.reason for row in rows.values())


def test_a_case_with_missing_rounds_is_compared_by_those_that_both_have():
    collected = collect(MEDIANS_US)
    for number in (3, 4, 5):
        del collected.samples[FAST.id][number]
    rows, _ = rows_of(collected=collected)
    assert (rows[FAST.id].timing.rounds, rows[BASELINE.id].timing.rounds) == (5, 8)
    assert rows[FAST.id].versus.verdict == "faster"
    assert rows[FAST.id].versus.speedup == pytest.approx(5.0 / 4.5, rel=0.006)


def test_rounds_at_a_low_clock_are_flagged_and_counted():
    collected = collect(MEDIANS_US)
    for number in (2, 5):
        slow = replace(collected.samples[FAST.id][number], sm_mhz=(1500.0,) * 200)
        collected.samples[FAST.id][number] = slow
    rows, found = rows_of(collected=collected)
    assert "2 of 8 rounds below 97%" in rows[FAST.id].warnings[0]
    assert rows[SLOW.id].warnings == ()
    assert {(row.case, row.round) for row in found.rounds if row.low_clock} == {(FAST.id, 2), (FAST.id, 5)}


def test_a_rounds_time_is_its_trimmed_mean_with_the_median_beside_it():
    """Half of the samples in each of two peaks, and one more in the upper: the median is there, the time between."""
    collected = Collected()
    times_us = (4.992,) * 50 + (5.152,) * 51
    for number in (1, 2, 3):
        collected.take(Sampled(number, BASELINE.id, times_us))
    rows, found = rows_of(cases=(BASELINE,), collected=collected)
    between = pytest.approx((44.95 * 4.992 + 45.95 * 5.152) / 90.9, rel=1e-12)
    assert [(row.time_us, row.median_us) for row in found.rounds] == [(between, 5.152)] * 3
    timing = rows[BASELINE.id].timing
    assert (timing.time_us, timing.median_us) == (between, 5.152)


def test_a_time_is_the_geometric_mean_over_its_rounds():
    collected = Collected()
    for number, level in enumerate((5.0, 5.1, 9.0), start=1):
        collected.take(Sampled(number, BASELINE.id, (level, level + 0.01, level + 0.02, level + 0.03)))
    rows, _ = rows_of(cases=(BASELINE,), collected=collected)
    assert rows[BASELINE.id].timing.time_us == pytest.approx((5.015 * 5.115 * 9.015) ** (1 / 3))
    assert rows[BASELINE.id].timing.mean_us == pytest.approx((5.015 + 5.115 + 9.015) / 3)
    assert rows[BASELINE.id].timing.median_us == pytest.approx(5.115)


def test_builds_launches_and_host_times_stand_beside_their_case():
    collected = collect(MEDIANS_US)
    collected.take(HostTimes({FAST.id: 21.5}))
    build = Build("sm_90", registers=32, shared_bytes=0, spill_bytes=8, load_bits=128, code_bytes=4096)
    rows, _ = rows_of(collected=collected, builds={FAST.id: build})
    fast, slow = rows[FAST.id], rows[SLOW.id]
    assert (fast.registers, fast.spill_bytes, fast.launches, fast.timing.cpu_time_us) == (32, 8, 1, 21.5)
    assert (slow.registers, slow.spill_bytes) == (-1, -1)
    assert math.isnan(slow.timing.cpu_time_us)


def test_what_is_to_be_told_of_a_cases_code_stands_among_the_warnings_of_its_time():
    rows, _ = rows_of(told=({SLOW.id: "another form"}, {FAST.id: "serialized", SLOW.id: "of g: serialized"}))
    assert rows[FAST.id].warnings[0] == "serialized"
    assert rows[SLOW.id].warnings[:2] == ("another form", "of g: serialized")
    assert "serialized" not in "".join(rows[BASELINE.id].warnings)


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_copying_kernels_the_fastest_at_the_workload_is_the_speed_of_light(order):
    """A bound that another copy beats is none; which one that is may change with the batch."""
    large = decode_at(B=64)
    own = {workload: case("decode-floor-copy", Role.FLOOR, workload, WARPS=8) for workload in (WORKLOAD, large)}
    other = {workload: case("decode-floor-other", Role.FLOOR, workload, LANES=4) for workload in (WORKLOAD, large)}
    kernel = {workload: case("decode-fast", workload=workload) for workload in (WORKLOAD, large)}
    times = {
        own[WORKLOAD]: 4.0, other[WORKLOAD]: 3.6, kernel[WORKLOAD]: 4.5,
        own[large]: 20.0, other[large]: 22.0, kernel[large]: 25.0,
    }  # fmt: skip
    found, _ = rows_of(tuple(times)[::order], collect({each.id: time_us for each, time_us in times.items()}))
    for workload, share in ((WORKLOAD, 3.6 / 4.5), (large, 20.0 / 25.0)):
        assert found[kernel[workload].id].timing.sol == pytest.approx(share, rel=0.006)
        for floors in (own, other):
            assert found[floors[workload].id].nbytes == DECODE.copy_bytes(workload)
            assert found[floors[workload].id].versus is None


def test_an_empty_floor_that_is_faster_than_every_copy_is_no_speed_of_light():
    empty = case("decode-floor-empty", Role.FLOOR)
    found, _ = rows_of((FAST, FLOOR, empty), collect({FAST.id: 4.5, FLOOR.id: 4.0, empty.id: 2.0}))
    assert found[FAST.id].timing.sol == pytest.approx(4.0 / 4.5, rel=0.006)


CHEAT = case("decode-cheat")


def test_a_kernel_that_is_faster_than_a_copy_of_its_bytes_has_no_time_and_no_verdict():
    collected = collect(MEDIANS_US | {CHEAT.id: 3.1})
    rows, _ = rows_of(cases=(*CASES, CHEAT), collected=collected)
    row = rows[CHEAT.id]
    assert (row.status, row.timing, row.versus) == (Status.IMPLAUSIBLE, None, None)
    assert row.status.exit_code is ExitCode.WRONG_NUMBERS
    assert row.reason.startswith("3.1")
    assert "less than the fastest copy of its bytes takes, 4." in row.reason
    without, _ = rows_of(collected=collected)
    assert rows[FAST.id].versus == without[FAST.id].versus  # the others are judged as if it were not there
    assert rows[FAST.id].timing.time_us == without[FAST.id].timing.time_us
    assert rows[FAST.id].versus.verdict == "faster"


@pytest.mark.parametrize(
    ("floor_us", "cheat_us", "is_plausible"),
    [(None, 3.85, True), (None, 3.75, False), (3.0, 3.1, True), (3.0, 2.7, False)],
)
def test_a_kernel_may_beat_the_fastest_floor_by_a_little(floor_us, cheat_us, is_plausible):
    other = case("decode-floor-other", Role.FLOOR)
    of_other = {other.id: floor_us} if floor_us else {}
    cases = (*CASES, CHEAT, other) if floor_us else (*CASES, CHEAT)
    row = rows_of(cases, collect(MEDIANS_US | {CHEAT.id: cheat_us} | of_other))[0][CHEAT.id]
    assert row.status is (Status.OK if is_plausible else Status.IMPLAUSIBLE)
    assert floor_us or not is_plausible or row.timing.sol > 1.03


def test_noise_alone_makes_no_time_implausible():
    """The interval reaches beyond the limit, though the estimate does not."""
    collected = collect(MEDIANS_US | {CHEAT.id: 3.7})
    for number, sampled in collected.samples[CHEAT.id].items():
        factor = 1.25 if number % 2 else 0.78
        times_us = tuple(factor * time for time in sampled.times_us)
        collected.samples[CHEAT.id][number] = replace(sampled, times_us=times_us)
    rows, _ = rows_of(cases=(*CASES, CHEAT), collected=collected)
    assert rows[CHEAT.id].status is Status.OK


def test_an_empty_launch_is_a_limit_where_nothing_is_copied():
    empty = case("decode-floor-empty", Role.FLOOR)
    cases = (BASELINE, CONTROL, CHEAT, empty)
    rows, _ = rows_of(cases=cases, collected=collect(MEDIANS_US | {CHEAT.id: 1.5, empty.id: 2.0}))
    assert rows[CHEAT.id].status is Status.IMPLAUSIBLE
    assert "less than an empty launch takes" in rows[CHEAT.id].reason


def test_an_ablation_is_no_limit_of_kernels_has_none_itself_and_is_compared_with_nothing():
    ablation = case("decode-v9-without", Role.ABLATION)
    cases = (*CASES, CHEAT, ablation)
    rows, _ = rows_of(cases=cases, collected=collect(MEDIANS_US | {CHEAT.id: 4.5, ablation.id: 4.9}))
    assert rows[CHEAT.id].status is Status.OK  # faster than the ablation
    rows, _ = rows_of(cases=cases, collected=collect(MEDIANS_US | {CHEAT.id: 4.5, ablation.id: 1.0}))
    row = rows[ablation.id]
    assert (row.status, row.versus) == (Status.OK, None)
    assert row.timing.time_us == pytest.approx(1.0, rel=0.01)
    assert row.nbytes == DECODE.traffic_bytes(WORKLOAD)
