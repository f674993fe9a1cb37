"""What surrounds the recurrence, and a whole layer: oracles are the mathematics, and nothing wrong passes the gates."""

from functools import cache

import pytest
import torch
import torch.nn.functional as F
from faults import answer
from verified_kernels import gate_statuses

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.declaration import ExactGate
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import is_unequal, roundoff_error

CATALOG = load_catalog(default_roots()[:1])
SIZES = {"HQ": 2, "HV": 4, "K": 64, "V": 64}
OLMO = {"HQ": 2, "HV": 2, "K": 96, "V": 192, "BETA": 2}
"""Sizes of OLMo-Hybrid's heads, whose beta is at most 2."""
EPS = 1e-6
CONVOLUTION = (
    "taps are reversed", "the newest input is missing", "the newest input twice", "SiLU before the convolution",
    "no SiLU", "the next sequence's inputs", "inputs are not shifted", "inputs are shifted the other way",
    "inputs of padding are shifted", "padding counts from the end of the pool", "the convolved value is kept",
)  # fmt: skip
RECURRENCE = (
    "queries and keys exchanged", "keys are not normalised", "normalised before SiLU", "no epsilon in a norm",
    "epsilon beside the norm", "key heads in turn", "values of the next head", "padding writes its output",
    "softplus without its bias", "gates exchanged",
)  # fmt: skip
PROLOGUE = (*CONVOLUTION, *(each for each in RECURRENCE if each != "key heads in turn"))
EPILOGUE = (
    "the gate before the norm", "the weight is forgotten", "one plus the weight", "the sum instead of the mean",
    "epsilon beside the root", "no epsilon", "sigmoid instead of SiLU", "the mean over all heads",
    "the mean is taken off",
)  # fmt: skip
LAYER = (
    *CONVOLUTION, *RECURRENCE, *EPILOGUE, "the state in bf16", "padding updates slot 0", "the next sequence's state",
    "the state before the update is read", "no decay", "no scale", "another slot is cleared",
    "one element of the state a hundredth off",
)  # fmt: skip


def numerics_of(op):
    return load_numerics(CATALOG.ops[op], CATALOG.op_folders[op])


def workload(op, batch=7, olmo=False):
    return CATALOG.ops[op].workload(Shape(B=batch, **(OLMO if olmo else SIZES)))


@cache
def drawn(op, scenario, batch=7, seed=1, olmo=False):
    """Inputs and scalars, which tests leave as they are."""
    return numerics_of(op).make_inputs(workload(op, batch, olmo), seed, "cpu", scenario)


@cache
def expected(op, scenario, seed=1, olmo=False):
    """The oracle's outputs and their roundoff."""
    t, scalars = drawn(op, scenario, seed=seed, olmo=olmo)
    sizes = {"workload": workload(op, olmo=olmo)} if op == "prologue" else {}
    return numerics_of(op).oracle(t, scalars, **sizes), numerics_of(op).roundoff(t, scalars, **sizes)


def to_bf16(rows):
    return rows.bfloat16().to(rows.dtype)


def as_is(rows):
    return rows


def convolution(t, mistake, dtype):
    """SiLU of the convolution, [B, mixed], and the pool after it."""
    slot = t["slot"].long()
    live = slot > 0
    read = slot.roll(1) if mistake == "the next sequence's inputs" else slot
    before = t["conv_pool"][read.clamp(min=0)].to(dtype)
    x, weight = t["x"].to(dtype), t["conv_weight"].to(dtype)
    inputs = torch.cat([before, x[..., None]], dim=-1)
    used = inputs
    if mistake == "the newest input is missing":
        used = torch.cat([torch.zeros_like(before[..., :1]), before], dim=-1)
    if mistake == "the newest input twice":
        used = torch.cat([before[..., 1:], x[..., None], x[..., None]], dim=-1)
    if mistake == "SiLU before the convolution":
        used = F.silu(used)
    if mistake == "taps are reversed":
        weight = weight.flip(1)
    c = (used * weight).sum(-1)
    y = c if mistake in {"no SiLU", "SiLU before the convolution", "normalised before SiLU"} else F.silu(c)
    pool = t["conv_pool"].clone()
    kept = inputs[..., 1:]
    if mistake == "inputs are not shifted":
        kept = torch.cat([before[..., :2], x[..., None]], dim=-1)
    if mistake == "inputs are shifted the other way":
        kept = torch.cat([x[..., None], before[..., :2]], dim=-1)
    if mistake == "the convolved value is kept":
        kept = torch.cat([inputs[..., 1:3], y[..., None]], dim=-1)
    written = torch.ones_like(live) if mistake.startswith(("inputs of padding", "padding counts")) else live
    place = slot.clamp(min=0) if mistake == "inputs of padding are shifted" else slot
    pool[place[written]] = kept[written].bfloat16()
    return y, pool


def split(y, sizes, mistake, heads_in_turn=False):
    """Normalised queries and keys, and values."""
    HQ, HV, K, V = sizes
    q, k, v = y.split((HQ * K, HQ * K, HV * V), dim=1)
    q, k, v = q.unflatten(1, (HQ, K)), k.unflatten(1, (HQ, K)), v.unflatten(1, (HV, V))
    if mistake == "queries and keys exchanged":
        q, k = k, q
    if mistake == "values of the next head":
        v = v.roll(1, dims=1)

    def normalised(rows):
        squares = rows.square().sum(-1, keepdim=True)
        if mistake == "no epsilon in a norm":
            return rows / squares.clamp(min=1e-30).sqrt()
        return rows / (squares.sqrt() + EPS if mistake == "epsilon beside the norm" else (squares + EPS).sqrt())

    q, k = normalised(q), k if mistake == "keys are not normalised" else normalised(k)
    if mistake == "normalised before SiLU":
        q, k, v = F.silu(q), F.silu(k), F.silu(v)
    return q, k, v


def gates(t, scalars, mistake, dtype):
    a, b = t["a"].to(dtype), t["b"].to(dtype)
    if mistake == "gates exchanged":
        a, b = b, a
    x = a if mistake == "softplus without its bias" else a + t["dt_bias"].to(dtype)
    return torch.exp(-torch.exp(t["A_log"].to(dtype)) * F.softplus(x)), scalars["beta_limit"] * torch.sigmoid(b)


def where_live(t, mistake, rows):
    live = (t["slot"] > 0).reshape(-1, *(1,) * (rows.dim() - 1))
    return rows if mistake == "padding writes its output" else torch.where(live, rows, 0.0)


def prologue(t, scalars, mistake="", dtype=torch.float32, rounded=as_is):
    """The outputs, with a mistake if one is asked for; `rounded` is applied to what the convolution leaves."""
    y, pool = convolution(t, mistake, dtype)
    sizes = OLMO if len(t["dt_bias"]) == OLMO["HV"] else SIZES
    q, k, v = split(rounded(y), tuple(sizes[name] for name in ("HQ", "HV", "K", "V")), mistake)
    g, beta = gates(t, scalars, mistake, dtype)
    outputs = {"q": q, "k": k, "v": v, "g": g, "beta": beta}
    outputs = {name: where_live(t, mistake, rows) for name, rows in outputs.items()}
    return {**outputs, "new_conv_pool": pool}


def gated_norm(o, z, weight, mistake):
    z, weight = z.to(o.dtype), weight.to(o.dtype)
    gate = torch.sigmoid(z) if mistake == "sigmoid instead of SiLU" else F.silu(z)
    if mistake == "the gate before the norm":
        o, gate = o * gate, torch.ones_like(gate)
    if mistake == "the mean is taken off":
        o = o - o.mean(-1, keepdim=True)
    mean = o.square().mean((1, 2) if mistake == "the mean over all heads" else -1, keepdim=True)
    if mistake == "the sum instead of the mean":
        mean = mean * o.shape[-1]
    root = {"epsilon beside the root": mean.sqrt() + EPS, "no epsilon": mean.clamp(min=1e-30).sqrt()}.get(
        mistake, (mean + EPS).sqrt()
    )
    weight = {"the weight is forgotten": torch.ones_like(weight), "one plus the weight": 1 + weight}.get(
        mistake, weight
    )
    return o / root * weight * gate


def epilogue(t, scalars, mistake="", dtype=torch.float32, rounded=as_is):
    del scalars, rounded
    return {"y": gated_norm(t["o"].to(dtype), t["z"], t["weight"], mistake)}


def layer(t, scalars, mistake="", dtype=torch.float32, rounded=as_is):
    """The outputs; `rounded` is applied to what one launch would hand to the next."""
    HV, V, K = t["pool"].shape[1:]
    HQ = (t["x"].shape[1] - HV * V) // (2 * K)
    y, conv_pool = convolution(t, mistake, dtype)
    q, k, v = split(rounded(y), (HQ, HV, K, V), mistake)
    q, k = rounded(q), rounded(k)
    spread = (lambda x: x.repeat(1, HV // HQ, 1)) if mistake == "key heads in turn" else None
    spread = spread or (lambda x: x.repeat_interleave(HV // HQ, dim=1))
    q, k = spread(q), spread(k)
    slot = t["slot"].long()
    if mistake == "padding updates slot 0":
        slot = slot.clamp(min=0)
    if mistake == "the next sequence's state":
        slot = slot.roll(1)
    live = slot >= 0 if mistake == "padding updates slot 0" else slot > 0
    pool = t["pool"].to(dtype).clone()
    states = pool[slot]
    g, beta = gates(t, scalars, mistake, dtype)
    decayed = states if mistake == "no decay" else g[..., None, None] * states
    delta = beta[..., None] * (v - torch.einsum("bhvk,bhk->bhv", decayed, k))
    updated = decayed + delta[..., None] * k[:, :, None]
    if mistake == "the state in bf16":
        updated = to_bf16(updated)
    read = decayed if mistake == "the state before the update is read" else updated
    o = torch.einsum("bhvk,bhk->bhv", read, q) * (1.0 if mistake == "no scale" else scalars["scale"])
    result = where_live(t, mistake, gated_norm(rounded(o), t["z"], t["weight"], mistake))
    pool[slot[live]] = updated[live]
    if mistake == "another slot is cleared":
        pool[(set(range(1, len(pool))) - set(slot.tolist())).pop()] = 0.0
    if mistake == "one element of the state a hundredth off":
        pool[slot[int(live.nonzero()[0])], 1, 2, 3] *= 1.01
    return {"y": result, "new_conv_pool": conv_pool, "new_pool": pool}


COMPUTED = {"prologue": prologue, "epilogue": epilogue, "layer": layer}
SCENARIOS = [(name, scenario) for name in COMPUTED for scenario in CATALOG.ops[name].scenarios]


def worst(name, scenario, seed=1, **how):
    """Of all gates, as a share of the limit."""
    return max(errors(name, scenario, drawn(name, scenario, seed=seed)[1], seed, **how).values())


def errors(name, scenario, scalars, seed=1, olmo=False, **how):
    """By output, as a share of the limit."""
    op, (t, _) = CATALOG.ops[name], drawn(name, scenario, seed=seed, olmo=olmo)
    dtypes = {spec.name: {"bf16": torch.bfloat16, "fp32": torch.float32}[spec.dtype] for spec in op.outputs}
    outputs = {key: rows.to(dtypes[key]) for key, rows in COMPUTED[name](t, scalars, **how).items()}
    oracle, sizes = expected(name, scenario, seed, olmo)
    found = {}
    for gate in op.gates:
        given, right = outputs[gate.tensor], oracle[gate.tensor]
        if isinstance(gate, ExactGate):
            found[gate.tensor] = float("inf") if is_unequal(given, right).any() else 0.0
        else:
            found[gate.tensor] = float(roundoff_error(gate, given, right, sizes[gate.tensor]).max()) / gate.limit
    return found


@pytest.mark.parametrize(
    ("name", "scenario", "olmo"),
    [
        *((*each, False) for each in SCENARIOS),
        *((name, each, True) for name in ("prologue", "layer") for each in ("padded", "saturated-gates")),
    ],
)
def test_the_oracle_is_the_mathematics(name, scenario, olmo):
    t, scalars = drawn(name, scenario, olmo=olmo)
    found, _ = expected(name, scenario, olmo=olmo)
    for key, right in COMPUTED[name](t, scalars, dtype=torch.float64).items():
        torch.testing.assert_close(found[key], right.double(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "scenario"), SCENARIOS)
def test_fp32_passes_by_far(name, scenario, seed):
    assert worst(name, scenario, seed) < 0.3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "scenario"), [each for each in SCENARIOS if each[0] != "epilogue"])
def test_a_chain_that_rounds_to_bf16_between_launches_passes(name, scenario, seed):
    assert worst(name, scenario, seed, rounded=to_bf16) < 1


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        *(("prologue", mistake) for mistake in PROLOGUE),
        *(("epilogue", mistake) for mistake in EPILOGUE),
        *(("layer", mistake) for mistake in LAYER),
    ],
)
def test_a_mistake_fails_in_some_scenario(name, mistake):
    found = [worst(name, scenario, mistake=mistake) for scenario in CATALOG.ops[name].scenarios]
    assert max(found) > 1, found


@pytest.mark.parametrize(("name", "wrong"), [("prologue", {"beta"}), ("layer", {"y", "new_pool"})])
def test_a_limit_of_1_where_it_is_2_fails(name, wrong):
    _, scalars = drawn(name, "typical", olmo=True)
    for limit, failed in ((2.0, set()), (1.0, wrong)):
        found = errors(name, "typical", scalars | {"beta_limit": limit}, olmo=True)
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
    slot = drawn(name, "padded", batch=7)[0]["slot"].tolist()
    assert [each > 0 for each in slot] == [False, True, True, False, True, True, False]
    assert {0, -1} < set(slot)
    typical = drawn(name, "typical", batch=40)[0]["slot"].tolist()
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
    folder = tmp_path / "layer" / "early"
    folder.mkdir(parents=True)
    early = entry.source.read_text()
    assert [early.count(each) for each in (LAST_WAIT, UPDATE, MINE)] == [1, 1, 1]
    moved = early.replace(MINE, "").replace(UPDATE, "").replace(LAST_WAIT, MINE + UPDATE + LAST_WAIT)
    (folder / "kernel.cu").write_text(moved)
    declared = (entry.folder / "variant.py").read_text().replace('name="layer-v1"', 'name="layer-early"')
    (folder / "variant.py").write_text(declared)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    done = answer("verify", "layer-early", "--gpu", "cpu", "--shape", "B=2", "--shape", "heads=qk1_v2")
    assert done.code == 3, done.out + done.err
    assert "no barrier between" in done.out + done.err
