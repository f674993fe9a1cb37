"""The step over draft tokens: its oracle is the recurrence, token by token, and nothing wrong passes its gates."""

from functools import cache
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from verified_kernels import gate_statuses

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.errors import UsageError
from gdnbench.exchange.reference import write_reference
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.kernel import CudaKernel
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

CATALOG = load_catalog(default_roots()[:1])
OP = CATALOG.ops["verify"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
SIZES = {"HQ": 2, "HV": 4, "K": 64, "V": 32}
LAST, EACH = 0, 1
MISTAKES = (
    "padding writes its output", "padding has a state", "padding counts from the end of the pool",
    "the next sequence's slot", "the next sequence's tokens", "no epsilon in a norm", "keys are not normalised",
    "queries and keys exchanged", "values of the next head", "key heads in turn", "tokens in reverse",
    "the state of one token earlier", "the decay of the next token", "the write strength of the next token",
    "every token starts from the pool", "output before the update", "the decay after the update",
    "deltas do not see each other", "the state in bf16 between tokens", "the last state in bf16", "products in bf16",
    "one element a thousandth off",
)  # fmt: skip
"""What kernels over several tokens get wrong; each must fail in some scenario."""
MISTAKES_IN_BF16 = (
    "padding has a state", "the next sequence's tokens", "the state of one token earlier",
    "the decay of the next token", "every token starts from the pool", "the state in bf16 between tokens",
    "the last state rounded towards zero", "one element a hundredth off",
)  # fmt: skip
OFF = {"one element a thousandth off": 1.001, "one element a hundredth off": 1.01}
ROUNDED = {
    "the last state in bf16": lambda state: state.bfloat16().float(),
    "the last state rounded towards zero": lambda state: (state.view(torch.int32) & -65536).view(torch.float32),
}


def workload(batch=7, tokens=4, keep=EACH, state=32, beta=1):
    return OP.workload(Shape(B=batch, T=tokens, KEEP=keep, STATE=state, BETA=beta, **SIZES))


@cache
def drawn(scenario, seed=1, **shape):
    found = workload(**shape)
    return found, *NUMERICS.make_inputs(found, seed, "cpu", scenario)


def one_by_one(t, scale, beta_limit, keep, dtype=torch.float64):
    """The op as its docstring has it: a sequence, a head and a token after the other."""
    HV, V, K = t["pool"].shape[1:]
    HQ = (t["mixed_qkv"].shape[2] - HV * V) // (2 * K)
    B, T = t["a"].shape[:2]
    output, states = torch.zeros(B, T, HV, V, dtype=dtype), torch.zeros(B, T, HV, V, K, dtype=dtype)
    for n, slot in enumerate(t["slot"].tolist()):
        for h in range(HV if slot > 0 else 0):
            state = t["pool"][slot, h].to(dtype)
            for i in range(T):
                token, group = t["mixed_qkv"][n, i].to(dtype), h // (HV // HQ)
                q, k = (token[(group + first) * K : (group + first + 1) * K] for first in (0, HQ))
                q, k = (row / (row.square().sum() + 1e-6).sqrt() for row in (q, k))
                v = token[2 * HQ * K + h * V : 2 * HQ * K + (h + 1) * V]
                step = F.softplus(t["a"][n, i, h].to(dtype) + t["dt_bias"][h])
                state = torch.exp(-torch.exp(t["A_log"][h].to(dtype)) * step) * state
                beta = beta_limit * torch.sigmoid(t["b"][n, i, h].to(dtype))
                state = state + beta * torch.outer(v - state @ k, k)
                states[n, i, h], output[n, i, h] = state, scale * (state @ q)
    return {"output": output, "states": states if keep == EACH else states[:, -1:]}


def unpacked(t, mistake=""):
    """Queries, keys [N, T, HV, K] and values, in fp32, with a mistake if one is asked for."""
    HV, V, K = t["pool"].shape[1:]
    HQ = (t["mixed_qkv"].shape[2] - HV * V) // (2 * K)
    q, k, v = t["mixed_qkv"].float().split((HQ * K, HQ * K, HV * V), dim=-1)
    if mistake == "queries and keys exchanged":
        q, k = k, q
    q, k = (each.unflatten(-1, (HQ, K)) for each in (q, k))
    eps = 0.0 if mistake == "no epsilon in a norm" else 1e-6
    norm_q, norm_k = (each.square().sum(-1, keepdim=True).add(eps).sqrt() for each in (q, k))
    q, k = q / norm_q, k if mistake == "keys are not normalised" else k / norm_k
    if mistake == "key heads in turn":
        q, k = (each.repeat(1, 1, HV // HQ, 1) for each in (q, k))
    else:
        q, k = (each.repeat_interleave(HV // HQ, dim=2) for each in (q, k))
    v = v.unflatten(-1, (HV, V))
    return q, k, v.roll(1, dims=2) if mistake == "values of the next head" else v


def computed(t, scale, beta_limit, keep, mistake=""):
    """The outputs of a kernel in fp32, with a mistake if one is asked for."""
    t = dict(t)
    if mistake == "the next sequence's tokens":
        t |= {name: t[name].roll(1, dims=0) for name in ("mixed_qkv", "a", "b")}
    if mistake == "tokens in reverse":
        t |= {name: t[name].flip(1) for name in ("mixed_qkv", "a", "b")}
    q, k, v = unpacked(t, mistake)
    slot, padding = t["slot"].long(), (t["slot"] <= 0)[:, None, None, None]
    if mistake == "the next sequence's slot":
        slot = slot.roll(1)
    first = t["pool"][slot if mistake == "padding counts from the end of the pool" else slot.clamp(min=0)].float()
    g = torch.exp(-torch.exp(t["A_log"]) * F.softplus(t["a"].float() + t["dt_bias"]))
    beta = beta_limit * torch.sigmoid(t["b"].float())
    if mistake == "the decay of the next token":
        g = g.roll(-1, dims=1)
    if mistake == "the write strength of the next token":
        beta = beta.roll(-1, dims=1)
    output, states = walked(first, q, k, v, g, beta, scale, mistake)
    if mistake == "tokens in reverse":
        output = output.flip(1)
    if mistake == "the state of one token earlier":
        states = torch.cat([first[:, None], states[:, :-1]], 1)
    if mistake not in {"padding writes its output", "padding counts from the end of the pool"}:
        output = torch.where(padding, 0.0, output)
    if mistake not in {"padding has a state", "padding counts from the end of the pool"}:
        states = torch.where(padding[..., None], 0.0, states)
    if mistake in ROUNDED:
        states[:, -1] = ROUNDED[mistake](states[:, -1])
    if mistake in OFF:
        states[1, -1, 1, 2, 3] *= OFF[mistake]
    states = (states if keep == EACH else states[:, -1:]).to(t["pool"].dtype)
    return {"output": output.bfloat16(), "states": states}


def walked(first, q, k, v, g, beta, scale, mistake=""):
    """The recurrence from a first state, token after token: outputs and the state after each."""
    state, outputs, states, narrow = first, [], [], mistake == "products in bf16"
    for i in range(g.shape[1]):
        before = first if mistake in {"every token starts from the pool", "deltas do not see each other"} else state
        decayed = g[:, i, :, None, None] * before
        product = decayed * k[:, i, :, None]
        delta = beta[:, i, :, None] * (v[:, i] - (product.bfloat16().float() if narrow else product).sum(-1))
        if mistake == "deltas do not see each other":
            decayed = g[:, i, :, None, None] * state
        update = delta[..., None] * k[:, i, :, None]
        if mistake == "the decay after the update":
            updated = g[:, i, :, None, None] * (before + update)
        else:
            updated = decayed + update
        read = before if mistake == "output before the update" else updated
        outputs.append(scale * (read * q[:, i, :, None]).sum(-1))
        states.append(updated)
        state = updated.bfloat16().float() if mistake == "the state in bf16 between tokens" else updated
    return torch.stack(outputs, 1), torch.stack(states, 1)


@cache
def judged(scenario, **shape):
    """What the gates hold outputs to: the oracle's, and their roundoff."""
    found, t, scalars = drawn(scenario, **shape)
    return NUMERICS.oracle(t, scalars, found), NUMERICS.roundoff(t, scalars, found)


def worst(outputs, expected, sizes, op=OP):
    return max(
        float(roundoff_error(gate, outputs[gate.tensor], expected[gate.tensor], sizes[gate.tensor]).max() / gate.limit)
        for gate in op.gates
    )


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(("tokens", "keep"), [(1, EACH), (4, LAST), (5, EACH)])
def test_the_oracle_is_the_recurrence(scenario, tokens, keep):
    shape, t, scalars = drawn(scenario, tokens=tokens, keep=keep)
    expected, found = one_by_one(t, **scalars, keep=keep), NUMERICS.oracle(t, scalars, shape)
    for name, right in expected.items():
        torch.testing.assert_close(found[name], right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(("batch", "tokens", "keep"), [(1, 1, LAST), (7, 4, EACH), (3, 8, EACH), (3, 8, LAST)])
def test_fp32_passes_by_far(scenario, batch, tokens, keep):
    shape = {"batch": batch, "tokens": tokens, "keep": keep}
    _, t, scalars = drawn(scenario, **shape)
    assert worst(computed(t, **scalars, keep=keep), *judged(scenario, **shape)) < 0.3


@pytest.mark.parametrize(
    ("mistake", "keep", "state"),
    [*product(MISTAKES, (LAST, EACH), (32,)), *product(MISTAKES_IN_BF16, (EACH,), (16,))],
)
def test_a_mistake_fails_in_some_scenario(mistake, keep, state):
    found = []
    for scenario in OP.scenarios:
        _, t, scalars = drawn(scenario, keep=keep, state=state)
        outputs = computed(t, **scalars, keep=keep, mistake=mistake)
        found.append(worst(outputs, *judged(scenario, keep=keep, state=state)))
    assert max(found) > 1, found


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_states_in_bf16_are_read_as_they_are_and_rounded_once(scenario):
    shape, t, scalars = drawn(scenario, state=16, beta=2)
    assert t["pool"].dtype == torch.bfloat16
    expected, found = one_by_one(t, **scalars, keep=EACH), NUMERICS.oracle(t, scalars, shape)
    for name, right in expected.items():
        torch.testing.assert_close(found[name], right, rtol=1e-9, atol=1e-12)
    assert worst(computed(t, **scalars, keep=EACH), *judged(scenario, state=16, beta=2)) < 0.3


def test_beta_reaches_2_where_its_limit_is_2():
    _, t, scalars = drawn("saturated-gates", beta=2)
    assert scalars["beta_limit"] == 2.0
    right = judged("saturated-gates", beta=2)
    assert worst(computed(t, **scalars, keep=EACH), *right) < 0.3
    assert worst(computed(t, scalars["scale"], 1.0, EACH), *right) > 1


def test_of_two_scenarios_one_forgets_and_one_remembers():
    for scenario, lowest, highest in (("forgetting", 0.04, 0.76), ("remembering", 1 - 1e-6, 1)):
        _, t, _ = drawn(scenario)
        g = torch.exp(-t["A_log"].exp() * F.softplus(t["a"].float() + t["dt_bias"]))
        assert lowest <= float(g.min()) <= float(g.max()) <= highest


def test_slots_are_drawn_without_repetition_and_the_first_is_nobodys():
    slot = drawn("typical", batch=40)[1]["slot"].tolist()
    assert len(set(slot)) == 40
    assert min(slot) >= 1
    padded = drawn("padded", batch=40)[1]["slot"].tolist()
    assert {0, -1} < set(padded)
    assert sum(each <= 0 for each in padded) == 14


@pytest.mark.parametrize(("keep", "kept"), [(LAST, 1), (EACH, 4)])
def test_the_least_that_must_move_is_each_state_once_and_those_that_are_kept(keep, kept):
    found = OP.workload(Shape(B=8, T=4, KEEP=keep))
    state = 4 * 8 * 8 * 128 * 128
    assert OP.copy_bytes(found) == (1 + kept) * state
    assert OP.copy_bytes(found) < OP.traffic_bytes(found) < 1.03 * OP.copy_bytes(found)
    assert OP.named_sizes(found)["kept"] == kept
    assert OP.copy_bytes(found) == 2 * OP.copy_bytes(OP.workload(Shape(B=8, T=4, KEEP=keep, STATE=16)))


KERNELS = (
    "verify-v1", "verify-v1:MOST_LANES=32:WARPS=8", "verify-v2", "verify-v2:TILE=32:MOST_WARPS=2",
    "verify-floor-copy:EACH=4", "verify-reference",
)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", ["T=1 keep=last", "T=3 keep=each", "T=4 keep=last state=bf16"])
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, shape):
    assert gate_statuses(request, kernel, "B=2", "heads=qk1_v2", "V=32", *shape.split()) == {"ok"}


def test_a_kernel_that_cannot_do_a_workload_says_why():
    for name, able in (("verify-fla", (4, LAST)), ("verify-flashinfer", (4, EACH))):
        check = CATALOG.entries[name].kernel.check
        assert not check(OP.workload(Shape(T=able[0], KEEP=able[1])))
    assert "not each" in CATALOG.entries["verify-fla"].kernel.check(OP.workload(Shape(KEEP=EACH)))
    assert "T=1" in CATALOG.entries["verify-flashinfer"].kernel.check(OP.workload(Shape(T=1)))


def test_every_cuda_kernel_does_every_workload_but_tensor_cores_those_in_fp32():
    for entry in CATALOG.of_op("verify"):
        if isinstance(entry.kernel, CudaKernel):
            unable = [each for each in OP.suite_workloads if entry.kernel.check(each)]
            in_fp32 = [each for each in OP.suite_workloads if each.STATE == 32]
            assert unable == (in_fp32 if entry.kernel.name == "verify-v3" else [])


def test_an_oracle_that_asks_for_the_workload_is_not_exported():
    with pytest.raises(UsageError, match="a reference gets none"):
        write_reference(OP.at(OP.default.axes), CATALOG.op_folders["verify"], [])
