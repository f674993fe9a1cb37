"""Every launch finds other inputs, and launches drawn at random are held against the oracle."""

from collections import Counter
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from decode_workloads import decode_at
from run_data import case

from gdnbench.catalog.catalog import default_roots
from gdnbench.launch.bind import load
from gdnbench.launch.workspace import is_poison
from gdnbench.verify import rotation
from gdnbench.verify.rotation import CheckedPlacements, TimedChecks, Workspaces
from gdnbench.workers.device import WrongWhenTimedError
from gdnbench.workers.placement import RenewedPlacements
from gdnbench.workers.task import Phase, Task

CASE = case("decode-reference", workload=decode_at(B=2, HQ=1, HV=2, K=8, V=8))
TASK = Task(Phase.MEASURE, "cpu", (str(default_roots()[0]),), "decode", (CASE,), seed=1, step_limit_s=30.0)
PLACES = 3
UNTIMED, TIMED = 4, 8
ROUNDS = count(1)


@pytest.fixture
def workspaces():
    return Workspaces(TASK)


def test_inputs_are_drawn_again_for_the_oracle_only_where_a_kernel_may_have_changed_them(monkeypatch):
    drawn, draw = [], Workspaces.draw
    monkeypatch.setattr(Workspaces, "draw", lambda *where: drawn.append(where[1:]) or draw(*where))
    workspaces = Workspaces(TASK)
    workspace, expected = workspaces.get(CASE.workload, "typical")
    assert workspaces.get(CASE.workload, "typical") == (workspace, expected)
    assert len(drawn) == 1
    for tensor in workspace.inputs.values():
        tensor.zero_()
    workspaces.forget_expected()
    _, again = workspaces.get(CASE.workload, "typical")
    assert len(drawn) == 2
    assert bool(again.outputs["output"].any())


@pytest.fixture
def checked(workspaces):
    return checked_placements(workspaces, CASE.workload, PLACES)


def checked_placements(workspaces, workload, places):
    first = workspaces.draw(workload)
    placements = RenewedPlacements([first, *(first.copy() for _ in range(places - 1))])
    checked = CheckedPlacements(placements, workspaces.draws(workload))
    for place in range(places):
        placements.prepare(place, checked.draws, {})
    return checked


@pytest.fixture
def kernel(workspaces):
    return workspaces.entry(CASE).kernel


@pytest.fixture
def runs(workspaces, checked):
    """An honest launcher at every placement, which allocates its outputs."""
    bind = load(workspaces.entry(CASE), CASE.variant, CASE.workload)
    return [bind(workspace) for workspace in checked.placements.workspaces]


def do_round(checks, launch, *, is_last=False, timed=TIMED):
    """Launches as a timer does, and judges: how many launches."""
    checks.open(range(PLACES), next(ROUNDS), is_last=is_last, timed=timed)
    for number in range(UNTIMED + timed):
        outputs = launch(number % PLACES)
        checks.take(number % PLACES, outputs)
        checks.renew(number % PLACES)
    return checks.judge()


@pytest.fixture
def checks(kernel, checked):
    return TimedChecks(kernel, checked, UNTIMED, TIMED)


def test_an_honest_kernel_is_right_at_every_launch_whatever_it_finds(checks, runs):
    assert do_round(checks, lambda place: runs[place]()) == 2
    for _ in range(20):
        do_round(checks, lambda place: runs[place]())


def test_a_last_round_of_fewer_launches_has_a_checked_one(checks, runs):
    do_round(checks, lambda place: runs[place]())
    checks.at.check_s[""] = 1e9  # which no time of a round affords
    assert all(do_round(checks, lambda place: runs[place](), is_last=True, timed=1) == 1 for _ in range(20))


def test_one_that_keeps_its_answers_by_address_is_wrong(checks, runs):
    known = {}

    def launch(place):
        return tuple(tensor.clone() for tensor in known.setdefault(place, [t.clone() for t in runs[place]()]))

    with pytest.raises(WrongWhenTimedError, match=r"wrong when it was timed: .* expected"):
        do_round(checks, launch)


def test_one_that_keeps_its_answers_by_a_sample_of_its_inputs_is_wrong(checks, checked, runs):
    known = {}

    def launch(place):
        inputs = checked.placements.workspaces[place].inputs
        sample = tuple(float(inputs[name].flatten()[0]) for name in ("q", "k", "v"))
        return tuple(tensor.clone() for tensor in known.setdefault(sample, [t.clone() for t in runs[place]()]))

    with pytest.raises(WrongWhenTimedError):
        for _ in range(200):  # a sample has to come again with other inputs, in a launch that is drawn
            do_round(checks, launch)


def test_one_that_writes_nothing_leaves_poison(checks, checked):
    with pytest.raises(WrongWhenTimedError, match="written"):
        do_round(checks, lambda place: checked.placements.workspaces[place].output_tensors)


def test_one_that_returns_what_it_wrote_before_is_wrong(checks, runs):
    same = [tuple(tensor.clone() for tensor in run()) for run in runs]
    with pytest.raises(WrongWhenTimedError, match="roundoff"):
        for _ in range(20):  # all of what it found first may come again by chance
            do_round(checks, lambda place: same[place])


def test_one_that_changes_its_inputs_is_told_so_and_the_next_finds_them_whole(checks, checked, runs):
    def launch(place):
        outputs = runs[place]()
        checked.placements.workspaces[place].inputs["state"].add_(1.0)
        return outputs

    with pytest.raises(WrongWhenTimedError, match="state unchanged"):
        do_round(checks, launch)
    do_round(checks, lambda place: runs[place]())


@pytest.mark.parametrize(
    ("returned", "reason"),
    [(lambda outputs: outputs[:1], "must return"), (lambda outputs: (outputs[0].float(), outputs[1]), "not bf16")],
)
def test_one_that_returns_something_else_once_it_is_timed_is_told_so(checks, runs, returned, reason):
    with pytest.raises(WrongWhenTimedError, match=reason):
        do_round(checks, lambda place: returned(runs[place]()))


def test_a_tensor_that_computes_when_it_is_looked_at_is_no_output(checks, runs):
    class Lazy(torch.Tensor):
        pass

    with pytest.raises(WrongWhenTimedError, match="Lazy"):
        do_round(checks, lambda place: tuple(tensor.as_subclass(Lazy) for tensor in runs[place]()))


def test_a_kernel_in_place_begins_each_launch_with_what_it_was_given(checked, kernel, workspaces, runs):
    in_place = replace(kernel, in_place={"new_state": "state"})
    updates = TimedChecks(in_place, checked, UNTIMED, TIMED)

    def launch(place):
        workspace = checked.placements.workspaces[place]
        assert torch.equal(workspace.outputs["new_state"], workspace.inputs["state"])
        output, state = runs[place]()
        workspace.outputs["new_state"].copy_(state)
        return output, workspace.outputs["new_state"]

    def launch_another(place):
        assert is_poison(checked.placements.workspaces[place].outputs["new_state"]).all()
        return runs[place]()

    other = TimedChecks(kernel, checked, UNTIMED, TIMED)
    for _ in range(3):
        do_round(updates, launch)
        do_round(other, launch_another)


def test_launches_hardly_ever_find_the_same_inputs(checks, checked, runs):
    found = Counter()

    def launch(place):
        inputs = checked.placements.workspaces[place].inputs
        found[tuple(float(tensor.double().sum()) for tensor in inputs.values())] += 1
        return runs[place]()

    do_round(checks, launch)
    for _ in range(7):
        do_round(checks, launch)
    assert len(found) > 40  # of 96 launches, and 64 mixtures, for three tensors are drawn together: 50 are expected


def test_every_timed_launch_is_as_likely_to_be_drawn_and_no_other_is(checks, checked, runs, monkeypatch):
    drawn = Counter()
    at = 0
    keep = type(checked).keep

    def noted(self, number, outputs):
        drawn[at] += 1
        keep(self, number, outputs)

    monkeypatch.setattr(type(checked), "keep", noted)
    rounds = 400
    for _ in range(rounds):
        checks.open(range(PLACES), next(ROUNDS))
        for at in range(UNTIMED + TIMED):
            checks.take(at % PLACES, checked.placements.workspaces[at % PLACES].output_tensors)
    assert sum(drawn.values()) == 2 * rounds
    assert set(drawn) == set(range(UNTIMED, UNTIMED + TIMED))
    assert all(60 <= count <= 140 for count in drawn.values())  # 100 expected, of a standard deviation of 8.7


def test_an_empty_floor_has_nothing_to_check_and_a_copying_one_must_copy(checked, kernel):
    tensors = checked.placements.workspaces
    empty = TimedChecks(replace(kernel, floor="empty"), checked, UNTIMED, TIMED)
    do_round(empty, lambda place: tensors[place].output_tensors)
    copying = replace(kernel, floor="copy")

    def launch(place):
        tensors[place].outputs["new_state"].copy_(tensors[place].inputs["state"])
        return tensors[place].output_tensors

    do_round(TimedChecks(copying, checked, UNTIMED, TIMED), launch)
    with pytest.raises(WrongWhenTimedError, match="state copied"):
        do_round(TimedChecks(copying, checked, UNTIMED, TIMED), lambda place: tensors[place].output_tensors)


@pytest.mark.parametrize(("round_s", "fewest", "most"), [(0.020, 70, 130), (0.080, 400, 400), (1.0, 800, 800)])
def test_checks_take_a_twentieth_of_the_rounds_and_at_most_what_there_is_room_for(
    checks, checked, runs, monkeypatch, round_s, fewest, most
):
    """A check of 4 ms is paid for by 80 ms of launches; 100 expected of 400 rounds of 20 ms, with a deviation of 9."""
    now, judged = [0.0], []

    def passes(*_):
        now[0] += 0.004
        judged.append(1)
        return True

    monkeypatch.setattr(rotation, "passes_all", passes)
    monkeypatch.setattr(rotation, "consult_oracle", lambda *_: None)
    monkeypatch.setattr(rotation, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    outputs = runs[0]()
    for _ in range(401):
        checks.open([0], next(ROUNDS))
        for _ in range(UNTIMED + TIMED):
            checks.take(0, outputs)
        now[0] += round_s
        checks.judge()
    assert fewest <= len(judged) - 2 <= most  # the first round has two


def test_the_last_round_is_checked_however_long_a_check_takes(checks, checked, runs):
    do_round(checks, lambda place: runs[place]())
    checked.check_s[""] = 1e9
    assert do_round(checks, lambda place: runs[place]()) == 0
    assert do_round(checks, lambda place: runs[place](), is_last=True) == 1
    with pytest.raises(WrongWhenTimedError, match="written"):
        do_round(checks, lambda place: checked.placements.workspaces[place].output_tensors, is_last=True)


@pytest.mark.gpu
def test_a_renewal_on_the_gpu_writes_what_one_on_the_cpu_does():
    """Tensors of every size, so that whole vectors and what is left of them are written."""
    case_on_gpu = case("decode-reference", workload=decode_at(B=3, HQ=1, HV=3, K=8, V=8))
    workspaces = Workspaces(replace(TASK, device="cuda"))
    checked = checked_placements(workspaces, case_on_gpu.workload, 2)
    placements, seen = checked.placements, set()
    for in_place in ({}, {"new_state": "state"}):
        for _ in range(16):
            for workspace in placements.workspaces:
                for output in workspace.output_tensors:
                    output.fill_(1.0)
            placements.renew(1, checked.draws, in_place)
            torch.cuda.synchronize()
            workspace, expected = placements.workspaces[1], placements.inputs(1)
            assert all(torch.equal(workspace.inputs[name], tensor) for name, tensor in expected.items())
            assert is_poison(workspace.outputs["output"]).all()
            state = workspace.outputs["new_state"]
            assert torch.equal(state, expected["state"]) if in_place else is_poison(state).all()
            assert all((output == 1.0).all() for output in placements.workspaces[0].output_tensors)
            seen.add(tuple(float(tensor.double().sum()) for tensor in expected.values()))
    assert len(seen) > 20
