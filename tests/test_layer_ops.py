"""What surrounds the recurrence, and a whole layer: oracles are the mathematics, and nothing wrong passes the gates."""

import pytest
import torch
import torch.nn.functional as F
from faults import answer
from planted import CATALOG, drawn, errors, is_refused
from verified_kernels import gate_statuses
from write_kernels import write_changed

from gdnbench.launch import TORCH_DTYPES
from gdnbench.model.workload import Shape

SIZES = {"B": 7, "HQ": 2, "HV": 4, "K": 64, "V": 64}
OLMO = {"B": 7, "HQ": 2, "HV": 2, "K": 96, "V": 192, "BETA": 2}
"""Sizes of OLMo-Hybrid's heads, whose beta is at most 2."""
EPS = 1e-6
CONVOLVED, SHIFTED = "F.silu((inputs.float() * conv_weight.float()).sum(-1))", "inputs[..., 1:], before"
ALL = "inputs[..., 1:], inputs[..., 1:]"
NORMALISED, HEADS = "(normalised(each.", "v.unflatten(1, (HV, V))"
CONVOLUTION = {
    "taps are reversed": {"conv_weight.float()": "conv_weight.flip(1).float()"},
    "the newest input is missing": {"((inputs.float()": "((torch.cat([0 * before[..., :1], before], -1).float()"},
    "the newest input twice": {"((inputs.float()": "((torch.cat([inputs[..., 1:], x[..., None]], -1).float()"},
    "SiLU before the convolution": {CONVOLVED: "(F.silu(inputs.float()) * conv_weight.float()).sum(-1)"},
    "no SiLU": {"F.silu((inputs": "((inputs"},
    "the next sequence's inputs": {"before = conv_pool[place]": "before = conv_pool[place.roll(1)]"},
    "inputs are not shifted": {SHIFTED: "torch.cat([before[..., :2], x[..., None]], -1), before"},
    "inputs are shifted the other way": {SHIFTED: "torch.cat([x[..., None], before[..., :2]], -1), before"},
    "inputs of padding are shifted": {SHIFTED: ALL},
    "padding counts from the end of the pool": {"slot.clamp(min=0)": "(slot % len(conv_pool))", SHIFTED: ALL},
    "the convolved value is kept": {
        SHIFTED: f"torch.cat([inputs[..., 1:3], {CONVOLVED}.to(x.dtype)[..., None]], -1), before"
    },
}
RECURRENCE = {
    "queries and keys exchanged": {"q, k, v = ": "k, q, v = "},
    "keys are not normalised": {NORMALISED: "((normalised if each is q else torch.Tensor.float)(each."},
    "normalised before SiLU": {
        "F.silu((inputs": "((inputs",
        NORMALISED: "((lambda rows: F.silu(normalised(rows)))(each.",
        HEADS: f"F.silu({HEADS})",
    },
    "no epsilon in a norm": {
        "(rows * rows).sum(-1, keepdim=True) + EPS": "(rows * rows).sum(-1, keepdim=True).clamp(1e-30)"
    },
    "epsilon beside the norm": {
        "(rows * rows).sum(-1, keepdim=True) + EPS": "(rows.norm(dim=-1, keepdim=True) + EPS).square()"
    },
    "key heads in turn": {".repeat_interleave(HV // HQ, dim=1)": ".repeat(1, HV // HQ, 1)"},
    "values of the next head": {HEADS: f"{HEADS}.roll(1, 1)"},
    "padding writes its output": {"torch.where(live, y, 0.0)": "y"},
    "softplus without its bias": {"a.float() + dt_bias": "a.float()"},
    "gates exchanged": {"F.softplus(a.float()": "F.softplus(b.float()", "torch.sigmoid(b": "torch.sigmoid(a"},
}
MEAN = ".square().mean(-1, keepdim=True) + EPS"
EPILOGUE = {
    "the gate before the norm": {
        "rows = o.float()": "rows = o.float() * F.silu(z.float())",
        " * F.silu(z.float()))": ")",
    },
    "the weight is forgotten": {" * weight.float()": ""},
    "one plus the weight": {" * weight.float() *": " * (1 + weight.float()) *"},
    "the sum instead of the mean": {".square().mean(-1": ".square().sum(-1"},
    "epsilon beside the root": {MEAN: ".square().mean(-1, keepdim=True).sqrt().add(EPS).square()"},
    "no epsilon": {MEAN: ".square().mean(-1, keepdim=True).clamp(1e-30)"},
    "sigmoid instead of SiLU": {"F.silu(z.float())": "torch.sigmoid(z.float())"},
    "the mean over all heads": {".square().mean(-1,": ".square().mean((1, 2),"},
    "the mean is taken off": {"rows = o.float()": "rows = o.float() - o.float().mean(-1, keepdim=True)"},
}
STORED = "    pool.index_copy_"
LAYER = CONVOLUTION | RECURRENCE | EPILOGUE | {
    "the gate before the norm": {
        "    y = o *": "    o = o * F.silu(z.float()); y = o *", "weight.float() * F.silu(z.float())": "weight.float()",
    },
    "the mean is taken off": {"    y = o *": "    o = o - o.mean(-1, keepdim=True); y = o *"},
    "the state in bf16": {"    o = (scale": "    updated = updated.bfloat16().float()\n    o = (scale"},
    "padding updates slot 0": {"torch.where(live[..., None], updated, states)": "updated"},
    "the next sequence's state": {"states = pool[place]": "states = pool[place.roll(1)]"},
    "the state before the update is read": {"(updated * q": "(decayed * q"},
    "no decay": {"g[:, :, None, None] * states": "states"},
    "no scale": {"(scale * (updated": "((updated"},
    "another slot is cleared": {
        STORED: f"    pool[(set(range(1, len(pool))) - set(slot.tolist())).pop()] = 0.0\n{STORED}",
    },
    "one element of the state a hundredth off": {
        STORED: f"    updated[int(live.flatten().nonzero()[0]), 1, 2, 3] *= 1.01\n{STORED}",
    },
}  # fmt: skip
MISTAKES = {
    "prologue": CONVOLUTION | {name: each for name, each in RECURRENCE.items() if name != "key heads in turn"},
    "epilogue": EPILOGUE,
    "layer": LAYER,
}
"""What kernels get wrong, as texts of the references; each must fail in some scenario."""


def to_bf16(rows):
    return rows.bfloat16().to(rows.dtype)


def as_is(rows):
    return rows


def convolution(t, dtype):
    """SiLU of the convolution, [B, mixed], and the pool after it."""
    slot, pool = t["slot"].long(), t["conv_pool"].clone()
    inputs = torch.cat([t["conv_pool"][slot.clamp(min=0)].to(dtype), t["x"].to(dtype)[..., None]], dim=-1)
    pool[slot[slot > 0]] = inputs[slot > 0, :, 1:].bfloat16()
    return F.silu((inputs * t["conv_weight"].to(dtype)).sum(-1)), pool


def split(y, HQ, HV, K, V):
    """Normalised queries and keys, and values."""
    q, k, v = y.split((HQ * K, HQ * K, HV * V), dim=1)
    q, k = (each.unflatten(1, (HQ, K)) for each in (q, k))
    q, k = (each / (each.square().sum(-1, keepdim=True) + EPS).sqrt() for each in (q, k))
    return q, k, v.unflatten(1, (HV, V))


def gates(t, scalars, dtype):
    x = t["a"].to(dtype) + t["dt_bias"].to(dtype)
    decay = torch.exp(-torch.exp(t["A_log"].to(dtype)) * F.softplus(x))
    return decay, scalars["beta_limit"] * torch.sigmoid(t["b"].to(dtype))


def where_live(t, rows):
    return torch.where((t["slot"] > 0).reshape(-1, *(1,) * (rows.dim() - 1)), rows, 0.0)


def prologue(t, scalars, dtype=torch.float32, rounded=as_is):
    """The outputs; `rounded` is applied to what the convolution leaves."""
    y, pool = convolution(t, dtype)
    sizes = OLMO if len(t["dt_bias"]) == OLMO["HV"] else SIZES
    q, k, v = split(rounded(y), *(sizes[name] for name in ("HQ", "HV", "K", "V")))
    decay, beta = gates(t, scalars, dtype)
    outputs = {"q": q, "k": k, "v": v, "g": decay, "beta": beta}
    return {**{name: where_live(t, rows) for name, rows in outputs.items()}, "new_conv_pool": pool}


def gated_norm(o, z, weight):
    return o / (o.square().mean(-1, keepdim=True) + EPS).sqrt() * weight.to(o.dtype) * F.silu(z.to(o.dtype))


def epilogue(t, scalars, dtype=torch.float32, rounded=as_is):
    del scalars, rounded
    return {"y": gated_norm(t["o"].to(dtype), t["z"], t["weight"])}


def layer(t, scalars, dtype=torch.float32, rounded=as_is):
    """The outputs; `rounded` is applied to what one launch would hand to the next."""
    HV, V, K = t["pool"].shape[1:]
    HQ = (t["x"].shape[1] - HV * V) // (2 * K)
    y, conv_pool = convolution(t, dtype)
    q, k, v = split(rounded(y), HQ, HV, K, V)
    q, k = (rounded(each).repeat_interleave(HV // HQ, dim=1) for each in (q, k))
    slot, pool = t["slot"].long(), t["pool"].to(dtype).clone()
    decay, beta = gates(t, scalars, dtype)
    decayed = decay[..., None, None] * pool[slot]
    delta = beta[..., None] * (v - torch.einsum("bhvk,bhk->bhv", decayed, k))
    updated = decayed + delta[..., None] * k[:, :, None]
    o = scalars["scale"] * torch.einsum("bhvk,bhk->bhv", updated, q)
    pool[slot[slot > 0]] = updated[slot > 0]
    return {
        "y": where_live(t, gated_norm(rounded(o), t["z"], t["weight"])),
        "new_conv_pool": conv_pool,
        "new_pool": pool,
    }


COMPUTED = {"prologue": prologue, "epilogue": epilogue, "layer": layer}
SCENARIOS = [(name, scenario) for name in COMPUTED for scenario in CATALOG.ops[name].scenarios]


def sizes_of(name, olmo=False):
    axes = CATALOG.ops[name].workload({}).axes
    return {axis: size for axis, size in (OLMO if olmo else SIZES).items() if axis in axes}


def computed_errors(name, scenario, seed=1, olmo=False, limit=None, **how):
    """By output, as a share of the limit, of what is computed above; beta's limit is the op's unless it is told."""
    workspace, right = drawn(name, scenario, seed, **sizes_of(name, olmo))
    scalars = workspace.scalars | ({"beta_limit": limit} if limit else {})
    found = COMPUTED[name](workspace.inputs, scalars, **how)
    specs = workspace.op.outputs
    return errors(workspace, right, tuple(found[each.name].to(TORCH_DTYPES[each.dtype]) for each in specs))


@pytest.mark.parametrize(
    ("name", "scenario", "olmo"),
    [
        *((*each, False) for each in SCENARIOS),
        *((name, each, True) for name in ("prologue", "layer") for each in ("padded", "saturated-gates")),
    ],
)
def test_the_oracle_is_the_mathematics(name, scenario, olmo):
    workspace, found = drawn(name, scenario, **sizes_of(name, olmo))
    for key, right in COMPUTED[name](workspace.inputs, workspace.scalars, dtype=torch.float64).items():
        torch.testing.assert_close(found.outputs[key].double(), right.double(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "scenario"), SCENARIOS)
def test_fp32_passes_by_far(name, scenario, seed):
    assert max(computed_errors(name, scenario, seed).values()) < 0.3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "scenario"), [each for each in SCENARIOS if each[0] != "epilogue"])
def test_a_chain_that_rounds_to_bf16_between_launches_passes(name, scenario, seed):
    assert max(computed_errors(name, scenario, seed, rounded=to_bf16).values()) < 1


@pytest.mark.parametrize(
    ("name", "mistake"), [(name, mistake) for name, mistakes in MISTAKES.items() for mistake in mistakes]
)
def test_a_mistake_fails_in_some_scenario(name, mistake):
    assert is_refused(name, MISTAKES[name][mistake], **sizes_of(name))


@pytest.mark.parametrize(("name", "wrong"), [("prologue", {"beta"}), ("layer", {"y", "new_pool"})])
def test_a_limit_of_1_where_it_is_2_fails(name, wrong):
    for limit, failed in ((2.0, set()), (1.0, wrong)):
        found = computed_errors(name, "typical", olmo=True, limit=limit)
        assert {tensor for tensor, error in found.items() if error > 1} == failed


@pytest.mark.parametrize("name", ["prologue", "epilogue", "layer"])
def test_the_models_in_use_are_a_suite(name):
    op = CATALOG.ops[name]
    heads = {(each.HQ, each.HV, each.K, each.V) for each in op.suite("models").workloads}
    shared = {(hq, hv, 128, 128) for hq, hv in ((16, 32), (16, 64), (16, 48), (16, 16), (8, 16), (4, 8))}
    assert heads == shared | {(30, 30, 96, 192)}
    assert {each.B for each in op.suite("models").workloads} == {1, 8, 32, 128}
    assert [op.check(each) for each in op.suite("models").workloads] == [""] * 28
    for suite in ("models", "verify"):
        limits = {each.axes.get("BETA") for each in op.suite(suite).workloads if (each.K, each.V) == (96, 192)}
        assert limits == ({None} if name == "epilogue" else {2})


@pytest.mark.parametrize("name", ["prologue", "layer"])
def test_padded_slots_are_0_and_negative(name):
    slot = drawn(name, "padded", **sizes_of(name))[0].inputs["slot"].tolist()
    assert [each > 0 for each in slot] == [False, True, True, False, True, True, False]
    assert {0, -1} < set(slot)
    typical = drawn(name, "typical", **sizes_of(name) | {"B": 40})[0].inputs["slot"].tolist()
    assert len(set(typical)) == 40
    assert min(typical) >= 1


def test_the_least_that_must_move_are_the_batchs_states_and_inputs():
    op = CATALOG.ops["layer"]
    workload = op.workload(Shape(B=8))
    states = 2 * 4 * 8 * 32 * 128 * 128 + 2 * 2 * 8 * 3 * 8192
    assert op.copy_bytes(workload) == states
    assert states < op.traffic_bytes(workload) < 1.02 * states


KERNELS = {
    ("prologue", "heads=qk2_v4"): ("prologue-v1", "prologue-reference"),
    ("prologue", "heads=qk2_v2"): ("prologue-v1:WARPS=1",),
    ("epilogue", "heads=qk2_v4"): ("epilogue-v1", "epilogue-reference"),
    ("epilogue", "heads=qk1_v3"): ("epilogue-v1:WARPS=8",),
    ("layer", "heads=qk2_v4"): ("layer-reference", "layer-chain", "layer-v1", "layer-floor-copy:EACH=4"),
    ("layer", "heads=qk1_v3"): ("layer-v1:WARPS=8",),
    ("layer", "heads=qk1_v1"): ("layer-v1",),
    ("layer", "heads=qk1_v4"): ("layer-v1",),
    ("prologue", "HQ=2 HV=2 K=96 V=192 BETA=2"): ("prologue-v1", "prologue-reference"),
    ("epilogue", "HQ=2 HV=2 K=96 V=192"): ("epilogue-v1",),
    ("layer", "HQ=1 HV=1 K=96 V=192 BETA=2"): ("layer-v1", "layer-chain", "layer-floor-copy:EACH=4"),
}


@pytest.mark.parametrize(
    ("op", "heads", "kernel"), [(*at, each) for at, kernels in KERNELS.items() for each in kernels]
)
def test_kernels_are_right_where_there_is_no_gpu(request, op, heads, kernel):
    assert gate_statuses(request, kernel, "B=3", *heads.split()) == {"ok"}


LAST_WAIT = "  wait_for_cluster();  // all sums are here, and all blocks have read the last inputs\n"
UPDATE = "  store_shifted(channels, has_channels, has_channels && is_mine, inputs);\n"
MINE = "  const bool is_mine = !(is_query || is_key) || thread / SHARE % CLUSTER == rank;\n"


def test_a_layer_that_updates_inputs_before_all_have_read_them_is_found(tmp_path, monkeypatch):
    """layer-v1 whose blocks do not wait for each other's last arrival before they update what all of them read."""
    entry = CATALOG.entries["layer-v1"]
    assert [entry.source.read_text().count(each) for each in (LAST_WAIT, UPDATE, MINE)] == [1, 1, 1]
    moved = (LAST_WAIT, MINE + UPDATE + LAST_WAIT)
    write_changed(entry, "layer-early", tmp_path, (MINE, ""), (UPDATE, ""), moved)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    done = answer("verify", "layer-early", "--gpu", "cpu", "--quick", "--shape", "B=2", "--shape", "heads=qk1_v2")
    assert done.code == 3, done.out + done.err
    assert "no barrier between" in done.out + done.err
