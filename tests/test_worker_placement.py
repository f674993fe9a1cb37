"""Samples go round over copies of the tensors, so that where they lie in memory is not what is measured."""

import weakref
from dataclasses import replace

import pytest
import torch
from decode_workloads import decode_at
from run_data import case

from gdnbench.catalog.catalog import default_roots
from gdnbench.launch.bind import load
from gdnbench.verify import rotation as rotation_module
from gdnbench.verify.rotation import Rotation, Workspaces, bind_cases
from gdnbench.workers import placement
from gdnbench.workers import task as task_module
from gdnbench.workers.placement import place
from gdnbench.workers.task import Pass, Phase, Task

CASE = case("decode-reference", workload=decode_at(B=2, HQ=1, HV=2, K=8, V=8))
TASK = Task(
    Phase.MEASURE, "cpu", (str(default_roots()[0]),), "decode", (CASE,), seed=1, step_limit_s=30.0,
    order=((CASE.id,),) * 4, samples={CASE.id: 6}, placed_bytes=1 << 30,
)  # fmt: skip


@pytest.fixture
def workspaces():
    return Workspaces(TASK)


@pytest.fixture
def workspace(workspaces):
    return workspaces.get(CASE.workload, workspaces.kinds(CASE.workload)[0])[0]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Three placements a window; their ranges are addresses."""
    monkeypatch.setattr(task_module, "MOST_PLACEMENTS", 3)
    monkeypatch.setattr(placement, "list_ranges", lambda tensors: [tensor.data_ptr() for tensor in tensors])


@pytest.fixture
def bind(workspaces):
    return load(workspaces.entry(CASE), CASE.variant, CASE.workload)


def launch(rotation, count):
    """Launches as a timer does; the numbers of the placements, and of the outputs'."""
    for _ in range(count):
        at = rotation.next_placement()
        rotation.keep(at, at.run())
    return rotation.visited(count)


def test_every_round_has_placements_of_its_own(workspace):
    placements = place(workspace, TASK)
    windows = [placements.numbers(position) for position in range(4)]
    assert windows == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def test_a_longer_further_pass_takes_no_more_placements(workspace):
    longer = Pass(clock=None, order=TASK.order * 3, first_round=1, samples=TASK.samples)
    placements = place(workspace, replace(TASK, further=(longer,)))
    assert len(placements.workspaces) == 3 * len(TASK.order)
    assert placements.numbers(len(TASK.order)) == placements.numbers(0)


def test_a_plain_task_has_one_placement(workspace):
    assert len(place(workspace, replace(TASK, plain=True)).workspaces) == 1


def test_a_turn_reads_its_own_copy(workspace, bind):
    placements = place(workspace, TASK)
    rotation = Rotation(bind, placements)
    turns = [rotation.next_placement() for _ in range(3)]
    before = [turn.run()[1].clone() for turn in turns]
    placements.workspaces[1].inputs["state"] += 1.0
    after = [turn.run()[1] for turn in turns]
    assert [torch.equal(a, b) for a, b in zip(before, after, strict=True)] == [True, False, True]


def test_outputs_that_a_kernel_allocates_have_as_many_places_as_the_inputs(workspace, bind):
    """Else torch's allocator hands a kernel that makes its own outputs the same memory each time."""
    rotation = Rotation(bind, place(workspace, TASK))
    kept = []
    for _ in range(24):
        at = rotation.next_placement()
        outputs = at.run()
        rotation.keep(at, outputs)
        kept.append(weakref.ref(outputs[0]))
        del outputs
    assert [output() is not None for output in kept] == [False] * 12 + [True] * 12


def test_launches_tell_their_placements_and_those_of_their_own_outputs(workspace, bind):
    rotation = Rotation(bind, place(workspace, TASK))
    rotation.open(1)
    launch(rotation, 2)
    inputs, outputs = launch(rotation, 5)
    assert inputs == (5, 3, 4, 5, 3)
    assert len(set(outputs)) == 5


def test_outputs_that_were_there_before_have_no_place_of_their_own(workspace):
    placements = place(workspace, TASK)
    rotation = Rotation(lambda copy: lambda: copy.output_tensors, placements)
    assert launch(rotation, 4) == ((0, 1, 2, 0), ())
    assert not placements.are_outputs_spread


def test_one_launch_scrubs_what_lies_at_a_placement_and_others_what_a_kernel_allocates(workspace, bind):
    for binder, allocated in ((lambda copy: lambda: copy.output_tensors, 0), (bind, 2)):
        rotation = Rotation(binder, place(workspace, TASK))
        at = rotation.next_placement()
        outputs = at.run()
        assert len(rotation.keep(at, outputs)) == allocated
        assert all((each.data_ptr() in at.ranges) == (not allocated) for each in outputs)


def test_a_case_is_loaded_once_and_launched_at_every_placement_of_a_window_before_anything_is_timed(monkeypatch):
    loaded, launched = [], []

    def load_once(_entry, variant, workload):
        loaded.append((variant, workload))
        return lambda copy: lambda: launched.append(id(copy)) or copy.output_tensors

    monkeypatch.setattr(rotation_module, "load", load_once)
    device = type("Device", (), {"synchronize": lambda _self: None})()
    bind_cases(TASK, lambda _step: None, device)
    assert loaded == [(CASE.variant, CASE.workload)]
    assert len(launched) == len(set(launched)) == 3


def test_a_case_that_allocates_its_outputs_is_launched_until_no_launch_needs_new_memory(workspace, bind):
    calls = []

    def counting(copy):
        run = bind(copy)
        return lambda: calls.append(1) or run()

    placements = place(workspace, TASK)
    Rotation(counting, placements)
    assert len(calls) == 12
    assert placements.are_outputs_spread
    calls.clear()
    Rotation(counting, placements)
    assert len(calls) == 3


def test_of_expected_outputs_that_are_dropped_nothing_is_left(workspaces):
    expected = workspaces.expected(CASE.workload, workspaces.kinds(CASE.workload)[0])
    assert workspaces.expected(CASE.workload, workspaces.kinds(CASE.workload)[0]) is expected
    tensors = [*expected.outputs.values(), *expected.roundoff.values()]
    assert all(tensor.any() for tensor in tensors)
    workspaces.forget_expected()
    assert not any(tensor.any() for tensor in tensors)
