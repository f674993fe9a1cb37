"""Workers that are started before their tasks are known: how many, what they import, and that none imports late."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from run_data import case
from session_data import GPU, HealthyWorkers, begin

from gdnbench.measure.timing import WORKER
from gdnbench.model.status import Role
from gdnbench.process.events import ignore
from gdnbench.score.plan import ScoreRequest
from gdnbench.score.run import score_kernel
from gdnbench.store.journal import Refused, Sampled, Started, StepBegun
from gdnbench.workers import supervision
from gdnbench.workers.supervision import MOST_WAITING, WaitingWorkers, WorkerEnd, supervise, worker_environment
from gdnbench.workers.task import Phase, Task

TASK = Task(Phase.WAIT, "cpu", tuple(map(str, CATALOG.roots)), "decode", (), seed=1, step_limit_s=60.0)
IMPORTS = StepBegun("", "load torch", 180.0)


class Fake:
    """Stands in for `Worker`: sends what its script says, and then has ended."""

    def __init__(self, module, *events):
        self.module, self.events, self.is_closed, self.has_ended = module, [*events], False, False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def receive(self, _deadline, _stop=None):
        return self.events.pop(0) if self.events else None

    def close(self):
        self.is_closed = True


@pytest.fixture
def fakes(monkeypatch):
    """Workers in the order of their start, each with the next script, on a machine of 16 cores."""
    made, scripts = [], []

    def make(module, _arguments, _kinds, _log, _environment, warm=None):
        assert warm == "warm"
        made.append(Fake(module, *(scripts.pop(0) if scripts else (IMPORTS, Started("cpu")))))
        return made[-1]

    make.made, make.scripts = made, scripts
    monkeypatch.setattr(supervision, "Worker", make)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))
    return make


def test_whoever_takes_one_waits_until_all_have_imported(fakes, tmp_path):
    with WaitingWorkers(tmp_path, {}, "warm") as waiting:
        waiting.start("a", TASK, 1)
        waiting.start("b", TASK, 2)
        assert waiting.take("b") is fakes.made[1]
        assert not any(each.events for each in fakes.made)
        assert waiting.take("a") is fakes.made[0]
        assert waiting.take("a") is None
        assert not any(each.is_closed for each in fakes.made)
    assert fakes.made[2].is_closed  # which nobody took


def test_one_that_was_killed_while_it_waited_is_not_taken(fakes, tmp_path):
    with WaitingWorkers(tmp_path, {}, "warm") as waiting:
        waiting.start("a", TASK, 3)
        fakes.made[0].has_ended = True
        assert waiting.take("a") is fakes.made[1]
        fakes.made[2].has_ended = True
        assert waiting.take("a") is None


@pytest.mark.parametrize("failing", [(IMPORTS,), (IMPORTS, Refused("no torch", ""))])
def test_one_that_cannot_import_is_passed_over(fakes, tmp_path, failing):
    fakes.scripts[:] = [failing]
    with WaitingWorkers(tmp_path, {}, "warm") as waiting:
        waiting.start("a", TASK, 2)
        assert waiting.take("a") is fakes.made[1]
        assert fakes.made[0].is_closed
        assert waiting.take("a") is None


@pytest.mark.parametrize(
    ("cores", "warm", "started"), [(16, "warm", MOST_WAITING), (3, "warm", 2), (1, "warm", 0), (16, None, 0)]
)
def test_no_more_are_started_than_cores_can_import_at_once(fakes, tmp_path, monkeypatch, cores, warm, started):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)))
    with WaitingWorkers(tmp_path, {}, warm) as waiting:
        waiting.start("a", TASK, 1)
        waiting.start("b", TASK, 99)
    assert len(fakes.made) == waiting.begun == started


def test_one_that_waited_measures_what_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    reference, environment, events = (
        case("decode-reference", Role.BASELINE, decode_at(B=1)),
        worker_environment(None),
        [],
    )
    with WaitingWorkers(tmp_path, environment, "warm") as waiting:
        waiting.start(WORKER, replace(TASK, cases=(reference,)), 1)
        order = ((reference.id,),) * 3
        task = replace(TASK, phase=Phase.MEASURE, cases=(reference,), order=order, samples={reference.id: 5})
        outcome = supervise(WORKER, task, tmp_path, "measure-0", environment, events.append, waiting=waiting)
    assert outcome.end is WorkerEnd.FINISHED
    assert [each.round for each in events if isinstance(each, Sampled)] == [0, 1, 2]
    assert not (tmp_path / "measure-0.log").exists()  # else one was started for it


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The workers that a session on a GPU asks for, as (module, number), and the kernels that these may import."""

    def run(**settings):
        workers, found = HealthyWorkers().employ(monkeypatch), []
        monkeypatch.setattr(
            WaitingWorkers, "start", lambda _self, module, task, count: found.append((module, count, task))
        )
        session = begin(tmp_path, "decode-v4,decode-v9,decode-fla-unfused", **settings)
        session.run()
        assert {task.phase for _, _, task in found} == {Phase.WAIT}
        imported = {each.variant.kernel for _, _, task in found for each in task.cases}
        return {module: count for module, count, _ in found}, imported, workers.started

    return run


@pytest.mark.parametrize(
    ("settings", "measuring"),
    [
        ({"processes": 3, "until_clear": True, "rounds": 6}, 4),  # two kinds of kernels, and twice what is close
        ({"processes": 2, "rounds": 6}, 4),
        ({"rounds": 6}, 2),
    ],
)
def test_a_run_asks_for_those_that_it_will_need_while_it_checks(asked, settings, measuring):
    counts, imported, started = asked(**settings)
    assert counts == {"gdnbench.verify": started[Phase.EXAMINE] - 1, WORKER: measuring}
    assert imported == {"decode-reference"}  # what a kernel's own Python does in its worker, no other sees


@pytest.mark.parametrize("is_up", [True, False])
def test_a_score_asks_for_one_before_it_describes_itself_and_for_one_while_it_checks(monkeypatch, is_up):
    workers, found = HealthyWorkers().employ(monkeypatch), []
    monkeypatch.setattr(WaitingWorkers, "start", lambda _self, module, task, count: found.append((module, count)))
    parent = SimpleNamespace(is_up=is_up, prepare=lambda: None)
    monkeypatch.setattr("gdnbench.score.run.WarmParent", lambda _environment: parent)
    scored = score_kernel(CATALOG, ScoreRequest("decode-v9", against="decode-v4"), GPU, ignore)
    assert scored.ratio
    assert found == [*[("gdnbench.verify", 1)] * is_up, ("gdnbench.verify", 0), (WORKER, 1)]
    assert workers.started[Phase.EXAMINE] == 1
