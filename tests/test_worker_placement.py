"""Samples go round over copies of the tensors, so that where they lie in memory is not what is measured."""

import weakref

import pytest
import torch
from decode_workloads import decode_at
from run_data import case

from gdnbench.catalog.catalog import default_roots
from gdnbench.measuring import protocol
from gdnbench.measuring.protocol import Phase, Task
from gdnbench.measuring.worker import placement
from gdnbench.measuring.worker.placement import Rotation, Workspaces, make_copies

CASE = case("decode-reference", shape=decode_at(B=2, HQ=1, HV=2, K=8, V=8))
TASK = Task(Phase.MEASURE, "cpu", (str(default_roots()[0]),), "decode", (CASE,), seed=1, step_limit_s=30.0)


@pytest.fixture
def workload():
    return Workspaces(TASK)


@pytest.fixture
def workspace(workload):
    return workload.get(CASE.shape, workload.scenarios[0])[0]


def test_copies_hold_the_same_numbers_in_other_places(workspace, monkeypatch):
    monkeypatch.setattr(protocol, "MOST_PLACEMENTS", 4)
    copies = make_copies(workspace)
    assert len(copies) == 4
    for name, tensor in workspace.inputs.items():
        assert all(torch.equal(copy.inputs[name], tensor) for copy in copies)
        assert len({copy.inputs[name].data_ptr() for copy in copies}) == 4
    assert len({tensor.data_ptr() for copy in copies for tensor in copy.output_tensors}) == 8


def test_a_small_shape_gets_32_copies(workspace):
    assert len(make_copies(workspace)) == 32


def test_large_shapes_get_fewer_copies_but_always_one(workspace, monkeypatch):
    nbytes = workspace.op.traffic_bytes(CASE.shape)
    for most_bytes, count in ((3 * nbytes, 3), (nbytes // 2, 1)):
        monkeypatch.setattr(protocol, "MOST_PLACED_BYTES", most_bytes)
        assert len(make_copies(workspace)) == count


def test_turns_go_round_and_every_turn_computes_the_same(workload, workspace, monkeypatch):
    monkeypatch.setattr(placement, "list_ranges", lambda _tensors: None)
    monkeypatch.setattr(protocol, "MOST_PLACEMENTS", 3)
    turning = Rotation(workload, CASE, make_copies(workspace))
    turns = [turning.next_placement() for _ in range(6)]
    assert turns[:3] == turns[3:]
    assert len({id(turn) for turn in turns}) == 3
    expected = turns[0].run()
    assert all(torch.equal(a, b) for turn in turns for a, b in zip(turn.run(), expected, strict=True))


@pytest.fixture
def turning(workload, workspace, monkeypatch):
    """A rotation over three copies, and the copies; a turn's ranges are the addresses of its inputs."""
    monkeypatch.setattr(placement, "list_ranges", lambda tensors: [tensor.data_ptr() for tensor in tensors])
    monkeypatch.setattr(protocol, "MOST_PLACEMENTS", 3)
    copies = make_copies(workspace)
    return Rotation(workload, CASE, copies), copies


def test_a_turn_comes_with_the_ranges_of_its_own_inputs(turning):
    rotation, copies = turning
    for copy in copies:
        assert rotation.next_placement().input_ranges == [tensor.data_ptr() for tensor in copy.inputs.values()]


def test_a_turn_reads_its_own_copy(turning):
    rotation, copies = turning
    turns = [rotation.next_placement() for _ in copies]
    before = [turn.run()[1].clone() for turn in turns]
    copies[1].inputs["state"] += 1.0
    after = [turn.run()[1] for turn in turns]
    assert [torch.equal(a, b) for a, b in zip(before, after, strict=True)] == [True, False, True]


def test_outputs_live_for_one_turn_of_the_rotation(turning):
    """Else torch's allocator hands a kernel that makes its own outputs the same memory each time."""
    rotation, copies = turning
    kept = []
    for _ in range(2 * len(copies)):
        outputs = rotation.next_placement().run()
        rotation.keep(outputs)
        kept.append(weakref.ref(outputs[0]))
        del outputs
    assert [output() is not None for output in kept] == [False] * 3 + [True] * 3


def test_a_case_is_loaded_once_and_every_copy_launched_once_before_anything_is_timed(workload, workspace, monkeypatch):
    loaded, launched = [], []

    def load(_entry, variant, shape):
        loaded.append((variant, shape))
        return lambda copy: lambda: launched.append(id(copy)) or ()

    monkeypatch.setattr(placement, "list_ranges", lambda _tensors: None)
    monkeypatch.setattr(protocol, "MOST_PLACEMENTS", 3)
    monkeypatch.setattr(placement, "load", load)
    copies = make_copies(workspace)
    Rotation(workload, CASE, copies)
    assert loaded == [(CASE.variant, CASE.shape)]
    assert launched == [id(copy) for copy in copies]
