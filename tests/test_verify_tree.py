"""A tree of draft tokens: the oracle follows parents, nothing wrong passes its gates, and siblings are apart."""

from functools import cache

import pytest
import test_verify_drafts as drafts
import torch
from verified_kernels import gate_statuses

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch import Workspace
from gdnbench.launch.bind import bind
from gdnbench.launch.interpret import InterpretedCuda
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.workload import Shape

CATALOG = load_catalog(default_roots()[:1])
OP = CATALOG.ops["verify-tree"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
MISTAKES = (
    "each token from the one before", "each token from the first", "each token from the sequence's state",
    "parents counted from 1", "the next row's parents", "a sibling is seen", "no parent is the last token",
    "the state in bf16 between tokens", "the state of the parent", "padding has a state", "padding writes its output",
    "one element a thousandth off",
)  # fmt: skip
"""What kernels over trees get wrong; each must fail in some scenario."""


@cache
def drawn(scenario, batch=7, tokens=5, **sizes):
    workload = OP.workload(Shape(B=batch, T=tokens, **drafts.SIZES, **sizes))
    t, scalars = NUMERICS.make_inputs(workload, 1, "cpu", scenario)
    return t, scalars, NUMERICS.oracle(t, scalars), NUMERICS.roundoff(t, scalars)


def one_token(t, n, token, state, mistake=""):
    """The inputs of `verify` for one token of a sequence, whose state [HV, V, K] is the pool's only slot of anybody."""
    own = {name: t[name][n : n + 1, token : token + 1] for name in ("mixed_qkv", "a", "b")}
    return t | own | {"pool": torch.stack([state, state]), "slot": torch.tensor([1])}


def parents_of(t, n, mistake):
    parents = t["parent"][(n + 1) % len(t["parent"]) if mistake == "the next row's parents" else n].tolist()
    parents = [each if each < token else token - 1 for token, each in enumerate(parents)]  # padding's are nobody's
    match mistake:
        case "each token from the one before":
            parents = range(-1, len(parents) - 1)
        case "each token from the first":
            parents = [-1, *(0 for _ in parents[1:])]
        case "each token from the sequence's state":
            parents = [-1 for _ in parents]
        case "parents counted from 1":
            parents = [max(each - 1, -1) for each in parents]
        case "a sibling is seen":
            parents = [
                max([i for i in range(at) if parents[i] == each], default=each) for at, each in enumerate(parents)
            ]
        case "no parent is the last token":
            parents = [at - 1 if each < 0 else each for at, each in enumerate(parents)]
    return parents


def walked(t, step, dtype, mistake=""):
    """Outputs by token and by `step`, which gives those of one token from its inputs, in a dtype."""
    B, T, HV = t["a"].shape
    V, K = t["pool"].shape[2:]
    output, states = torch.zeros(B, T, HV, V, dtype=dtype), torch.zeros(B, T, HV, V, K, dtype=dtype)
    for n, slot in enumerate(t["slot"].tolist()):
        if slot <= 0 and not mistake.startswith("padding"):
            continue
        own = []
        for token, parent in enumerate(parents_of(t, n, mistake)):
            begun = t["pool"][max(slot, 0)].to(dtype) if parent < 0 else own[parent]
            found = step(one_token(t, n, token, begun))
            after = found["states"][0, 0]
            own.append(after.bfloat16().to(dtype) if mistake == "the state in bf16 between tokens" else after)
            if slot > 0 or mistake == "padding writes its output":
                output[n, token] = found["output"][0, 0]
            if slot > 0 or mistake == "padding has a state":
                states[n, token] = begun if mistake == "the state of the parent" else after
    return {"output": output, "states": states}


def computed(t, scale, beta_limit, mistake=""):
    """The outputs of a kernel in fp32, with a mistake if one is asked for."""

    def step(own):
        return drafts.computed(own, scale, beta_limit, drafts.EACH)

    found = walked(t | {"pool": t["pool"].float()}, step, torch.float32, mistake)
    if mistake == "one element a thousandth off":
        found["states"][1, -1, 1, 2, 3] *= 1.001
    return {"output": found["output"].bfloat16(), "states": found["states"].to(t["pool"].dtype)}


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize("state", [32, 16])
def test_the_oracle_follows_parents_and_fp32_passes_by_far(scenario, state):
    t, scalars, expected, sizes = drawn(scenario, STATE=state)
    right = walked(t, lambda own: drafts.one_by_one(own, **scalars, keep=drafts.EACH), torch.float64)
    for name, each in right.items():
        torch.testing.assert_close(expected[name], each, rtol=1e-9, atol=1e-12)
    assert drafts.worst(computed(t, **scalars), expected, sizes, OP) < 0.3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    found = {}
    for scenario in OP.scenarios:
        t, scalars, *right = drawn(scenario)
        found[scenario] = drafts.worst(computed(t, **scalars, mistake=mistake), *right, OP)
    assert max(found.values()) > 1, found


def test_a_chain_is_what_verify_computes():
    t, scalars, *right = drawn("chain")
    workload = drafts.workload(tokens=5)
    for found, function in zip(right, (drafts.NUMERICS.oracle, drafts.NUMERICS.roundoff), strict=True):
        for name, each in function(t, scalars, workload).items():
            torch.testing.assert_close(found[name], each)


def test_parents_come_before_their_tokens_and_each_place_is_drawn():
    t = drawn("typical", batch=60)[0]
    assert (t["parent"] < torch.arange(5)).all()
    assert {tuple(sorted(set(column))) for column in t["parent"].T.tolist()} == {tuple(range(-1, i)) for i in range(5)}


@pytest.mark.parametrize("kernel", ["verify-tree-v1", "verify-tree-reference"])
def test_what_is_no_number_reaches_none_but_those_behind_it(kernel):
    entry = CATALOG.entries[kernel]
    shape = OP.workload(Shape(B=2, T=5, HQ=1, HV=1, V=16))
    workspace = Workspace.make(OP, NUMERICS, shape, seed=3, device="cpu", scenario="typical")
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
