"""The parent's side of the preflight, with workers that do as they are told."""

from dataclasses import replace
from threading import Event

import pytest
from bundled import CATALOG
from committed import EVIDENCE
from decode_workloads import decode_at
from faults import answer
from run_data import case

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import MachineError
from gdnbench.model.case import Case
from gdnbench.model.status import Role, Status
from gdnbench.process.events import CaseChecked, UnitDone
from gdnbench.process.warm import WarmParent
from gdnbench.store.journal import IMPORT_STEP, Examined, Started, StepBegun
from gdnbench.verify import preflight
from gdnbench.verify.preflight import FEW_WORKLOADS, Preflight, interpreting, scenarios_to_verify, share_with_controls
from gdnbench.workers.supervision import WorkerEnd, WorkerOutcome
from gdnbench.workers.task import Phase, Task

CASES = tuple(case(name) for name in ("a", "b", "c"))
A, B, C = (each.id for each in CASES)
TASK = Task(Phase.EXAMINE, "cuda", (), "decode", CASES, seed=7, step_limit_s=30.0)


class Workers:
    """Stands in for `supervise`: finds every case healthy, except where `fates` says otherwise."""

    def __init__(self, fates):
        self.tasks, self.names, self._fates = [], [], fates
        self.step = "load"

    def __call__(self, _module, task, folder, name, environment, on_event, stop, warm=None, waiting=None):
        assert len(self.tasks) < 20, "starts workers for ever"
        self.tasks.append(task)
        self.names.append(name)
        on_event(Started("NVIDIA H200", 132, 62914560))
        for each in task.cases:
            fate = self._fates.get(each.id, Status.OK)
            on_event(StepBegun(each.id, self.step, 30.0))
            if isinstance(fate, WorkerEnd):
                return WorkerOutcome(fate, "" if fate is WorkerEnd.FINISHED else each.id, "it was told to", self.step)
            spoilt = fate is Status.CRASHED
            on_event(Examined(each.id, fate, "" if fate is Status.OK else "told", poisoned=spoilt))
            if spoilt:
                return WorkerOutcome(WorkerEnd.FINISHED)
        return WorkerOutcome(WorkerEnd.FINISHED)


@pytest.mark.parametrize("warm", [False, True])
def test_interpreters_are_forked_from_a_process_that_stays_up_where_that_is_asked(tmp_path, monkeypatch, warm):
    parents = []

    def take_parent(*arguments):
        parents.append(arguments[-2])
        raise MachineError("enough", "stop here")

    monkeypatch.setattr(preflight, "supervise", take_parent)
    task = replace(TASK, device="cpu", cases=(case("decode-v1"), case("decode-triton"), case("decode-reference")))
    interpret = interpreting(load_catalog(), task, tmp_path, lambda _event: None, {}, warm=warm)
    for each in interpret:
        with pytest.raises(MachineError, match="enough"):
            each(Event())
    assert [isinstance(parent, WarmParent) for parent in parents] == [warm, warm]


@pytest.fixture
def judge(tmp_path, monkeypatch):
    def run(checked=None, step="load", task=TASK, **fates):
        workers = Workers({case(name).id: fate for name, fate in fates.items()})
        workers.step = step
        monkeypatch.setattr(preflight, "supervise", workers)
        events, journal, found = [], [], checked if checked is not None else {}
        Preflight(tmp_path, {}, events.append, journal.append).judge(task, found)
        return workers, found, events, journal

    return run


def statuses(checked):
    return {case_id: verdict.status for case_id, verdict in checked.items()}


@pytest.mark.parametrize(
    ("fate", "status"),
    [(WorkerEnd.DIED, Status.CRASHED), (WorkerEnd.HUNG, Status.TIMED_OUT), (Status.CRASHED, Status.CRASHED)],
)
def test_a_worker_that_is_lost_costs_only_the_case_it_was_on(judge, fate, status):
    workers, checked, events, journal = judge(b=fate)
    assert statuses(checked) == {A: Status.OK, B: status, C: Status.OK}
    assert checked[B].reason
    assert [[each.id for each in task.cases] for task in workers.tasks] == [[A, B, C], [C]]
    assert len(set(workers.names)) == 2
    seen = [(each.label, each.status) for each in events if isinstance(each, CaseChecked)]
    assert seen == [("a", Status.OK), ("b", status), ("c", Status.OK)]
    assert checked[B] in journal


def test_a_case_that_fails_without_harm_needs_no_new_worker(judge):
    workers, checked, _, _ = judge(b=Status.WRONG_NUMBERS)
    assert len(workers.tasks) == 1
    assert statuses(checked)[B] is Status.WRONG_NUMBERS


@pytest.mark.parametrize("fate", [WorkerEnd.DIED, WorkerEnd.HUNG])
def test_a_worker_that_is_lost_while_it_imports_costs_all_cases_of_the_kernel_one_limit(judge, fate):
    """The file is the same at every batch size, and would be waited for at each."""
    workloads = [decode_at(B=batch) for batch in (1, 8, 64)]
    cases = tuple(case(name, workload=workload) for workload in workloads for name in ("a", "b"))
    workers, checked, events, journal = judge(step=IMPORT_STEP, task=replace(TASK, cases=cases), b=fate)
    assert len(workers.tasks) == 2
    assert [case_id for case_id, verdict in checked.items() if verdict.status is not Status.OK] == [
        each.id for each in cases if each.label == "b"
    ]
    assert events.count(UnitDone()) == len(cases)
    assert sum(isinstance(event, Examined) and event.reason == "it was told to" for event in journal) == 3


def test_workers_that_end_without_a_verdict_are_the_machines_fault(judge):
    with pytest.raises(MachineError):
        judge(a=WorkerEnd.FINISHED)


def test_a_control_shares_its_baselines_verdict_at_each_workload():
    baseline, control = case("decode-fla", Role.BASELINE), case("decode-fla", Role.CONTROL)
    checked = {baseline.id: Examined(baseline.id, Status.CRASHED, "SIGSEGV")}
    share_with_controls((baseline, control), checked)
    assert checked[control.id] == Examined(control.id, Status.CRASHED, "SIGSEGV")


def test_a_control_whose_baseline_was_not_reached_has_no_verdict():
    control = case("decode-fla", Role.CONTROL)
    checked = {}
    share_with_controls((case("decode-fla", Role.BASELINE), control), checked)
    assert checked == {}


OPS = CATALOG.ops
DECODE, PREFILL = OPS["decode"], OPS["prefill"]
TIMED, *OTHERS = DECODE.scenarios


def cases(workloads, *kernels):
    variants = [case(name).variant for name in kernels]
    return [Case(variant, decode_at(B=1 + place)) for place in range(workloads) for variant in variants]


def test_of_many_workloads_each_is_verified_in_the_timed_scenario_and_one_other_in_turn():
    many = cases(FEW_WORKLOADS + 1, "a", "b")
    scenarios = scenarios_to_verify(DECODE, many)
    assert scenarios.keys() == {each.id for each in many}
    assert all(timed == TIMED and other in OTHERS for timed, other in scenarios.values())
    for kernel in ("a", "b"):
        met = {scenarios[each.id][1] for each in many if each.variant.kernel == case(kernel).variant.kernel}
        assert met == set(OTHERS), "each kernel meets every scenario"


def test_of_profiles_at_the_same_sizes_each_is_verified_and_one_meets_the_scenarios():
    workloads = [PREFILL.workload({"lengths": (64,)}).at(name) for name in ("mixed-heads", "forgetful", "never")]
    scenarios = scenarios_to_verify(PREFILL, [Case(case("prefill-v3").variant, each) for each in workloads])
    assert list(scenarios.values()) == [("mixed-heads", *PREFILL.scenarios), ("typical",), ("never",)]


@pytest.mark.parametrize("verb", ["run", "score", "verify", "sweep", "history"])
def test_a_profile_that_does_not_exist_is_refused_with_those_that_do(verb, tmp_path):
    name = "decode-triton" if verb == "sweep" else "decode-reference" if verb != "history" else "decode-v9"
    options = ("--out", tmp_path) if verb == "history" else ("--gpu", "cpu")
    if verb == "history":
        run = "20261124-041446-h200-decode-v10"
        (tmp_path / run).symlink_to(EVIDENCE / run)
    done = answer(verb, name, *options, "--profile", "sometimes")
    assert done.code == 2
    assert "decode has no profile sometimes" in done.err
    assert "there are: forgetful, fla, mixed-heads, one-never, slow, never" in done.err
