"""Runs with further clocks from the request to the files, on a GPU whose workers are simulated."""

import json
import math

import numpy as np
import pytest
from session_data import CATALOG, GPU, HealthyWorkers, begin

from gdnbench.analyse.exit_code import exit_code_of_rows
from gdnbench.errors import ExitCode, MachineError, UsageError
from gdnbench.measure.start import resume_session
from gdnbench.model.status import Role, Status
from gdnbench.process.events import NoteMade
from gdnbench.store.journal import Sampled
from gdnbench.store.measurements import read_clocks, read_measurements
from gdnbench.store.settings import parse_clocks
from gdnbench.workers.supervision import WorkerEnd
from gdnbench.workers.task import Phase

KERNELS = "decode-floor-empty,decode-floor-copy,decode-v4,decode-reference"
TRUE_US = {
    "decode-reference": {None: 62.9, "cupti": 60.0, "graph": 61.0},
    "decode-floor-empty": {None: 2.74, "cupti": 0.608, "graph": 0.83},
    "decode-floor-copy": {None: 3.99, "cupti": 1.728, "graph": 2.0},
    "decode-v4": {None: 4.6, "cupti": 2.336, "graph": 2.54},
}


class Workers(HealthyWorkers):
    """Every case takes its true time by the task's clock.

    `script` says of (clock, label, round) what happens there: an exception to raise, or how the worker ends.
    """

    def __init__(self, script=None):
        super().__init__()
        self.script, self._random = script or {}, np.random.default_rng(1)

    def happens(self, task, case, number):
        happening = self.script.pop((task.clock, case.variant.label, number), None)
        if isinstance(happening, BaseException):
            raise happening
        return happening

    def time_us(self, task, case, _place):
        return TRUE_US[case.variant.label][task.clock] * self._random.normal(1.0, 0.001)

    @property
    def clocks(self):
        return [task.clock for task in self.tasks if task.phase is Phase.MEASURE and not _is_probe(task)]


def _is_probe(task):
    """Whether it compares inputs."""
    return any(case.workload.profile for case in task.cases)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine whose workers do as they are told; `run` gives the finished run, and the workers."""
    notes = []

    def keep_note(event):
        if isinstance(event, NoteMade):
            notes.append(event.text)

    class Machine:
        results, said = tmp_path / "results", notes

        def employ(self, script=None):
            return Workers(script).employ(monkeypatch)

        def open(self, clocks=("cupti", "graph"), gpu=GPU, processes=1):
            more = {"rounds": 5, "clocks": clocks, "processes": processes}
            return begin(self.results, KERNELS, "B=1,8", gpu=gpu, observer=keep_note, **more)

        def run(self, script=None, **more):
            workers = self.employ(script)
            return self.open(**more).run(), workers

        def resume(self, run, script=None):
            workers = self.employ(script)
            return resume_session(CATALOG, self.results, run, keep_note).run(), workers

    return Machine()


def times(rows):
    return {(row.case.label, row.case.workload.B): row.timing.time_us for row in rows if row.timing}


def test_each_clock_measures_every_case_after_nvbench(machine):
    finished, workers = machine.run()
    assert workers.clocks == [None, "cupti", "graph"]
    measured = [task for task in workers.tasks if task.phase is Phase.MEASURE and not _is_probe(task)]
    rounds = [[sorted(ids) for ids in task.order] for task in measured]
    assert rounds[0][:4] == rounds[2]  # in a process of its own, which begins with a burn-in
    assert rounds[0][:3] == rounds[1]
    clocks = read_clocks(finished.path)
    assert list(clocks) == ["cupti", "graph"]
    for clock, rows in {None: read_measurements(finished.path), **clocks}.items():
        assert [row.case for row in rows] == [row.case for row in finished.analysis.measurements]
        for row in rows:
            assert row.clock == clock
            assert row.timing.timer == (clock or "nvbench")
            assert row.timing.time_us == pytest.approx(TRUE_US[row.case.variant.label][clock], rel=0.005)
            assert row.timing.rounds == (3 if clock else 5)  # half as many, rounded up


def test_every_clock_has_its_own_comparison_floor_and_control(machine):
    finished, _ = machine.run()
    for clock, rows in read_clocks(finished.path).items():
        (v4,) = [row for row in rows if row.case.label == "decode-v4" and row.case.workload.B == 1]
        baseline, floor, own = (TRUE_US[name][clock] for name in ("decode-reference", "decode-floor-copy", "decode-v4"))
        assert v4.versus.speedup == pytest.approx(baseline / own, rel=0.005)
        assert v4.versus.verdict == "faster"
        assert v4.timing.sol == pytest.approx(floor / own, rel=0.005)
        assert math.isnan(v4.timing.cpu_time_us)  # the host's time is NVBench's to tell
        assert len([row for row in rows if row.role is Role.CONTROL]) == 2
    assert {row.timing.cpu_time_us for row in read_measurements(finished.path)} == {2.5}


def test_rounds_and_samples_of_every_clock_are_stored(machine):
    import pandas as pd  # three tenths of a second, which the other processes of the tests need not take

    finished, _ = machine.run()
    rounds = pd.read_csv(finished.path / "rounds.csv")
    assert rounds.groupby("timer").size().to_dict() == {"nvbench": 50, "cupti": 30, "graph": 30}
    for clock in ("cupti", "graph"):
        samples = pd.read_parquet(finished.path / f"samples-{clock}.parquet")
        assert len(samples) == 10 * 3 * 4


def test_a_case_that_a_clock_loses_keeps_its_other_times(machine):
    finished, workers = machine.run({("graph", "decode-v4", 2): WorkerEnd.DIED})
    assert workers.clocks == [None, "cupti", "graph", "graph"]
    clocks = read_clocks(finished.path)
    assert len(times(read_measurements(finished.path))) == len(times(clocks["cupti"])) == 10
    lost = [row for row in clocks["graph"] if not row.timing]
    (row,) = lost
    assert (row.case.label, row.status, row.reason) == ("decode-v4", Status.CRASHED, "it was told to")
    assert finished.info.complete
    assert exit_code_of_rows(finished.analysis.rows, interrupted=False) is ExitCode.PARTIAL


def test_a_case_that_a_clock_finds_to_cheat_has_no_time_by_any(machine):
    finished, workers = machine.run({("cupti", "decode-v4", 2): WorkerEnd.FORGED})
    (cheated,) = [row for row in finished.analysis.measurements if row.status is not Status.OK]
    assert (cheated.case.label, cheated.status, cheated.reason) == ("decode-v4", Status.TAMPERS, "it was told to")
    assert cheated.timing is None
    assert cheated.case not in {row.case for row in finished.analysis.clocks}
    assert all(cheated.case not in task.cases for task in workers.tasks if task.clock == "graph")
    assert exit_code_of_rows(finished.analysis.rows, interrupted=False) is ExitCode.WRONG_NUMBERS
    others = [row for row in finished.analysis.measurements if row.case != cheated.case]
    assert {row.status for row in others} == {Status.OK}


def test_a_case_whose_time_is_implausible_by_a_clock_has_no_time_by_any(machine, monkeypatch):
    """By NVBench the launch hides that 1.5 µs do not suffice for a copy that takes 1.73."""
    monkeypatch.setitem(TRUE_US, "decode-v4", {None: 4.6, "cupti": 1.5, "graph": 2.5})
    finished, _ = machine.run()
    found = [row for row in finished.analysis.measurements if row.case.variant.label == "decode-v4"]
    assert {(row.status, row.timing, row.versus) for row in found} == {(Status.IMPLAUSIBLE, None, None)}
    assert found[0].reason.startswith("by cupti: 1.5")
    assert not {row.case for row in found} & {row.case for row in finished.analysis.clocks}
    assert len(times(finished.analysis.measurements)) == 8
    assert exit_code_of_rows(finished.analysis.rows, interrupted=False) is ExitCode.WRONG_NUMBERS


class Always(dict):
    """What happens in every round by a clock."""

    def pop(self, key, default=None):
        return self.get(key[0], default)


def test_a_clock_that_cannot_be_read_costs_its_own_numbers_alone(machine):
    refusal = MachineError("CUPTI records nothing here", "see `gdnbench doctor`")
    finished, workers = machine.run(Always(cupti=refusal))
    assert workers.clocks == [None, "cupti", "cupti", "graph"]  # in NVBench's process, and in one of its own
    clocks = read_clocks(finished.path)
    assert {(row.status, row.reason) for row in clocks["cupti"]} == {(Status.FAILED, refusal.message)}
    assert len(times(clocks["graph"])) == 10
    assert finished.info.complete
    assert machine.said == ["cupti: CUPTI records nothing here"]


def test_a_case_that_nvbench_lost_is_not_given_to_the_other_clocks(machine):
    finished, workers = machine.run({(None, "decode-v4", 1): WorkerEnd.HUNG})
    measured = {task.clock: {case.label for case in task.cases} for task in workers.tasks if task.clock}
    assert {"decode-floor-copy", "decode-reference"} < measured["cupti"] == measured["graph"]
    lost = [row.case for row in finished.analysis.measurements if not row.timing]
    assert [case.label for case in lost] == ["decode-v4"]
    assert not any(row.case in lost for row in finished.analysis.clocks)


def test_a_run_that_is_stopped_at_its_last_clock_goes_on_there(machine):
    first, _ = machine.run({("graph", "decode-v4", 3): KeyboardInterrupt()})
    assert first.interrupted
    assert not first.info.complete
    before = read_clocks(first.path)
    assert len(times(before["cupti"])) == 10
    second, workers = machine.resume(first.info.run_id)
    assert workers.clocks == ["graph"]
    assert second.info.complete
    after = read_clocks(second.path)
    assert times(before["cupti"]) == times(after["cupti"])
    assert {row.timing.rounds for row in after["graph"]} == {3}


def test_what_a_stopped_run_said_of_its_times_is_said_no_more(machine):
    stopped, _ = machine.run({(None, "decode-v4", 3): KeyboardInterrupt()})
    stale = [
        "B=1 qk4_v8: the baseline against itself reads 3.10% apart: so much is noise",
        "cupti: B=8 qk4_v8: the baseline has no time (not-run), so nothing is compared with it",
    ]
    other = "other processes are on the GPU: python (7); times may be inflated"
    path = stopped.path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"warnings": [*stale, other]}))
    finished, _ = machine.resume(stopped.info.run_id)
    assert finished.info.warnings == [other]


def test_a_warning_says_which_clock_it_is_of(machine, monkeypatch):
    normal = Workers.measure

    def skewed(self, task, on_event, folder):
        def send(event):
            if isinstance(event, Sampled) and task.clock == "cupti" and "again" in event.case:
                event = Sampled(event.round, event.case, tuple(1.1 * each for each in event.times_us), event.sm_mhz)
            on_event(event)

        return normal(self, task, send, folder)

    monkeypatch.setattr(Workers, "measure", skewed)
    finished, _ = machine.run()
    told = [warning for warning in finished.info.warnings if "against itself" in warning]
    assert len(told) == 2
    assert all(warning.startswith("cupti: ") for warning in told)
    assert exit_code_of_rows(finished.analysis.rows, interrupted=False) is ExitCode.NOISY


@pytest.mark.parametrize("clock", ["cupti", "graph"])
def test_without_a_gpu_there_is_no_second_clock_and_no_folder(machine, clock):
    machine.employ()
    with pytest.raises(MachineError, match="no second clock without a GPU") as caught:
        machine.open(clocks=(clock,), gpu=None)
    assert "--timer" in caught.value.hint
    assert not machine.results.exists()


@pytest.mark.parametrize(
    ("text", "clocks"),
    [
        ("nvbench", ()),
        ("nvbench,cupti,graph", ("cupti", "graph")),
        ("graph, cupti", ("cupti", "graph")),
        ("cupti", ("cupti",)),
        ("graph,graph", ("graph",)),
    ],
)
def test_timers_are_read_in_any_order_and_nvbench_is_always_among_them(text, clocks):
    assert parse_clocks(text) == clocks


@pytest.mark.parametrize("text", ["", "cpu", "CUPTI", "nvbench,", "nvbench,event"])
def test_a_timer_that_there_is_not_is_named(text):
    with pytest.raises(UsageError, match="--timer") as caught:
        parse_clocks(text)
    assert caught.value.hint == "there are nvbench, cupti, graph, events"


def test_processes_share_the_rounds_of_every_clock(machine):
    import pandas as pd

    finished, workers = machine.run(clocks=("cupti",), processes=2)
    assert workers.clocks == [None, "cupti", None, "cupti"]
    assert workers.started == {Phase.EXAMINE: 1, Phase.MEASURE: 2}  # the inputs are compared in the first
    rounds = pd.read_csv(finished.path / "rounds.csv")
    shared = rounds.groupby(["timer", "process"])["round"].unique().map(sorted).to_dict()
    assert shared == {
        ("nvbench", 1): [1, 2, 3], ("nvbench", 2): [4, 5], ("cupti", 1): [1, 2], ("cupti", 2): [3],
    }  # fmt: skip
