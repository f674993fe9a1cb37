"""The decode step over a pool: its oracle is the recurrence, slot by slot, and nothing wrong passes its gates."""

import pytest
import torch
import torch.nn.functional as F
from verified_kernels import gate_statuses

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

CATALOG = load_catalog(default_roots()[:1])
OP = CATALOG.ops["decode-pool"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
SIZES = {"HQ": 2, "HV": 4, "K": 64, "V": 32}
MISTAKES = (
    "padding writes its output",
    "padding updates slot 0",
    "padding counts from the end of the pool",
    "the next sequence's slot",
    "another slot is cleared",
    "no epsilon in a norm",
    "epsilon beside the norm",
    "keys are not normalised",
    "queries and keys exchanged",
    "values of the next head",
    "the state in bf16",
    "key heads in turn",
    "one element a thousandth off",
)
MISTAKES_IN_BF16 = (
    "padding writes its output",
    "padding updates slot 0",
    "the next sequence's slot",
    "another slot is cleared",
    "keys are not normalised",
    "values of the next head",
    "the state rounded towards zero",
    "the decayed state in bf16",
    "one element a hundredth off",
)

OFF = {"one element a thousandth off": 1.001, "one element a hundredth off": 1.01}
ROUNDED = {
    "the state in bf16": lambda state: state.bfloat16().float(),
    "the state rounded towards zero": lambda state: (state.view(torch.int32) & -65536).view(torch.float32),
}


def drawn(scenario, batch=7, seed=1, **sizes):
    return NUMERICS.make_inputs(OP.workload(Shape(B=batch, **SIZES, **sizes)), seed, "cpu", scenario)


def one_by_one(t, scale, beta_limit, dtype=torch.float64):
    """The op as its docstring has it, a sequence and a head after the other."""
    HV, V, K = t["pool"].shape[1:]
    HQ = (t["mixed_qkv"].shape[1] - HV * V) // (2 * K)
    pool = t["pool"].to(dtype).clone()
    output = torch.zeros(len(t["slot"]), HV, V, dtype=dtype)
    for n, slot in enumerate(t["slot"].tolist()):
        if slot <= 0:
            continue
        token = t["mixed_qkv"][n].to(dtype)
        for h in range(HV):
            group = h // (HV // HQ)
            q, k = (token[(group + first) * K : (group + first + 1) * K] for first in (0, HQ))
            q, k = (row / (row.square().sum() + 1e-6).sqrt() for row in (q, k))
            v = token[2 * HQ * K + h * V : 2 * HQ * K + (h + 1) * V]
            g = torch.exp(-torch.exp(t["A_log"][h].to(dtype)) * F.softplus(t["a"][n, h].to(dtype) + t["dt_bias"][h]))
            state = g * pool[slot, h]
            beta = beta_limit * torch.sigmoid(t["b"][n, h].to(dtype))
            state = state + beta * torch.outer(v - state @ k, k)
            pool[slot, h], output[n, h] = state, scale * (state @ q)
    return {"output": output, "new_pool": pool}


def computed(t, scale, beta_limit, mistake=""):
    """The outputs of a kernel in fp32, with a mistake if one is asked for."""
    HV, V, K = t["pool"].shape[1:]
    HQ = (t["mixed_qkv"].shape[1] - HV * V) // (2 * K)
    q, k, v = t["mixed_qkv"].float().split((HQ * K, HQ * K, HV * V), dim=1)
    if mistake == "queries and keys exchanged":
        q, k = k, q
    q, k = (each.unflatten(1, (HQ, K)) for each in (q, k))
    squares = {"q": q.square().sum(-1, keepdim=True), "k": k.square().sum(-1, keepdim=True)}
    if mistake == "no epsilon in a norm":
        norms = {name: each.clamp(min=1e-30).sqrt() for name, each in squares.items()}
    elif mistake == "epsilon beside the norm":
        norms = {name: each.sqrt() + 1e-6 for name, each in squares.items()}
    else:
        norms = {name: (each + 1e-6).sqrt() for name, each in squares.items()}
    q, k = q / norms["q"], k if mistake == "keys are not normalised" else k / norms["k"]
    spread = (
        (lambda x: x.repeat(1, HV // HQ, 1))
        if mistake == "key heads in turn"
        else (lambda x: x.repeat_interleave(HV // HQ, dim=1))
    )
    q, k, v = spread(q), spread(k), v.unflatten(1, (HV, V))
    v = v.roll(1, dims=1) if mistake == "values of the next head" else v
    slot = t["slot"].long()
    live = torch.ones_like(slot, dtype=torch.bool) if mistake.startswith("padding") else slot > 0
    if mistake == "padding updates slot 0":
        slot = slot.clamp(min=0)
    if mistake == "the next sequence's slot":
        slot = slot.roll(1)
        live = slot > 0
    pool = t["pool"].clone()
    states = pool[slot].float()
    g = torch.exp(-torch.exp(t["A_log"]) * F.softplus(t["a"].float() + t["dt_bias"]))
    decayed = g[..., None, None] * states
    if mistake == "the decayed state in bf16":
        decayed = ROUNDED["the state in bf16"](decayed)
    delta = beta_limit * torch.sigmoid(t["b"].float())[..., None] * (v - (decayed * k[:, :, None]).sum(-1))
    states = decayed + delta[..., None] * k[:, :, None]
    states = ROUNDED.get(mistake, lambda state: state)(states)
    output = scale * (states * q[:, :, None]).sum(-1)
    if mistake != "padding writes its output":
        pool[slot[live]] = states[live].to(pool.dtype)
        output = torch.where((t["slot"] > 0)[:, None, None], output, 0.0)
    else:
        pool[slot[slot > 0]] = states[slot > 0].to(pool.dtype)
    if mistake == "another slot is cleared":
        free = (set(range(1, len(pool))) - set(slot.tolist())).pop()
        pool[free] = 0.0
    if mistake in OFF:
        pool[slot[int(live.nonzero()[0])], 1, 2, 3] *= OFF[mistake]
    return {"output": output.bfloat16(), "new_pool": pool}


def worst(outputs, t, scalars):
    expected, sizes = NUMERICS.oracle(t, scalars), NUMERICS.roundoff(t, scalars)
    return max(
        float(roundoff_error(gate, outputs[gate.tensor], expected[gate.tensor], sizes[gate.tensor]).max() / gate.limit)
        for gate in OP.gates
    )


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_the_oracle_is_the_recurrence(scenario):
    t, scalars = drawn(scenario)
    expected, found = one_by_one(t, **scalars), NUMERICS.oracle(t, scalars)
    for name, right in expected.items():
        torch.testing.assert_close(found[name], right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize("batch", [1, 7])
def test_fp32_passes_by_far(scenario, batch):
    t, scalars = drawn(scenario, batch)
    assert worst(computed(t, **scalars), t, scalars) < 0.3
    alone = one_by_one(t, **scalars, dtype=torch.float32)
    assert worst({"output": alone["output"].bfloat16(), "new_pool": alone["new_pool"]}, t, scalars) < 0.3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    found = []
    for scenario in OP.scenarios:
        t, scalars = drawn(scenario)
        found.append(worst(computed(t, **scalars, mistake=mistake), t, scalars))
    assert max(found) > 1, found


@pytest.mark.parametrize("mistake", MISTAKES_IN_BF16)
def test_a_mistake_in_a_pool_of_bf16_fails_in_some_scenario(mistake):
    found = []
    for scenario in OP.scenarios:
        t, scalars = drawn(scenario, STATE=16)
        found.append(worst(computed(t, **scalars, mistake=mistake), t, scalars))
    assert max(found) > 1, found


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_a_pool_of_bf16_is_read_as_it_is_and_rounded_once(scenario):
    t, scalars = drawn(scenario, STATE=16, BETA=2)
    assert t["pool"].dtype == torch.bfloat16
    expected, found = one_by_one(t, **scalars), NUMERICS.oracle(t, scalars)
    for name, right in expected.items():
        torch.testing.assert_close(found[name], right, rtol=1e-9, atol=1e-12)
    assert worst(computed(t, **scalars), t, scalars) < 0.3


def test_beta_reaches_2_where_its_limit_is_2():
    t, scalars = drawn("saturated-gates", BETA=2)
    assert scalars["beta_limit"] == 2.0
    right = computed(t, **scalars)
    assert worst(right, t, scalars) < 0.3
    assert worst(computed(t, scalars["scale"], 1.0), t, scalars) > 1


def test_the_pools_bytes_follow_its_element_type():
    wide, narrow = (OP.workload(Shape(B=8, STATE=bits)) for bits in (32, 16))
    assert OP.copy_bytes(wide) == 2 * 4 * 8 * 8 * 128 * 128 == 2 * OP.copy_bytes(narrow)
    assert OP.tensor_bytes(wide) > 1.9 * OP.tensor_bytes(narrow)
    assert (str(wide), str(narrow)) == ("B=8 qk4_v8 fp32", "B=8 qk4_v8 bf16")


def test_slots_are_drawn_without_repetition_and_the_first_is_nobodys():
    for seed in range(5):
        slot = drawn("typical", batch=40, seed=seed)[0]["slot"].tolist()
        assert len(set(slot)) == 40
        assert min(slot) >= 1
    padded = drawn("padded", batch=40)[0]["slot"].tolist()
    assert {0, -1} < set(padded)
    assert sum(each <= 0 for each in padded) == 14


def test_all_slots_differ():
    pool = drawn("typical")[0]["pool"]
    assert len({tuple(each.flatten()[:64].tolist()) for each in pool}) == len(pool)


def test_the_least_that_must_move_are_the_batchs_states_and_not_the_pool():
    workload = OP.workload(Shape(B=8))
    states = 2 * 4 * 8 * 8 * 128 * 128
    assert OP.copy_bytes(workload) == states
    assert states < OP.traffic_bytes(workload) < 1.01 * states
    assert OP.tensor_bytes(workload) > 7 * states


KERNELS = (
    "decode-pool-v1",
    "decode-pool-v1:MOST_LANES=16:WARPS=8",
    "decode-pool-v2",
    "decode-pool-v2:TILE=32:MOST_WARPS=2",
    "decode-pool-floor-copy:EACH=4",
    "decode-pool-reference",
)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_right_where_there_is_no_gpu(request, kernel):
    assert gate_statuses(request, kernel, "B=3", "heads=qk1_v2") == {"ok"}
