"""A run summed up over a suite: known ratios come back, weighted, paired by round, with an honest interval."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bundled import CATALOG
from committed import RESULTS
from decode_workloads import decode_at
from run_data import case, failed, measured

from gdnbench.analyse.suite import judge_suite, judge_worst
from gdnbench.errors import ExitCode
from gdnbench.model.measurement import InputsEffect
from gdnbench.model.op import Suite
from gdnbench.model.status import Role, Status
from gdnbench.stats.interval import Verdict
from gdnbench.store.samples import CaseRounds

ONE, EIGHT, MANY = decode_at(B=1), decode_at(B=8), decode_at(B=64)
SUITE = Suite("three", {ONE: 10, EIGHT: 7, MANY: 8})
ROUNDS = 41
# True times by label and workload, microseconds.
TIMES = {
    "decode-fla": {ONE: 5.0, EIGHT: 7.0, MANY: 21.0},
    "decode-flashinfer": {ONE: 5.2, EIGHT: 6.9, MANY: 21.5},
    "decode-v9": {ONE: 4.2, EIGHT: 6.0, MANY: 20.0},
    "decode-floor-copy": {ONE: 4.0, EIGHT: 5.8, MANY: 19.8},
}
ROLES = {"decode-fla": Role.BASELINE, "decode-floor-copy": Role.FLOOR}


def simulated(seed=0, times=TIMES, sd=0.003, drift=0.02):
    """Rows and rounds with noise of their own, and a drift that all cases of a round share."""
    random = np.random.default_rng(seed)
    shared = np.exp(drift * random.standard_normal(ROUNDS))
    rows, rounds = [], {}
    for label, by_workload in times.items():
        for workload, time_us in by_workload.items():
            each = case(label, ROLES.get(label, Role.KERNEL), workload)
            rows.append(measured(each, time_us))
            rounds[each.id] = time_us * shared * np.exp(sd * random.standard_normal(ROUNDS))
    return rows, rounds


def judge(rows, rounds, suite=SUITE, process=None, **more):
    """`process`: of each round; one that is not told by default."""
    found = {
        each: CaseRounds(times, np.zeros(len(times), dtype=int) if process is None else process)
        for each, times in rounds.items()
    }
    result = judge_suite(rows, found, suite, **{"op": "decode", "margin": 0.005, "confidence": 0.95, **more})
    return result, {row.label: row for row in result.rows}


def truth(label, reference, weights=SUITE.weights):
    logs = [weight * np.log(reference[workload] / TIMES[label][workload]) for workload, weight in weights.items()]
    return np.exp(sum(logs) / sum(weights.values()))


def test_a_kernel_is_compared_with_the_baseline_by_the_weighted_geometric_mean():
    result, rows = judge(*simulated())
    speedup = rows["decode-v9"].comparison.speedup
    assert speedup.low < truth("decode-v9", TIMES["decode-fla"]) < speedup.high
    assert speedup.relative_half_width < 0.005  # the drift of 2 % that all share is not in it
    assert rows["decode-v9"].comparison.verdict is Verdict.FASTER
    assert rows["decode-fla"].comparison is None
    assert rows["decode-floor-copy"].comparison is None  # a floor has no verdict
    assert [row.time_us for row in result.rows] == sorted(row.time_us for row in result.rows)


def test_of_several_references_the_fastest_at_each_workload_counts():
    result, rows = judge(*simulated(), over=("decode-fla", "decode-flashinfer"))
    best = {workload: min(TIMES[label][workload] for label in result.over) for workload in SUITE.weights}
    speedup = rows["decode-v9"].comparison.speedup
    assert speedup.low < truth("decode-v9", best) < speedup.high
    assert rows["decode-fla"].comparison.speedup.estimate < 1
    assert rows["decode-flashinfer"].comparison.speedup.estimate < 1


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """95 % of 150 runs of one process, which adds a launch to all and a share of its own to each."""
    wanted = truth("decode-v9", TIMES["decode-fla"])
    times = {label: TIMES[label] for label in ("decode-fla", "decode-v9")}
    held = 0
    for seed in range(150):
        rows, rounds = simulated(seed, times)
        random = np.random.default_rng(1000 + seed)
        launch = random.normal(0, 0.06)
        rounds = {name: found * random.normal(1, 0.001) + launch for name, found in rounds.items()}
        speedup = judge(rows, rounds)[1]["decode-v9"].comparison.speedup
        held += speedup.low <= wanted <= speedup.high
    assert held / 150 > 0.95 - 4 * 0.018


def test_a_kernel_and_its_reference_alone_tell_no_less_of_what_processes_add():
    """95 % of 400 runs, within three standard errors; of a reference that is counted twice 91 %."""
    times = {label: {ONE: 5.0} for label in ("decode-fla", "decode-v9")}
    process, held = np.repeat([1, 2, 3], [14, 14, 13]), 0
    for seed in range(400):
        rows, rounds = simulated(seed, times, drift=0.0)
        random = np.random.default_rng(1000 + seed)
        launch = random.normal(0, 0.06, 4)[process]
        rounds = {name: found * (1 + random.normal(0, 0.004, 4)[process]) + launch for name, found in rounds.items()}
        speedup = judge(rows, rounds, Suite("one", {ONE: 1}), process)[1]["decode-v9"].comparison.speedup
        held += speedup.low <= 1.0 <= speedup.high
    assert held / 400 > 0.95 - 3 * 0.0109


def test_a_baseline_that_is_told_apart_from_itself_widens_the_mean_as_it_does_each_workload():
    rows, rounds = simulated()
    quiet = judge(rows, rounds)[1]["decode-v9"].comparison.speedup
    for row in [row for row in rows if row.role is Role.BASELINE]:
        again = case("decode-fla@again", Role.CONTROL, row.case.workload)
        rows.append(measured(again, 1.03 * row.timing.time_us))
        rounds[again.id] = 1.03 * rounds[row.case.id] * np.exp(0.003 * np.random.default_rng(1).standard_normal(ROUNDS))
    noisy = judge(rows, rounds)[1]["decode-v9"].comparison.speedup
    assert noisy.relative_half_width > 0.03 > 5 * quiet.relative_half_width


def test_a_kernel_without_a_time_at_some_workload_is_named_and_not_summed_up():
    rows, rounds = simulated()
    late = case("decode-late", workload=ONE)
    rows += [measured(late, 4.0), failed(case("decode-late", workload=EIGHT), Status.CRASHED)]
    rounds[late.id] = np.full(ROUNDS, 4.0)
    result, found = judge(rows, rounds)
    assert "decode-late" not in found
    assert result.incomplete == {"decode-late": 1}


def test_the_mean_is_over_the_workloads_that_the_run_came_to_and_where_a_reference_has_a_time():
    rows, rounds = simulated()
    for stopped in ([case("decode-fla", Role.BASELINE, EIGHT)], [case("decode-v9", workload=EIGHT)]):
        status = Status.CRASHED if stopped[0].role is Role.BASELINE else Status.NOT_RUN
        left = [failed(row.case, status) if row.case.id == stopped[0].id else row for row in rows]
        result, found = judge(left, {name: times for name, times in rounds.items() if name != stopped[0].id})
        assert result.left_out == (EIGHT,)
        assert result.summed == 2
        speedup = found["decode-v9"].comparison.speedup
        rest = {workload: weight for workload, weight in SUITE.weights.items() if workload != EIGHT}
        assert speedup.low < truth("decode-v9", TIMES["decode-fla"], rest) < speedup.high


def test_it_says_at_how_many_workloads_a_kernel_is_slower_and_where_most():
    times = {**TIMES, "decode-v9": {ONE: 4.2, EIGHT: 7.7, MANY: 21.05}}  # 1.19, 0.91 and 0.9976, within the margin
    row = judge(*simulated(times=times, sd=1e-5))[1]["decode-v9"]
    assert row.slower_at(0.005) == 1
    assert row.slower_at(0.001) == 2
    assert row.worst == EIGHT
    assert row.speedups[EIGHT] == pytest.approx(7.0 / 7.7, abs=1e-3)


def test_a_round_that_a_workload_lacks_is_left_out_for_all():
    rows, rounds = simulated()
    torn = {name: times.copy() for name, times in rounds.items()}
    torn[case("decode-v9", workload=MANY).id][:5] = np.nan
    whole = {name: times[5:] for name, times in rounds.items()}
    one, other = (judge(rows, each)[1]["decode-v9"].comparison.speedup for each in (torn, whole))
    assert one.estimate == pytest.approx(other.estimate)


def test_of_several_profiles_each_kernels_line_is_its_worst_and_names_it():
    prefill = CATALOG.ops["prefill"]
    workloads = [prefill.workload({"lengths": (size,)}) for size in (1024, 8192)]
    suite = Suite("two", dict.fromkeys(workloads, 1.0)).at(("mixed-heads", "forgetful"))
    times = {
        "prefill-fla": dict.fromkeys(("", "mixed-heads"), 60.0),
        "prefill-v3": dict.fromkeys(("", "mixed-heads"), 50.0),
        "prefill-v4": {"": 30.0, "mixed-heads": 90.0},
    }
    depends = {"prefill-v4": InputsEffect("never", "forgetful", 3.0, 2.9, 3.1)}
    random, rows, rounds = np.random.default_rng(3), [], {}
    for label, by_profile in times.items():
        for workload in suite.workloads:
            each = case(label, Role.BASELINE if label == "prefill-fla" else Role.KERNEL, workload)
            time_us = by_profile[workload.profile]
            rows.append(replace(measured(each, time_us), inputs=depends.get(label)))
            rounds[each.id] = CaseRounds(time_us * random.normal(1, 0.002, 40), np.repeat([1, 2], 20))
    result = judge_worst(rows, rounds, suite, op="prefill", margin=0.005, confidence=0.95)
    found = {row.label: row for row in result.rows}
    assert result.profiles == ("mixed-heads", "forgetful")
    assert (found["prefill-v4"].profile, found["prefill-v4"].comparison.verdict) == ("mixed-heads", Verdict.SLOWER)
    assert found["prefill-v3"].comparison.verdict is Verdict.FASTER
    assert found["prefill-v4"].comparison.speedup.low < 60 / 90 < found["prefill-v4"].comparison.speedup.high
    alone = judge_worst(rows, rounds, suite.by_profile()[""], op="prefill", margin=0.005, confidence=0.95)
    assert {row.label: row.comparison.verdict for row in alone.rows if row.comparison}["prefill-v4"] is Verdict.FASTER


RUNS = Path(__file__).parent / "data" / "runs"
SERVING = "20261123-211325-h200-prefill-serving"
"""Two rounds at 5 of 76 workloads of a run that was stopped: at the last the baseline failed and the rest was not run;
one library is wrong at another."""

BEFORE_AN_AXIS = "20261124-172753-h200-layer-heads"
"""A run of `layer` of the time when the op had no axis BETA."""


def test_of_several_ops_the_one_that_is_meant_is_told_where_nothing_says_which(command_line, tmp_path):
    words = ("--gpu", "cpu", "--dry-run", "--out", tmp_path)
    _, _, unnamed = command_line("run", *words)
    assert "note: the kernels of decode are meant; --op names another op: decode-pool, " in " ".join(unnamed.split())
    _, _, named = command_line("run", "--op", "decode", *words)
    assert "note:" not in named
    _, _, said = command_line("run", "nvfp4-gemv", *words)
    assert "nvfp4-gemv is an op, not a kernel" in said
    assert "--op nvfp4-gemv" in said
    _, _, other = command_line("run", "decode-v9", "--op", "layer", *words)
    assert "decode-v9 is a kernel of decode, and another op's are named" in " ".join(other.split())


@pytest.mark.parametrize("columns", ["80", "160"])
def test_a_run_that_was_stopped_is_summed_up_over_the_workloads_that_have_times(command_line, columns):
    code, out, err = command_line("show", SERVING, "--out", RUNS, columns=columns)
    assert (code, err) == (ExitCode.OK, "")
    table = out[out.index("suite serving: 4 of 5 workloads") :]
    assert "left out for want of times: qk16_v64 lengths=16384" in " ".join(table.split())
    assert "not at every workload: prefill-flashqla (at 3)" in " ".join(table.split())
    assert [line.split()[0] for line in table.splitlines()[2:5]] == [
        "prefill-auto",
        "prefill-flashinfer",
        "prefill-fla",
    ]


@pytest.mark.parametrize("option", [(), ("--contest",)], ids=["table", "contest"])
def test_a_run_of_before_an_axis_was_added_is_summed_up_by_a_suite_of_now(command_line, option):
    code, out, err = command_line("show", BEFORE_AN_AXIS, *option, "--suite", "default", "--out", RESULTS)
    assert code == 0, err
    assert "2.901x" in out
    assert "worst 1.364x at B=128" in " ".join(out.split())
