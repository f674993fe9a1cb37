"""Whole kernels through all gates of the op: those that are right, and those that are wrong in usual ways."""

import pytest
import torch
from decode_workloads import decode_at

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.errors import DeclarationError
from gdnbench.launch import Workspace, bind, load_numerics
from gdnbench.launch.numerics import load_file
from gdnbench.model.status import Status
from gdnbench.verify.check import check_copy, compare_launches, consult_oracle, verify_launcher

CATALOG = load_catalog(default_roots()[:1])
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


def rounded_state(w):
    output, state = reference(w)
    return output, state.bfloat16().float()


def tf32_products(w):
    """Operands of ten explicit significand bits, as the tensor cores' TF32 keeps."""
    cut = {name: (w.inputs[name].float().view(torch.int32) & ~0x1FFF).view(torch.float32) for name in ("state",)}
    return reference(w, **cut)


def fp16_state(w):
    output, state = reference(w)
    return output, state.half().float()


def without_scale(w):
    return reference(w, scale=1.0)


def other_head_mapping(w):
    """Value head h reads head h % HQ: right where HV = HQ, and a common slip elsewhere."""
    heads = torch.arange(SMALL.HV) % SMALL.HQ
    return reference(w, q=w.inputs["q"][:, :, heads], k=w.inputs["k"][:, :, heads])


def transposed_state(w):
    output, state = reference(w)
    return output, state.transpose(-1, -2).reshape(state.shape)


def no_decay(w):
    return reference(w, A_log=torch.full_like(w.inputs["A_log"], -100.0))


def no_beta(w):
    return reference(w, b=torch.full_like(w.inputs["b"], 100.0))


def state_of_before(w):
    output, _ = reference(w)
    return output, w.inputs["state"].clone()


def output_of_the_old_state(w):
    """Reads the state before it is updated."""
    _, state = reference(w)
    q = w.inputs["q"][:, 0].float().repeat_interleave(SMALL.HV // SMALL.HQ, dim=1)
    output = w.scalars["scale"] * (w.inputs["state"] * q[:, :, None, :]).sum(-1)
    return output[:, None].bfloat16(), state


OUTPUT, STATE = "output fp32 roundoff", "new_state fp32 roundoff"


@pytest.mark.parametrize(
    ("wrong", "gates"),
    [
        (rounded_state, [STATE]),
        (fp16_state, [STATE]),
        (tf32_products, [STATE]),
        (without_scale, [OUTPUT]),
        (other_head_mapping, [OUTPUT, STATE]),
        (transposed_state, [STATE]),
        (no_decay, [OUTPUT, STATE]),
        (no_beta, [OUTPUT, STATE]),
        (state_of_before, [STATE]),
        (output_of_the_old_state, [OUTPUT]),
    ],
)
def test_a_wrong_kernel_fails_the_gate_that_is_about_its_mistake(wrong, gates):
    failed = judge(lambda w: lambda: wrong(w)).get(Status.WRONG_NUMBERS, [])
    assert set(gates) <= set(failed)


def test_a_kernel_that_writes_nothing_is_not_taken_for_one_that_computes_nan():
    found = judge(lambda w: lambda: w.output_tensors)
    assert found[Status.UNWRITTEN] == ["output written"] or found[Status.UNWRITTEN] == ["new_state written"]
    assert OUTPUT in found[Status.WRONG_NUMBERS]


def test_a_kernel_that_leaves_one_row_out_is_found():
    def make(workspace):
        def run():
            for target, value in zip(workspace.output_tensors, reference(workspace), strict=True):
                target[..., :-1] = value[..., :-1]
            return workspace.output_tensors

        return run

    assert Status.UNWRITTEN in judge(make)


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


def test_a_kernel_in_place_is_blamed_for_that_first():
    """It changes its input on every launch, so its numbers are wrong, too; the cause is the better reason."""
    workspace, expected = workspace_of()

    def run():
        output, state = reference(workspace)
        workspace.inputs["state"].copy_(state)
        return output, workspace.inputs["state"]

    run()
    gates = verify_launcher(run, workspace, expected, "typical", lambda: None)
    assert next(gate for gate in gates if not gate.passed).status is Status.CHANGED_INPUT


@pytest.mark.parametrize("name", [spec.name for spec in DECODE.inputs])
def test_inputs_that_an_earlier_kernel_changed_are_restored_for_the_next(name):
    workspace, expected = workspace_of()
    workspace.inputs[name].view(-1)[-1] += 1.0
    gates = verify_launcher(lambda: reference(workspace), workspace, expected, "typical", lambda: None)
    assert all(gate.passed for gate in gates)


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


@pytest.mark.parametrize(
    "outputs",
    [
        lambda w: None,
        lambda w: reference(w)[0],
        lambda w: reference(w)[:1],
        lambda w: (*reference(w), None),
        lambda w: reference(w)[::-1],
        lambda w: (reference(w)[0].float(), reference(w)[1]),
        lambda w: (reference(w)[0][:, 0], reference(w)[1]),
    ],
    ids=["None", "a tensor", "too few", "too many", "swapped", "another dtype", "another shape"],
)
def test_outputs_that_are_not_the_ops_are_refused(outputs):
    with pytest.raises(DeclarationError):
        judge(lambda w: lambda: outputs(w))


def test_the_copying_floor_must_copy():
    workspace, _ = workspace_of()
    output = torch.empty(0)
    copied = (output, workspace.inputs["state"].clone())
    assert all(gate.passed for gate in check_copy(copied, workspace, "typical"))
    copied[1].view(-1)[3] += 1
    assert not all(gate.passed for gate in check_copy(copied, workspace, "typical"))


def test_launches_that_differ_by_a_bit_are_told_and_pass_their_gates():
    workspace, expected = workspace_of()
    calls = []

    def run():
        output, state = reference(workspace)
        calls.append(None)
        state.view(-1).view(torch.int32)[:5] += len(calls) % 2
        return output, state

    told = compare_launches(run, workspace, lambda: None)
    assert told == f"two launches on the same inputs differ in 5 of {2 * 4 * 16 * 32:,} elements of new_state"
    gates = verify_launcher(run, workspace, expected, "typical", lambda: None)
    assert all(gate.passed for gate in gates)


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


def test_an_oracle_that_asks_for_the_workload_is_told_it():
    workspace, numerics = drafts()
    expected = consult_oracle(workspace, numerics)
    assert expected.outputs["states"].shape == (4, 1, 2, 16, 32) == expected.roundoff["states"].shape


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
