"""Whole kernels through all gates of the op: what is right, and what leaves or changes what it must not."""

import pytest
import torch
from bundled import CATALOG
from decode_workloads import decode_at

from gdnbench.launch import Workspace, bind, load_numerics
from gdnbench.launch.numerics import load_file
from gdnbench.model.status import Status
from gdnbench.verify.check import check_copy, compare_launches, consult_oracle, verify_launcher

DECODE = CATALOG.ops["decode"]
NUMERICS = load_numerics(DECODE, CATALOG.op_folders["decode"])
REFERENCE = CATALOG.entries["decode-reference"]
SMALL = decode_at(B=2, HQ=2, HV=4, K=32, V=16)


def workspace_of(workload=SMALL, scenario="typical", seed=11):
    workspace = Workspace.make(DECODE, NUMERICS, workload, seed=seed, device="cpu", scenario=scenario)
    return workspace, consult_oracle(workspace, NUMERICS)


def judge(make_run, scenario="typical"):
    """Gate results by what they are about, of a kernel given as a function of the workspace."""
    workspace, expected = workspace_of(scenario=scenario)
    gates = verify_launcher(make_run(workspace), workspace, expected, scenario, lambda: None)
    return {status: [gate.gate for gate in gates if gate.status is status] for status in {g.status for g in gates}}


def reference(workspace, **changed):
    inputs = {**workspace.inputs, **workspace.scalars, **changed}
    return load_file(REFERENCE.source).gdn_decode(**inputs)


@pytest.mark.parametrize("batch", [1, 3, 7, 13])
def test_the_reference_passes_every_scenario(batch):
    for scenario in DECODE.scenarios:
        workspace, expected = workspace_of(decode_at(B=batch), scenario)
        run = bind(REFERENCE, REFERENCE.default, workspace)
        gates = verify_launcher(run, workspace, expected, scenario, lambda: None)
        assert [gate for gate in gates if not gate.passed] == []
        assert {gate.scenario for gate in gates} == {scenario}


def test_a_kernel_that_leaves_rows_unwritten_in_memory_of_its_own_is_found():
    """torch.empty may hand back what an earlier, complete call wrote."""

    def make(workspace):
        def run():
            output, state = reference(workspace)
            own = torch.empty_like(state)
            own[:, :-1] = state[:, :-1]
            return output, own

        run()
        return run

    assert list(judge(make)) != [Status.OK]


@pytest.mark.parametrize("name", [spec.name for spec in DECODE.inputs])
def test_a_kernel_that_changes_an_input_is_found(name):
    def make(workspace):
        def run():
            outputs = reference(workspace)
            workspace.inputs[name].view(-1)[-1] += 1.0
            return outputs

        return run

    assert judge(make)[Status.CHANGED_INPUT] == [f"{name} unchanged"]


def test_restoring_gives_every_input_its_values_in_its_place():
    """Kernels are bound to addresses, so the tensors must stay where they are."""
    workspace, _ = workspace_of()
    drawn = {name: tensor.clone() for name, tensor in workspace.inputs.items()}
    places = {name: tensor.data_ptr() for name, tensor in workspace.inputs.items()}
    for tensor in workspace.inputs.values():
        tensor.fill_(7.0)
    workspace.restore()
    assert all(torch.equal(workspace.inputs[name], tensor) for name, tensor in drawn.items())
    assert {name: tensor.data_ptr() for name, tensor in workspace.inputs.items()} == places


def test_a_kernel_in_place_starts_again_before_its_launches_are_compared():
    workspace, _ = workspace_of()

    def run():
        output, state = reference(workspace, state=workspace.outputs["new_state"])
        workspace.outputs["new_state"].copy_(state)
        return output, workspace.outputs["new_state"]

    assert compare_launches(run, workspace, lambda: None, {"new_state": "state"}) == ""


VERIFY = CATALOG.ops["verify"]
DRAFTS = VERIFY.workload({"B": 4, "T": 3, "KEEP": 0, "HQ": 1, "HV": 2, "K": 32, "V": 16})


def drafts(scenario="padded"):
    numerics = load_numerics(VERIFY, CATALOG.op_folders["verify"])
    return Workspace.make(VERIFY, numerics, DRAFTS, seed=3, device="cpu", scenario=scenario), numerics


def test_a_copy_of_parts_is_held_against_what_the_op_says_of_it():
    workspace, _ = drafts()
    outputs = workspace.output_tensors
    live = workspace.inputs["slot"] > 0
    outputs[1].zero_()[live, 0] = workspace.inputs["pool"][workspace.inputs["slot"][live].long()]
    (right,) = check_copy(outputs, workspace, "padded")
    assert right.passed
    outputs[1][live.nonzero()[0], 0, 1, 2, 3] += 1
    (wrong,) = check_copy(outputs, workspace, "padded")
    assert (wrong.gate, wrong.worst) == ("states copied", 1.0)
