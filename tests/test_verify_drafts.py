"""The step over draft tokens: its oracle is the recurrence, token by token, and nothing wrong passes its gates."""

import pytest
import torch
import torch.nn.functional as F
from planted import CATALOG, drawn, is_refused, worst
from verified_kernels import gate_statuses

from gdnbench.errors import UsageError
from gdnbench.exchange.reference import write_reference
from gdnbench.model.kernel import CudaKernel
from gdnbench.model.workload import Shape

OP = CATALOG.ops["verify"]
SIZES = {"HQ": 2, "HV": 4, "K": 64, "V": 32}
LAST, EACH = 0, 1
FIRST = "pool[slot.clamp(min=0).long()].float()"
BF16 = "bfloat16().float()"
RETURNED = "    output = torch.where(live"
MISTAKES = {
    "padding writes its output": {"live, torch.stack(outputs": "torch.tensor(True), torch.stack(outputs"},
    "padding has a state": {"live[..., None], torch.stack(states": "torch.tensor(True), torch.stack(states"},
    "padding counts from the end of the pool": {"slot.clamp(min=0)": "slot", "(slot > 0)": "(slot == slot)"},
    "the next sequence's slot": {"slot.clamp(min=0)": "slot.roll(1).clamp(min=0)"},
    "the next sequence's tokens": {"mixed_qkv.float()": "mixed_qkv.roll(1, 0).float()"},
    "no epsilon in a norm": {" + EPS": ""},
    "keys are not normalised": {"(normalised(": "((normalised if each is q else torch.Tensor.float)("},
    "queries and keys exchanged": {"q, k, v = mixed_qkv": "k, q, v = mixed_qkv"},
    "values of the next head": {"v.unflatten(-1, (HV, V))": "v.unflatten(-1, (HV, V)).roll(1, -2)"},
    "key heads in turn": {".repeat_interleave(HV // HQ, dim=-2)": ".repeat(1, 1, HV // HQ, 1)"},
    "tokens in reverse": {"range(a.shape[1])": "range(a.shape[1])[::-1]", "stack(outputs": "stack(outputs[::-1]"},
    "the state of one token earlier": {"    outputs.append": "    states.append(before)\n        outputs.append",
                                       "    decayed = g": "    before, decayed = state, g",
                                       "        states.append(state)\n": ""},
    "the decay of the next token": {"g[:, t,": "g.roll(-1, 1)[:, t,"},
    "the write strength of the next token": {"beta[:, t,": "beta.roll(-1, 1)[:, t,"},
    "every token starts from the pool": {"None] * state\n": f"None] * {FIRST}\n"},
    "output before the update": {"(state * q": "(decayed * q"},
    "the decay after the update": {"decayed + delta": "decayed + g[:, t, :, None, None] * delta"},
    "deltas do not see each other": {"(decayed * k": f"(g[:, t, :, None, None] * {FIRST} * k"},
    "the state in bf16 between tokens": {"states.append(state)": f"states.append(state); state = state.{BF16}"},
    "the last state in bf16": {RETURNED: f"    states[-1] = states[-1].{BF16}\n{RETURNED}"},
    "products in bf16": {"(decayed * k[:, t, :, None, :])": f"(decayed * k[:, t, :, None, :]).{BF16}"},
    "one element a thousandth off": {RETURNED: f"    states[-1][1, 1, 2, 3] *= 1.001\n{RETURNED}"},
}  # fmt: skip
"""What kernels over several tokens get wrong, as texts of the reference; each must fail in some scenario."""
OFTEN_IN_BF16 = (
    "padding has a state", "the next sequence's tokens", "the state of one token earlier",
    "the decay of the next token", "every token starts from the pool", "the state in bf16 between tokens",
)  # fmt: skip
CUT_OFF = "(states[-1].view(torch.int32) & -65536).view(torch.float32)"
MISTAKES_IN_BF16 = {name: MISTAKES[name] for name in OFTEN_IN_BF16} | {
    "the last state rounded towards zero": {RETURNED: f"    states[-1] = {CUT_OFF}\n{RETURNED}"},
    "one element a hundredth off": {RETURNED: f"    states[-1][1, 1, 2, 3] *= 1.01\n{RETURNED}"},
}


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


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(
    ("tokens", "keep", "state", "beta"), [(1, EACH, 32, 1), (4, LAST, 32, 1), (5, EACH, 32, 1), (4, EACH, 16, 2)]
)
def test_the_oracle_is_the_recurrence(scenario, tokens, keep, state, beta):
    workspace, found = drawn("verify", scenario, B=7, T=tokens, KEEP=keep, STATE=state, BETA=beta, **SIZES)
    for name, right in one_by_one(workspace.inputs, **workspace.scalars, keep=keep).items():
        torch.testing.assert_close(found.outputs[name], right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(
    ("batch", "tokens", "keep", "state", "beta"),
    [(1, 1, LAST, 32, 1), (7, 4, EACH, 32, 1), (3, 8, EACH, 32, 1), (3, 8, LAST, 32, 1), (7, 4, EACH, 16, 2)],
)
def test_fp32_passes_by_far(scenario, batch, tokens, keep, state, beta):
    assert worst("verify", scenario, B=batch, T=tokens, KEEP=keep, STATE=state, BETA=beta, **SIZES) < 0.3


@pytest.mark.parametrize("keep", [LAST, EACH])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake, keep):
    assert is_refused("verify", MISTAKES[mistake], B=7, T=4, KEEP=keep, **SIZES)


@pytest.mark.parametrize("mistake", MISTAKES_IN_BF16)
def test_a_mistake_with_states_in_bf16_fails_in_some_scenario(mistake):
    assert is_refused("verify", MISTAKES_IN_BF16[mistake], B=7, T=4, KEEP=EACH, STATE=16, **SIZES)


def test_beta_reaches_2_where_its_limit_is_2():
    assert worst("verify", "saturated-gates", {"beta_limit * torch": "torch"}, B=7, KEEP=EACH, BETA=2, **SIZES) > 1


def test_of_two_scenarios_one_forgets_and_one_remembers():
    for scenario, lowest, highest in (("forgetting", 0.04, 0.76), ("remembering", 1 - 1e-6, 1)):
        t = drawn("verify", scenario, B=7, **SIZES)[0].inputs
        g = torch.exp(-t["A_log"].exp() * F.softplus(t["a"].float() + t["dt_bias"]))
        assert lowest <= float(g.min()) <= float(g.max()) <= highest


@pytest.mark.parametrize("op", ["verify", "decode-pool"])
def test_slots_are_drawn_without_repetition_and_the_first_is_nobodys(op):
    for seed in range(5):
        slot = drawn(op, "typical", seed, B=40, **SIZES)[0].inputs["slot"].tolist()
        assert len(set(slot)) == 40
        assert min(slot) >= 1
    padded = drawn(op, "padded", B=40, **SIZES)[0].inputs["slot"].tolist()
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
