"""The decode step with a ring of what was written: its oracle replays, and the gates find what is replayed wrongly."""

from functools import cache

import pytest
import test_verify_drafts as drafts
import torch
import torch.nn.functional as F
from verified_kernels import gate_statuses

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch import Workspace
from gdnbench.launch.bind import bind
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.workload import Shape

CATALOG = load_catalog(default_roots()[:1])
OP = CATALOG.ops["decode-ucache"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
MISTAKES = (
    "the ring is not replayed", "an entry fewer", "an entry more", "the first state does not decay",
    "entries do not decay", "A_log in bf16", "the state is written at every step", "the state is never written",
    "the ring is written at a flush, too", "the state before the token", "the key as it came", "u without beta",
    "the sum begins anew", "the entry one place further", "padding writes slot 0", "another slot is cleared",
)  # fmt: skip
"""What kernels with rings get wrong; each must fail in some scenario."""


@cache
def drawn(scenario, batch=9, flush=6, **sizes):
    workload = OP.workload(Shape(B=batch, FLUSH=flush, **drafts.SIZES, **sizes))
    t, scalars = NUMERICS.make_inputs(workload, 1, "cpu", scenario)
    return t, scalars, NUMERICS.oracle(t, scalars, workload), NUMERICS.roundoff(t, scalars, workload)


def replayed(t, slot, filled, dtype, mistake):
    """A sequence's state [HV, V, K], one token of the ring after the other."""
    state, before = t["pool"][slot].to(dtype), 0.0
    filled += {"an entry fewer": -1, "an entry more": 1}.get(mistake, 0)
    for j in range(0 if mistake == "the ring is not replayed" else min(max(filled, 0), 16)):
        sums, u = t["g_cache"][slot, :, j].to(dtype), t["u_cache"][slot, :, j].to(dtype)
        k = t["k_cache"][slot, :, j].to(dtype).repeat_interleave(len(u) // t["k_cache"].shape[1], dim=0)
        kept = torch.ones_like(sums) if mistake == "entries do not decay" and j else (sums - before).exp()
        if mistake == "the first state does not decay" and j == 0:
            kept = torch.ones_like(sums)
        state, before = kept[:, None, None] * state + u[..., None] * k[:, None], sums
    return state


def walked(t, scale, beta_limit, flush, dtype, mistake=""):
    """The outputs of a step, a sequence after the other, in a dtype, with a mistake if one is asked for."""
    HV, V, K = t["pool"].shape[1:]
    HQ = t["k_cache"].shape[1]
    if mistake == "A_log in bf16":
        t = t | {"A_log": t["A_log"].bfloat16().float()}
    names = ("pool", "k_cache", "u_cache", "g_cache")
    new = {name: t[name].to(dtype, copy=True) for name in names}
    output = torch.zeros(len(t["slot"]), HV, V, dtype=dtype)
    for n, (slot, filled) in enumerate(zip(t["slot"].tolist(), t["hist_len"].tolist(), strict=True)):
        if slot <= 0:
            new["pool"][0] += mistake == "padding writes slot 0"
            continue
        state = replayed(t, slot, filled, dtype, mistake)
        own = {name: t[name][n : n + 1, None] for name in ("mixed_qkv", "a", "b")}
        token = t | own | {"pool": torch.stack([state, state]), "slot": torch.tensor([1])}
        after = drafts.one_by_one(token, scale, beta_limit, drafts.EACH, dtype)
        output[n], written = after["output"][0, 0], after["states"][0, 0]
        rate = t["A_log"].to(dtype).exp() * F.softplus(t["a"][n].to(dtype) + t["dt_bias"].to(dtype))
        raw = t["mixed_qkv"][n, HQ * K : 2 * HQ * K].to(dtype).unflatten(0, (HQ, K))
        key = raw / (raw.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        beta = beta_limit * torch.sigmoid(t["b"][n].to(dtype))[:, None]
        k = key.repeat_interleave(HV // HQ, dim=0)
        value = t["mixed_qkv"][n, 2 * HQ * K :].to(dtype).unflatten(0, (HV, V))
        u = value - torch.einsum("hvk,hk->hv", rate.neg().exp()[:, None, None] * state, k)
        u = u if mistake == "u without beta" else beta * u
        flushes = filled >= flush
        if (flushes or mistake == "the state is written at every step") and mistake != "the state is never written":
            new["pool"][slot] = state if mistake == "the state before the token" else written
        if not flushes or mistake == "the ring is written at a flush, too":
            place = min(filled + (mistake == "the entry one place further"), 15)
            last = t["g_cache"][slot, :, filled - 1] if filled and mistake != "the sum begins anew" else 0.0
            new["k_cache"][slot, :, place] = raw if mistake == "the key as it came" else key
            new["u_cache"][slot, :, place], new["g_cache"][slot, :, place] = u, last - rate
    if mistake == "another slot is cleared":
        new["u_cache"][(set(range(1, len(t["pool"]))) - set(t["slot"].tolist())).pop()] = 0.0
    return {"output": output} | {f"new_{name}": each for name, each in new.items()}


def stored(outputs, t):
    """As they are stored."""
    kept = {name: each.to(t[name.removeprefix("new_")].dtype) for name, each in outputs.items() if name != "output"}
    return kept | {"output": outputs["output"].bfloat16()}


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize("state", [32, 16])
def test_the_oracle_replays_and_fp32_passes_by_far(scenario, state):
    t, scalars, expected, sizes = drawn(scenario, STATE=state)
    for name, right in walked(t, **scalars, flush=6, dtype=torch.float64).items():
        torch.testing.assert_close(expected[name], right, rtol=1e-9, atol=1e-12)
    found = stored(walked(t, **scalars, flush=6, dtype=torch.float32), t)
    assert drafts.worst(found, expected, sizes, OP) < 0.3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    found = {}
    for scenario in OP.scenarios:
        t, scalars, *right = drawn(scenario)
        outputs = stored(walked(t, **scalars, flush=6, dtype=torch.float32, mistake=mistake), t)
        found[scenario] = drafts.worst(outputs, *right, OP)
    assert max(found.values()) > 1, found


def test_counts_reach_both_ends_and_padding_counts_anything():
    assert set(drawn("typical", batch=60)[0]["hist_len"].tolist()) == set(range(7))
    for scenario, count in (("empty", 0), ("flush", 6)):
        assert set(drawn(scenario)[0]["hist_len"].tolist()) == {count}
    padded = drawn("padded")[0]
    assert (padded["hist_len"][padded["slot"] <= 0] > 16).all()


@pytest.mark.parametrize("flush", [1, 5, 16])
def test_outputs_do_not_depend_on_where_flushes_fall(flush):
    """Twenty steps of the reference, whose ring is in bf16, beside the recurrence in float64."""
    entry = CATALOG.entries["decode-ucache-reference"]
    shape = OP.workload(Shape(B=2, FLUSH=flush, **drafts.SIZES))
    workspace = Workspace.make(OP, NUMERICS, shape, seed=3, device="cpu", scenario="empty")
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
