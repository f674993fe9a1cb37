"""Prologue, epilogue and layer at OLMo-Hybrid's sizes: keys of 96, values of 192, and a beta of up to 2."""

from functools import cache

import pytest
import torch
import torch.nn.functional as F
from verified_kernels import gate_statuses

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.declaration import ExactGate
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import is_unequal, roundoff_error

CATALOG = load_catalog(default_roots()[:1])
HEADS, K, V = 2, 96, 192
SIZES = {"HQ": HEADS, "HV": HEADS, "K": K, "V": V, "BETA": 2}
WORKLOADS = {name: CATALOG.ops[name].workload(Shape(B=4, **SIZES)) for name in ("prologue", "layer")}
EPS = 1e-6
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


@cache
def judged(name, scenario):
    """Inputs and scalars, which tests leave as they are; the oracle's outputs and their roundoff."""
    op, workload = CATALOG.ops[name], WORKLOADS[name]
    numerics = load_numerics(op, CATALOG.op_folders[name])
    t, scalars = numerics.make_inputs(workload, 1, "cpu", scenario)
    more = {"workload": workload} if name == "prologue" else {}
    return t, scalars, numerics.oracle(t, scalars, **more), numerics.roundoff(t, scalars, **more)


def heads_of(t, n, beta_limit, dtype):
    """What the recurrence of sequence n takes, a head after the other, and the last inputs after the step."""
    inputs = torch.cat([t["conv_pool"][t["slot"][n]], t["x"][n][:, None]], dim=1)
    channels = F.silu((inputs.to(dtype) * t["conv_weight"].to(dtype)).sum(1))
    heads = []
    for h in range(HEADS):
        q, k = (channels[(first + h) * K : (first + h + 1) * K] for first in (0, HEADS))
        q, k = (row / (row.square().sum() + EPS).sqrt() for row in (q, k))
        v = channels[2 * HEADS * K + h * V : 2 * HEADS * K + (h + 1) * V]
        g = torch.exp(-torch.exp(t["A_log"][h].to(dtype)) * F.softplus(t["a"][n, h].to(dtype) + t["dt_bias"][h]))
        heads.append({"q": q, "k": k, "v": v, "g": g, "beta": beta_limit * torch.sigmoid(t["b"][n, h].to(dtype))})
    return heads, inputs[:, 1:]


def prologue(t, beta_limit, dtype=torch.float64):
    """The op as its docstring has it, a sequence and a head after the other."""
    sizes = {"q": (K,), "k": (K,), "v": (V,), "g": (), "beta": ()}
    found = {name: torch.zeros(len(t["slot"]), HEADS, *size, dtype=dtype) for name, size in sizes.items()}
    conv_pool = t["conv_pool"].clone()
    for n in (t["slot"] > 0).nonzero().flatten().tolist():
        heads, conv_pool[t["slot"][n]] = heads_of(t, n, beta_limit, dtype)
        for h, head in enumerate(heads):
            for name in sizes:
                found[name][n, h] = head[name]
    return {**found, "new_conv_pool": conv_pool}


def layer(t, scale, beta_limit, dtype=torch.float64):
    """The same of this op."""
    y, conv_pool, pool = torch.zeros(t["z"].shape, dtype=dtype), t["conv_pool"].clone(), t["pool"].to(dtype)
    for n in (t["slot"] > 0).nonzero().flatten().tolist():
        heads, conv_pool[t["slot"][n]] = heads_of(t, n, beta_limit, dtype)
        for h, head in enumerate(heads):
            state = head["g"] * pool[t["slot"][n], h]
            state = state + head["beta"] * torch.outer(head["v"] - state @ head["k"], head["k"])
            o = scale * (state @ head["q"])
            y[n, h] = o / (o.square().mean() + EPS).sqrt() * t["weight"].to(dtype) * F.silu(t["z"][n, h].to(dtype))
            pool[t["slot"][n], h] = state
    return {"y": y, "new_conv_pool": conv_pool, "new_pool": pool}


COMPUTED = {"prologue": prologue, "layer": layer}


def failed(name, scenario, found):
    """The outputs that do not pass their gates."""
    _, _, oracle, roundoff = judged(name, scenario)
    dtypes = {spec.name: DTYPES[spec.dtype] for spec in CATALOG.ops[name].outputs}
    wrong = set()
    for gate in CATALOG.ops[name].gates:
        given, right = found[gate.tensor].to(dtypes[gate.tensor]), oracle[gate.tensor]
        if isinstance(gate, ExactGate):
            is_wrong = bool(is_unequal(given, right).any())
        else:
            is_wrong = float(roundoff_error(gate, given, right, roundoff[gate.tensor]).max()) > gate.limit
        wrong |= {gate.tensor} if is_wrong else set()
    return wrong


@pytest.mark.parametrize("scenario", ["padded", "saturated-gates"])
@pytest.mark.parametrize("name", COMPUTED)
def test_the_oracle_is_the_recurrence(name, scenario):
    t, scalars, found, _ = judged(name, scenario)
    assert scalars["beta_limit"] == 2.0
    for tensor, right in COMPUTED[name](t, **scalars).items():
        torch.testing.assert_close(found[tensor], right.double(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "wrong"), [("prologue", {"beta"}), ("layer", {"y", "new_pool"})])
def test_a_limit_of_1_where_it_is_2_fails(name, wrong):
    t, scalars, _, _ = judged(name, "typical")
    for limit, expected in ((2.0, set()), (1.0, wrong)):
        found = COMPUTED[name](t, **{**scalars, "beta_limit": limit}, dtype=torch.float32)
        assert failed(name, "typical", found) == expected


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


KERNELS = {
    "prologue": ("prologue-v1", "prologue-reference"),
    "epilogue": ("epilogue-v1",),
    "layer": ("layer-v1", "layer-chain", "layer-floor-copy:EACH=4"),
}


@pytest.mark.parametrize(("op", "kernel"), [(op, each) for op, kernels in KERNELS.items() for each in kernels])
def test_kernels_are_right_where_there_is_no_gpu(request, op, kernel):
    heads = 1 if op == "layer" else HEADS
    beta = () if op == "epilogue" else ("BETA=2",)
    shapes = ("B=3", f"HQ={heads}", f"HV={heads}", f"K={K}", f"V={V}", *beta)
    assert gate_statuses(request, kernel, *shapes) == {"ok"}
