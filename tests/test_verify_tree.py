"""A tree of draft tokens: the oracle follows parents, nothing wrong passes its gates, and siblings are apart."""

import pytest
import test_verify_drafts as drafts
import torch
from planted import CATALOG, drawn, is_refused, worst
from verified_kernels import gate_statuses

from gdnbench.launch import Workspace, load_numerics
from gdnbench.launch.bind import bind
from gdnbench.launch.interpret import InterpretedCuda
from gdnbench.model.workload import Shape

OP = CATALOG.ops["verify-tree"]
SIZES = {"B": 7, "T": 5, **drafts.SIZES}
PARENT, BEGUN, LIVE = "t.parent[:, token].long()", "torch.stack(states, 1)[rows", "live = (t.slot > 0)"
PLACE = f"({PARENT} + 1).clamp(max=token)"
SIBLINGS = "(t.parent[:, :token] == t.parent[:, token, None]) * torch.arange(1, token + 1)"
MISTAKES = {
    "each token from the one before": {PLACE: "torch.full((B,), token)"},
    "each token from the first": {PLACE: "torch.full((B,), min(token, 1))"},
    "each token from the sequence's state": {PLACE: "torch.full((B,), 0)"},
    "parents counted from 1": {PLACE: "t.parent[:, token].long().clamp(min=0, max=token)"},
    "the next row's parents": {PARENT: "t.parent[:, token].roll(-1).long()"},
    "a sibling is seen": {
        PLACE: f"torch.cat([t.parent[:, token, None] + 1, {SIBLINGS}], 1).amax(1).long().clamp(max=token)"
    },
    "no parent is the last token": {PARENT: "torch.where(t.parent < 0, token - 1, t.parent)[:, token]"},
    "the state in bf16 between tokens": {
        BEGUN: "torch.stack([states[0], *(each.bfloat16().float() for each in states[1:])], 1)[rows"
    },
    "the state of the parent": {
        "outputs = []": "outputs, parents = [], []",
        "outputs.append(output)": "outputs.append(output); parents.append(begun)",
        "torch.stack(states[1:], 1)": "torch.stack(parents, 1)",
    },
    "padding has a state": {"live[..., None], after": "torch.tensor(True), after"},
    "padding writes its output": {"live, torch.cat": "torch.tensor(True), torch.cat"},
    "one element a thousandth off": {LIVE: f"after[1, -1, 1, 2, 3] *= 1.001\n        {LIVE}"},
}
"""What kernels over trees get wrong, as texts of the reference; each must fail in some scenario."""


def walked(t, scale, beta_limit):
    """Outputs in float64, by token: each is one of `verify`, whose state is the only slot of anybody."""
    states = torch.zeros(*t["a"].shape, *t["pool"].shape[2:], dtype=torch.float64)
    output = torch.zeros(states.shape[:-1], dtype=torch.float64)
    for n, slot in enumerate(t["slot"].tolist()):
        for token, parent in enumerate(t["parent"][n].tolist() if slot > 0 else ()):
            begun = t["pool"][slot].double() if parent < 0 else states[n, parent]
            own = {name: t[name][n : n + 1, token : token + 1] for name in ("mixed_qkv", "a", "b")}
            own |= {"pool": torch.stack([begun, begun]), "slot": torch.tensor([1])}
            found = drafts.one_by_one(t | own, scale, beta_limit, drafts.EACH)
            output[n, token], states[n, token] = found["output"][0, 0], found["states"][0, 0]
    return {"output": output, "states": states}


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize("state", [32, 16])
def test_the_oracle_follows_parents_and_fp32_passes_by_far(scenario, state):
    workspace, found = drawn("verify-tree", scenario, STATE=state, **SIZES)
    for name, right in walked(workspace.inputs, **workspace.scalars).items():
        torch.testing.assert_close(found.outputs[name], right, rtol=1e-9, atol=1e-12)
    assert worst("verify-tree", scenario, STATE=state, **SIZES) < 0.3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    assert is_refused("verify-tree", MISTAKES[mistake], **SIZES)


def test_a_chain_is_what_verify_computes():
    workspace, right = drawn("verify-tree", "chain", **SIZES)
    numerics, workload = load_numerics(drafts.OP, CATALOG.op_folders["verify"]), drafts.OP.workload(SIZES)
    for found, function in ((right.outputs, numerics.oracle), (right.roundoff, numerics.roundoff)):
        for name, each in function(workspace.inputs, workspace.scalars, workload).items():
            torch.testing.assert_close(found[name], each)


def test_parents_come_before_their_tokens_and_each_place_is_drawn():
    parent = drawn("verify-tree", "typical", **SIZES | {"B": 60})[0].inputs["parent"]
    assert (parent < torch.arange(5)).all()
    assert {tuple(sorted(set(column))) for column in parent.T.tolist()} == {tuple(range(-1, i)) for i in range(5)}


@pytest.mark.parametrize("kernel", ["verify-tree-v1", "verify-tree-reference"])
def test_what_is_no_number_reaches_none_but_those_behind_it(kernel):
    entry = CATALOG.entries[kernel]
    shape = OP.workload(Shape(B=2, T=5, HQ=1, HV=1, V=16))
    numerics = load_numerics(OP, CATALOG.op_folders[OP.name])
    workspace = Workspace.make(OP, numerics, shape, seed=3, device="cpu", scenario="typical")
    workspace.inputs["parent"][0] = torch.tensor([-1, 0, 0, 1, 2])
    workspace.inputs["mixed_qkv"][0, 1] = torch.nan
    if kernel.endswith("reference"):
        outputs = bind(entry, entry.default, workspace)()
    else:
        watched = InterpretedCuda(entry, entry.default, shape, "sm_90").run(workspace)
        assert watched.findings == ()
        outputs = tuple(workspace.outputs.values())
    for each in outputs:
        assert each[0].isfinite().flatten(1).all(1).tolist() == [True, False, True, False, True]
        assert each[1].isfinite().all()


def test_the_least_that_must_move_is_each_state_once_and_one_for_each_token():
    workload = OP.workload(Shape(B=8, T=4))
    assert OP.copy_bytes(workload) == (1 + 4) * 8 * 4 * 8 * 128 * 128
    assert OP.copy_bytes(workload) < OP.traffic_bytes(workload) < 1.03 * OP.copy_bytes(workload)


@pytest.mark.parametrize("shape", ["T=4", "T=8 state=bf16"])
@pytest.mark.parametrize("kernel", ["verify-tree-v1", "verify-tree-floor-copy:EACH=4", "verify-tree-reference"])
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, shape):
    assert gate_statuses(request, kernel, "B=3", "heads=qk1_v2", "V=16", *shape.split()) == {"ok"}
