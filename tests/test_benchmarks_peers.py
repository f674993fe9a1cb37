"""The benchmark of other ways of timing: what verdicts are worth, what is next, what a killed run keeps, the table.

No GPU is here: workers are stood in for, by what they would leave; gdnbench's runs by those of a simulated machine.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from calibration_data import H200, SimulatedMachine, SimulatedSession

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks` is no part of the installed package

from benchmarks.peers import __main__ as program  # noqa: E402
from benchmarks.peers import measure, peers, pilot, records, rules, task  # noqa: E402
from benchmarks.peers.pilot import Rung  # noqa: E402
from benchmarks.peers.rules import Judgement, Outcome  # noqa: E402
from gdnbench.process.command import Completed  # noqa: E402
from gdnbench.stats.interval import Verdict  # noqa: E402

FASTER, SLOWER, SAME, UNCLEAR = Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.UNCLEAR
RIGHT, WRONG, UNDECIDED, FAILED = Outcome


def within_noise(a_us, b_us):
    return rules.within_noise(a_us, b_us, 0.05, 0.02)


@pytest.mark.parametrize(
    ("slowdown", "outcomes"),
    [
        (None, {SAME: RIGHT, FASTER: WRONG, SLOWER: WRONG, UNCLEAR: UNDECIDED}),  # equal kernels
        (0.007, {SLOWER: RIGHT, FASTER: WRONG, UNCLEAR: UNDECIDED, SAME: WRONG}),
        (math.nextafter(0.005, 1), {SAME: WRONG}),
        (0.005, {SAME: UNDECIDED}),  # true within the margin, and finds nothing
        (0.0, {SLOWER: RIGHT}),  # a planted chain that the pilot reads as free is not an equal kernel
    ],
)
def test_a_verdict_is_right_or_wrong_by_what_was_planted(slowdown, outcomes):
    found = {verdict: rules.judge_outcome(Judgement(verdict, 0.005), slowdown) for verdict in outcomes}
    assert found == outcomes


def test_a_tie_of_two_numbers_is_the_same_and_promises_nothing():
    tie = rules.smaller_wins(4.128, 4.128)
    assert (tie.verdict, tie.margin) == (SAME, 0.0)
    assert rules.judge_outcome(tie, 0.003) is WRONG


@pytest.mark.parametrize(
    ("rule", "b_us", "verdict"),
    [
        *((rules.one_percent, *each) for each in ((101.0, SLOWER), (100.999, SAME), (99.0, FASTER), (99.001, SAME))),
        *((within_noise, *each) for each in ((102.0, SAME), (98.0, SAME), (102.001, SLOWER), (97.999, FASTER))),
    ],
)
def test_what_a_rule_takes_for_a_difference(rule, b_us, verdict):
    assert rule(100.0, b_us).verdict is verdict


@pytest.mark.parametrize("noise", [None, 0.0])
def test_without_noise_it_cannot_tell(noise):
    assert rules.within_noise(100.0, 150.0, noise, noise).verdict is UNCLEAR


def test_a_chain_costs_what_the_rungs_around_it_say():
    ladder = (Rung(8, 0.004, 0.002, 0.006), Rung(32, 0.016, 0.014, 0.018), Rung(16, 0.008, 0.006, 0.010))
    assert pilot.cost_of(24, ladder) == pytest.approx((0.012, 0.010, 0.014))
    assert pilot.cost_of(4, ladder) == pytest.approx((0.002, 0.001, 0.003))
    noisy = (Rung(8, -0.001, -0.003, 0.001), Rung(16, 0.008, 0.006, 0.01), Rung(32, 0.006, 0.004, 0.008))
    assert pilot.cost_of(8, noisy)[0] == 0.0
    assert pilot.cost_of(32, noisy)[0] == pytest.approx(0.008)  # no less than the rung before


def nvbench_json(folder, kernels):
    """What NVBench leaves: samples in seconds by kernel, as its `--jsonbin` writes them."""
    path = folder / "nvbench.json"
    benchmarks = []
    for number, (name, drawn) in enumerate(kernels.items()):
        benchmark = {"name": name, "states": [{"name": "Device=0", "summaries": []}]}
        if drawn is not None:
            samples = np.asarray(drawn)
            q1, median, q3 = np.percentile(samples, [25, 50, 75])
            values = {
                "time/gpu/min": samples.min(), "time/gpu/max": samples.max(), "time/gpu/mean": samples.mean(),
                "time/gpu/stdev/absolute": samples.std(), "time/gpu/stdev/relative": samples.std() / samples.mean(),
                "time/gpu/q1": q1, "time/gpu/median": median, "time/gpu/q3": q3, "time/gpu/iqr/absolute": q3 - q1,
                "time/gpu/iqr/relative": (q3 - q1) / median, "sm_clock_rate/mean": 1.98e9,
            }  # fmt: skip
            summaries = [
                {"tag": f"nv/cold/{tag}", "data": [{"name": "value", "type": "float64", "value": repr(float(value))}]}
                for tag, value in values.items()
            ]
            binary = folder / "nvbench.json-bin" / f"{number}.bin"
            binary.parent.mkdir(exist_ok=True)
            samples.astype(np.float32).tofile(binary)
            data = [
                {"name": "filename", "type": "string", "value": f"nvbench.json-bin/{number}.bin"},
                {"name": "size", "type": "int64", "value": str(len(samples))},
            ]
            summaries.append({"tag": "nv/json/bin:nv/cold/sample_times", "data": data})
            benchmark["states"][0]["summaries"] = summaries
        benchmarks.append(benchmark)
    path.write_text(json.dumps({"devices": [], "benchmarks": benchmarks}))
    return path


class SimulatedWorkers:
    """Stands in for the worker processes: answers with times of a machine that is known."""

    def __init__(self, slow_of):
        self.asked, self._slow_of = [], slow_of

    def __call__(self, words, *, limit_s, environment, merge):
        module, path = words[2], Path(words[3])
        asked = task.Task.read(path)
        self.asked.append((module.rpartition(".")[2], asked))
        assert environment["CUDA_VISIBLE_DEVICES"] == H200.uuid
        assert (words[1], limit_s > 0, merge) == ("-m", True, True)
        times = {
            each.label: {name: 4.0 * (1 + self._slow_of(params)) for name, params in each.kernels.items()}
            for each in asked.workloads
        }
        if module.endswith("nvbench_worker"):
            kernels = {
                f"{label}|{name}": np.random.default_rng(1).normal(us, 0.001 * us, 500) * 1e-6
                for label, at in times.items()
                for name, us in at.items()
            }
            nvbench_json(Path(asked.record).parent, kernels)
        for peer in asked.peers if module.endswith("functions_worker") else ():
            task.Answer(peer, 1.0, times).append(Path(asked.record))
        return Completed(0, "done")


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """An H200 on which everything is simulated; gives its workers and the labels of gdnbench's runs."""
    workers = SimulatedWorkers(lambda params: params.get("CHAIN", 0) * 0.0005)
    simulated, begun = SimulatedMachine(), []

    def begin(_catalog, plan, folder, _observer):
        begun.append(plan)
        return SimulatedSession(simulated, plan, folder)

    monkeypatch.setattr(program, "list_gpus", lambda: (H200,))
    monkeypatch.setattr(program, "begin_session", begin)
    monkeypatch.setattr(measure, "begin_session", begin)
    monkeypatch.setattr(measure, "run_tool", workers)
    monkeypatch.chdir(tmp_path)
    return workers, begun


NAMES = "do_bench,do_bench_cudagraph,nvbench,gdnbench-quick,gdnbench"


class TestProgram:
    def run(self, *more, trials=2):
        return program.main(["run", "out/record.csv", "--trials", str(trials), "--peers", NAMES, *more])

    def test_a_whole_run_has_a_line_for_every_comparison_and_prints_the_table(self, machine, capsys):
        workers, begun = machine
        assert self.run() == 0
        lines = records.read_lines(Path("out/record.csv"))
        kinds = {(each.peer, each.rule, each.trial, each.copy, each.workload, each.target) for each in lines}
        assert len(kinds) == len(lines)
        per_workload = 4  # the equal kernel and three slowdowns
        one_number, gdnbench = 2 * 2 * 2, 2 * 2  # peers, rules, trials; peers, copies in their one trial
        nvbench = 2 * 2
        assert len(lines) == 2 * per_workload * (one_number + nvbench + gdnbench)
        assert {each.outcome for each in lines if each.rule == peers.SMALLER} == {RIGHT}
        assert {each.gpu for each in lines} == {H200.uuid}
        assert [name for name, _ in workers.asked].count("functions_worker") == 2
        assert [plan.request.settings.clocks for plan in begun[1:]].count(()) == 1  # the quick one
        out = capsys.readouterr().out
        assert "gdnbench run --quick" in out
        assert "compare-robust" in out
        assert "NVIDIA H200" in out

    def test_a_run_goes_on_where_it_was_killed_without_another_pilot(self, machine):
        workers, begun = machine
        self.run()
        path = Path("out/record.csv")
        text = path.read_text()
        path.write_text(text[: len(text) * 2 // 3])
        workers.asked.clear()
        begun.clear()
        assert self.run() == 0
        assert "pilot" not in [plan.request.label for plan in begun]
        again = records.read_lines(path)
        keys = [(each.peer, each.rule, each.trial, each.copy, each.workload, each.target) for each in again]
        assert len(keys) == len(set(keys)) == len(text.splitlines()) - 1
        assert len(workers.asked) < 4

    def test_a_worker_that_dies_leaves_failures_and_the_others_go_on(self, machine, monkeypatch, capsys):
        working = measure.run_tool

        def die(words, **more):
            if words[2].endswith("nvbench_worker"):
                return Completed(-11, "Traceback\ncuda: out of memory")
            return working(words, **more)

        monkeypatch.setattr(measure, "run_tool", die)
        assert self.run() == 0
        lines = records.read_lines(Path("out/record.csv"))
        assert {each.outcome for each in lines if each.peer == "nvbench"} == {FAILED}
        assert {each.reason for each in lines if each.peer == "nvbench"} == {"exit code -11: cuda: out of memory"}
        assert FAILED not in {each.outcome for each in lines if each.peer == "do_bench"}
        assert "out of memory" in capsys.readouterr().err
        assert "Traceback" in Path("out/record.log").read_text()
