"""The parent's side of measuring, with workers that do as they are told."""

import pytest
from run_data import case

from gdnbench.analyse.rounds import Collected
from gdnbench.errors import MachineError
from gdnbench.measure import timing as timing_module
from gdnbench.measure.timing import Target, TimingWorkers
from gdnbench.model.status import Status
from gdnbench.process.events import ignore
from gdnbench.store.journal import Examined, PassBegun, Sampled, StepBegun
from gdnbench.workers.supervision import WorkerEnd, WorkerOutcome
from gdnbench.workers.task import Phase, Task

CASES = tuple(case(name) for name in ("a", "b", "c"))
A, B, C = (each.id for each in CASES)
TASK = Task(
    Phase.MEASURE, "cuda", (), "decode", CASES, seed=7, step_limit_s=30.0, samples=dict.fromkeys((A, B, C), 2)
)  # fmt: skip


def sampled(number, case_id, time_us=4.0):
    return Sampled(number, case_id, (time_us, time_us))


def collect(*events):
    collected = Collected()
    for event in events:
        collected.take(event)
    return collected


def test_a_case_that_is_lost_takes_its_samples_with_it():
    collected = collect(sampled(1, A), sampled(1, B), Examined(A, Status.CRASHED, "SIGSEGV"))
    assert set(collected.samples) == {B}
    assert collected.lost[A].reason == "SIGSEGV"


class Workers:
    """Stands in for `supervise`: measures what the task says, except where a script says how a worker ends."""

    def __init__(self, *script):
        self.tasks, self._script = [], list(script)

    def __call__(self, _module, task, folder, name, environment, on_event, warm=None, waiting=None):
        assert len(self.tasks) < 20, "starts workers for ever"
        (folder / f"{name}.json").write_text("{}")
        self.tasks.append(task)
        stop, end = self._script.pop(0) if self._script else (None, WorkerEnd.FINISHED)
        for each in task.cases:
            if stop == ("bind", each.id):
                on_event(StepBegun(each.id, "bind", 30.0))
                return WorkerOutcome(end, each.id, "it was told to")
        for number, each in enumerate(task.passes()):
            on_event(PassBegun(number))
            for position, ids in enumerate(each.order):
                for case_id in ids:
                    if stop == (each.round_number(position), case_id):
                        on_event(StepBegun(case_id, "measure", 30.0))
                        return WorkerOutcome(end, "" if end is WorkerEnd.FINISHED else case_id, "it was told to")
                    on_event(StepBegun(case_id, "measure", 30.0))
                    on_event(sampled(each.round_number(position), case_id))
        return WorkerOutcome(WorkerEnd.FINISHED)


@pytest.fixture
def measure(tmp_path, monkeypatch):
    def run(*script, rounds=5, collected=None, task=TASK):
        workers, found, journal = Workers(*script), collected or Collected(), []
        monkeypatch.setattr(timing_module, "supervise", workers)
        TimingWorkers(tmp_path, {}, ignore, journal.append).measure(task, [Target(task.cases, rounds, found)])
        return workers.tasks, found, journal

    return run


def test_a_healthy_run_is_one_worker_with_a_burn_in_and_every_round(measure):
    (task,), collected, _ = measure()
    assert len(task.order) == 6
    assert all(sorted(ids) == [A, B, C] for ids in task.order)
    assert collected.complete_rounds([A, B, C]) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(("end", "status"), [(WorkerEnd.DIED, Status.CRASHED), (WorkerEnd.HUNG, Status.TIMED_OUT)])
def test_a_case_that_takes_its_worker_down_is_lost_and_the_others_go_on(measure, end, status):
    tasks, collected, journal = measure(((3, B), end))
    assert [[each.id for each in task.cases] for task in tasks] == [[A, B, C], [A, C]]
    assert {case_id: lost.status for case_id, lost in collected.lost.items()} == {B: status}
    assert collected.complete_rounds([A, C]) == {1, 2, 3, 4, 5}
    assert set(collected.samples) == {A, C}
    assert collected.lost[B] in journal


AT_OTHER_INPUTS = tuple(case(f"{name}-never") for name in ("a", "b", "c"))
ORIGINS = {other.id: own.id for other, own in zip(AT_OTHER_INPUTS, CASES, strict=True)}


@pytest.mark.parametrize(
    ("stop", "lost"), [(("bind", "b-never"), "b-never"), ((2, "b-never"), "b-never"), ((2, "b"), "b")]
)
def test_a_case_is_lost_to_the_rounds_that_it_is_in_and_with_what_it_is_of(tmp_path, stop, lost):
    ids = {each.variant.kernel: each.id for each in (*CASES, *AT_OTHER_INPUTS)}
    workers, own, probed = Workers(((stop[0], ids[stop[1]]), WorkerEnd.DIED)), Collected(), Collected()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing_module, "supervise", workers)
        at_other_inputs = Target(AT_OTHER_INPUTS, 3, probed, unless_lost=own, origins=ORIGINS)
        TimingWorkers(tmp_path, {}, ignore, lambda _: None).measure(TASK, [Target(CASES, 3, own), at_other_inputs])
    assert ({*own.lost}, {*probed.lost}) == (({ids[lost]}, set()) if lost == "b" else (set(), {ids[lost]}))
    assert len(workers.tasks) == 2
    last = {each.variant.kernel for each in workers.tasks[1].cases}
    assert "b-never" not in last
    left = [each.id for each in CASES if each.id not in own.lost]
    assert own.complete_rounds(left) == {1, 2, 3}
    assert probed.complete_rounds([ids["a-never"], ids["c-never"]]) == {1, 2, 3}


def test_rounds_that_are_whole_are_not_measured_again(measure):
    tasks, _, _ = measure(((3, B), WorkerEnd.DIED))
    assert tasks[1].first_round in {3, 4}  # the third round of the other two may have been whole by then
    assert tasks[1].round_number(len(tasks[1].order) - 1) == 5


def test_a_run_ends_when_no_case_is_left(measure):
    tasks, collected, _ = measure(((0, A), WorkerEnd.DIED), ((0, B), WorkerEnd.HUNG), ((0, C), WorkerEnd.DIED))
    assert len(tasks) == 3
    assert set(collected.lost) == {A, B, C}


def test_workers_that_end_without_measuring_are_the_machines_fault(measure):
    with pytest.raises(MachineError):
        measure(*[((0, A), WorkerEnd.FINISHED), ((0, B), WorkerEnd.FINISHED)] * 20)


def test_a_later_part_of_a_run_overwrites_no_earlier_ones_files(measure, tmp_path):
    (tmp_path / "measure-0.json").write_text("earlier")
    (task,), _, _ = measure()
    assert (tmp_path / "measure-0.json").read_text() == "earlier"
    assert "measure-0" not in task.record
