"""The decode step with a ring of what was written: its oracle replays, and the gates find what is replayed wrongly."""

import pytest
import test_verify_drafts as drafts
import torch
import torch.nn.functional as F
from planted import CATALOG, drawn, is_refused, worst
from verified_kernels import gate_statuses

from gdnbench.launch import Workspace, load_numerics
from gdnbench.launch.bind import bind
from gdnbench.model.workload import Shape

OP = CATALOG.ops["decode-ucache"]
SIZES = {"B": 9, "FLUSH": 6, **drafts.SIZES}
ROW, RETURNED = "< filled[:, None]", "    return output.to"
CLEARED = "t.new_u_cache[(set(range(1, len(t.new_pool))) - set(t.slot.tolist())).pop()] = 0.0"
MISTAKES = {
    "the ring is not replayed": {"last.exp()[..., None] * t.new_pool": "t.new_pool", "range(ring)": "range(0)"},
    "an entry fewer": {"u = shares": f"u = (torch.arange(ring) {ROW} - 1)[:, None, :, None] * shares"},
    "an entry more": {ROW: f"{ROW} + 1"},
    "the first state does not decay": {"last.exp()[..., None] * t.new_pool": "t.new_pool"},
    "entries do not decay": {"(last - sums).exp()": "torch.ones_like(sums)"},
    "A_log in bf16": {"torch.exp(t.A_log)": "torch.exp(t.A_log.bfloat16().float())"},
    "the state is written at every step": {"(place,), flushed": "(place,), live"},
    "the state is never written": {"(place,), flushed": "(place,), live & ~live"},
    "the ring is written at a flush, too": {"live & ~flushed": "live"},
    "the state before the token": {"    decayed =": "    old = state\n    decayed =", "flushed, state": "flushed, old"},
    "the key as it came": {"    q, key": "    raw = k.unflatten(1, (HQ, K))\n    q, key", "cache, key": "cache, raw"},
    "u without beta": {"u_cache, delta": "u_cache, delta / beta[..., None]"},
    "the sum begins anew": {"last[..., 0] - rate": "-rate"},
    "the entry one place further": {"filled.clamp(max": "(filled + 1).clamp(max"},
    "padding writes slot 0": {RETURNED: f"    t.new_pool[0] += int((~live).sum())\n{RETURNED}"},
    "another slot is cleared": {RETURNED: f"    {CLEARED}\n{RETURNED}"},
}  # fmt: skip
"""What kernels with rings get wrong, as texts of the reference; each must fail in some scenario."""


def replayed(t, slot, filled):
    """A sequence's state [HV, V, K] in float64, one token of the ring after the other."""
    state, before = t["pool"][slot].double(), 0.0
    for j in range(filled):
        sums, u, k = (t[f"{name}_cache"][slot, :, j].double() for name in ("g", "u", "k"))
        k = k.repeat_interleave(len(u) // len(k), dim=0)
        state, before = (sums - before).exp()[:, None, None] * state + u[..., None] * k[:, None], sums
    return state


def walked(t, scale, beta_limit, flush):
    """The outputs of a step in float64, a sequence after the other."""
    HV, V, K = t["pool"].shape[1:]
    HQ = t["k_cache"].shape[1]
    new = {name: t[name].double() for name in ("pool", "k_cache", "u_cache", "g_cache")}
    output = torch.zeros(len(t["slot"]), HV, V, dtype=torch.float64)
    for n, (slot, filled) in enumerate(zip(t["slot"].tolist(), t["hist_len"].tolist(), strict=True)):
        if slot <= 0:
            continue
        state = replayed(t, slot, filled)
        own = {name: t[name][n : n + 1, None] for name in ("mixed_qkv", "a", "b")}
        token = t | own | {"pool": torch.stack([state, state]), "slot": torch.tensor([1])}
        after = drafts.one_by_one(token, scale, beta_limit, drafts.EACH)
        output[n] = after["output"][0, 0]
        if filled >= flush:
            new["pool"][slot] = after["states"][0, 0]
            continue
        rate = t["A_log"].double().exp() * F.softplus(t["a"][n].double() + t["dt_bias"].double())
        key = t["mixed_qkv"][n, HQ * K : 2 * HQ * K].double().unflatten(0, (HQ, K))
        key = key / (key.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        beta = beta_limit * torch.sigmoid(t["b"][n].double())[:, None]
        decayed, k = rate.neg().exp()[:, None, None] * state, key.repeat_interleave(HV // HQ, dim=0)
        value = t["mixed_qkv"][n, 2 * HQ * K :].double().unflatten(0, (HV, V))
        new["k_cache"][slot, :, filled] = key
        new["u_cache"][slot, :, filled] = beta * (value - torch.einsum("hvk,hk->hv", decayed, k))
        new["g_cache"][slot, :, filled] = (t["g_cache"][slot, :, filled - 1] if filled else 0.0) - rate
    return {"output": output} | {f"new_{name}": each for name, each in new.items()}


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize("state", [32, 16])
def test_the_oracle_replays_and_fp32_passes_by_far(scenario, state):
    workspace, found = drawn("decode-ucache", scenario, STATE=state, **SIZES)
    for name, right in walked(workspace.inputs, **workspace.scalars, flush=6).items():
        torch.testing.assert_close(found.outputs[name], right, rtol=1e-9, atol=1e-12)
    assert worst("decode-ucache", scenario, STATE=state, **SIZES) < 0.3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    assert is_refused("decode-ucache", MISTAKES[mistake], **SIZES)


def test_counts_reach_both_ends_and_padding_counts_anything():
    def inputs(scenario, **sizes):
        return drawn("decode-ucache", scenario, **SIZES | sizes)[0].inputs

    assert set(inputs("typical", B=60)["hist_len"].tolist()) == set(range(7))
    for scenario, count in (("empty", 0), ("flush", 6)):
        assert set(inputs(scenario)["hist_len"].tolist()) == {count}
    padded = inputs("padded")
    assert (padded["hist_len"][padded["slot"] <= 0] > 16).all()


@pytest.mark.parametrize("flush", [1, 5, 16])
def test_outputs_do_not_depend_on_where_flushes_fall(flush):
    """Twenty steps of the reference, whose ring is in bf16, beside the recurrence in float64."""
    entry = CATALOG.entries["decode-ucache-reference"]
    shape = OP.workload(Shape(B=2, FLUSH=flush, **drafts.SIZES))
    numerics = load_numerics(OP, CATALOG.op_folders[OP.name])
    workspace = Workspace.make(OP, numerics, shape, seed=3, device="cpu", scenario="empty")
    workspace.begin(entry.kernel.in_place)
    run = bind(entry, entry.default, workspace)
    t, draw = workspace.inputs, torch.Generator().manual_seed(5)
    state = t["pool"].double()
    for _ in range(20):
        for name in ("mixed_qkv", "a", "b"):
            t[name].copy_(torch.randn(t[name].shape, generator=draw))
        token = t | {name: t[name][:, None] for name in ("mixed_qkv", "a", "b")} | {"pool": state}
        right = drafts.one_by_one(token, **workspace.scalars, keep=drafts.EACH)
        state[t["slot"].long()] = right["states"][:, 0]
        flushed = t["hist_len"] >= flush
        output, pool, *_ = run()
        torch.testing.assert_close(output.double(), right["output"][:, 0], rtol=0.02, atol=0.005)
        if bool(flushed[0]):
            torch.testing.assert_close(pool.double()[t["slot"].long()], right["states"][:, 0], rtol=0.02, atol=0.02)
        t["hist_len"].copy_(torch.where(flushed, 0, t["hist_len"] + 1))


def test_the_bytes_are_those_of_an_average_step():
    least = {flush: OP.traffic_bytes(OP.workload(Shape(B=32, HQ=32, HV=32, FLUSH=flush))) / 1e6 for flush in (1, 16)}
    state = 32 * 32 * 128 * 128 * 4 / 1e6
    assert state < least[16] < least[1] < 2 * state
    assert least[16] == pytest.approx(state * (1 + 1 / 17) + 4.3, rel=0.02)


@pytest.mark.parametrize("shape", ["B=4", "B=3 state=bf16 FLUSH=3"])
@pytest.mark.parametrize(
    "kernel", ["decode-ucache-v1", "decode-ucache-v1:MOST_LANES=32:WARPS=8", "decode-ucache-reference"]
)
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, shape):
    assert gate_statuses(request, kernel, "heads=qk1_v2", "V=16", *shape.split()) == {"ok"}
