"""Inputs and oracle of `decode` against the formula, and libraries, each function replaced by its mathematics."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from bundled import CATALOG
from decode_workloads import decode_at
from library_data import failures_with, load_with
from torch import einsum

from gdnbench.launch import Workspace, load_numerics

DECODE = CATALOG.ops["decode"]
NUMERICS = load_numerics(DECODE, CATALOG.op_folders["decode"])
WORKLOAD = decode_at(B=5, HQ=2, HV=4, K=32, V=16)
GATES = decode_at(B=64, K=1, V=8)  # many gates beside a small state


def naive(t, scale):
    """One loop per index and one statement per formula, in Python floats; shares no code with the oracle."""
    batches, heads, rows, columns = t["state"].shape
    query_heads = t["q"].shape[2]
    t = {name: tensor.double().numpy() for name, tensor in t.items()}
    output, new_state = np.empty((batches, 1, heads, rows)), np.empty((batches, heads, rows, columns))
    for n, h in product(range(batches), range(heads)):
        source = h // (heads // query_heads)
        x = float(t["a"][n, 0, h] + t["dt_bias"][h])
        softplus = x if x > 20 else math.log1p(math.exp(x))
        g = math.exp(-math.exp(t["A_log"][h]) * softplus)
        beta = 1 / (1 + math.exp(-t["b"][n, 0, h]))
        q, k, v, s = t["q"][n, 0, source], t["k"][n, 0, source], t["v"][n, 0, h], t["state"][n, h]
        for i in range(rows):
            retrieved = sum(g * s[i, j] * k[j] for j in range(columns))
            for j in range(columns):
                new_state[n, h, i, j] = g * s[i, j] + beta * (v[i] - retrieved) * k[j]
            output[n, 0, h, i] = scale * sum(new_state[n, h, i, j] * q[j] for j in range(columns))
    return {"output": output, "new_state": new_state}


@pytest.mark.parametrize("scenario", DECODE.scenarios)
@pytest.mark.parametrize("heads", [(1, 2), (2, 2), (2, 6)])
def test_the_oracle_is_the_formula(scenario, heads):
    workload = decode_at(B=2, HQ=heads[0], HV=heads[1], K=4, V=3)
    tensors, scalars = NUMERICS.make_inputs(workload, 7, "cpu", scenario)
    found = NUMERICS.oracle(tensors, scalars)
    for name, expected in naive(tensors, scalars["scale"]).items():
        assert found[name].dtype == torch.float64
        np.testing.assert_allclose(found[name].numpy(), expected, rtol=1e-12, atol=1e-14)


def test_the_oracle_does_not_change_its_inputs():
    tensors, scalars = NUMERICS.make_inputs(WORKLOAD, 1, "cpu", "typical")
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    NUMERICS.oracle(tensors, scalars)
    assert all(torch.equal(tensors[name], before[name]) for name in tensors)


@pytest.mark.parametrize("scenario", DECODE.scenarios)
def test_inputs_keep_the_ops_contract(scenario):
    tensors, scalars = NUMERICS.make_inputs(WORKLOAD, 1, "cpu", scenario)
    dtypes = {"bf16": torch.bfloat16, "fp32": torch.float32}
    assert {name: (tuple(t.shape), t.dtype) for name, t in tensors.items()} == {
        spec.name: (spec.sizes(DECODE.named_sizes(WORKLOAD)), dtypes[spec.dtype]) for spec in DECODE.inputs
    }
    assert set(scalars) == set(DECODE.scalars)
    assert scalars["scale"] == pytest.approx(1 / math.sqrt(WORKLOAD.K))
    assert all(tensor.is_contiguous() and tensor.isfinite().all() for tensor in tensors.values())


@pytest.mark.parametrize("scenario", DECODE.scenarios)
def test_a_seed_means_the_same_numbers_and_another_seed_others(scenario):
    first, again, other = (NUMERICS.make_inputs(WORKLOAD, seed, "cpu", scenario)[0] for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    constant = {"b"} if scenario == "zero-b" else set()
    assert all(not torch.equal(first[name], other[name]) for name in first.keys() - constant)


def test_drawing_inputs_leaves_torchs_own_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    NUMERICS.make_inputs(WORKLOAD, 5, "cpu", "large-state")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", ["q", "k"])
def test_queries_and_keys_have_unit_length(name):
    tensor = NUMERICS.make_inputs(WORKLOAD, 1, "cpu", "typical")[0][name]
    assert tensor.double().norm(dim=-1).numpy() == pytest.approx(1.0, abs=4e-3)


def test_decay_rates_and_time_steps_lie_in_their_ranges():
    workload = decode_at(HQ=1, HV=1000, K=1, V=1)
    tensors, _ = NUMERICS.make_inputs(workload, 1, "cpu", "typical")
    rate, step = tensors["A_log"].double().exp(), torch.nn.functional.softplus(tensors["dt_bias"].double())
    assert 1 - 1e-5 <= rate.min() < 1.2
    assert 15.5 < rate.max() <= 16 + 1e-4
    assert 1e-3 - 1e-7 <= step.min() < 2e-3
    assert 0.099 < step.max() <= 0.1 + 1e-6


def test_typical_values_and_gates_are_standard_normal():
    tensors, _ = NUMERICS.make_inputs(GATES, 1, "cpu", "typical")
    for name in ("v", "a", "b"):
        assert float(tensors[name].float().mean()) == pytest.approx(0, abs=0.2)
        assert float(tensors[name].float().std()) == pytest.approx(1, abs=0.2)


def test_a_typical_state_is_the_trace_of_a_few_keys_and_not_noise():
    """Each step of the recurrence adds one outer product; noise would have full rank."""
    tensors, _ = NUMERICS.make_inputs(decode_at(), 1, "cpu", "typical")
    state = tensors["state"].double()
    assert float(state.abs().max()) > 0.1
    assert 1 <= int(torch.linalg.matrix_rank(state, rtol=1e-4).max()) < 32


def test_saturated_gates_are_open_or_shut():
    tensors, _ = NUMERICS.make_inputs(GATES, 1, "cpu", "saturated-gates")
    for name in ("a", "b"):
        assert set(tensors[name].float().unique().tolist()) == {-30.0, 30.0}


def test_a_large_state_is_about_a_thousand():
    tensors, _ = NUMERICS.make_inputs(decode_at(), 1, "cpu", "large-state")
    assert float(tensors["state"].std()) == pytest.approx(1e3, rel=0.05)


def test_zero_b_writes_exactly_half():
    tensors, _ = NUMERICS.make_inputs(decode_at(), 1, "cpu", "zero-b")
    assert not tensors["b"].any()


def test_scenarios_differ_only_in_what_they_are_about():
    typical, saturated = (NUMERICS.make_inputs(WORKLOAD, 9, "cpu", name)[0] for name in ("typical", "saturated-gates"))
    assert {name for name in typical if not torch.equal(typical[name], saturated[name])} == {"a", "b"}


DECODE = CATALOG.ops["decode"]
NUMERICS = load_numerics(DECODE, CATALOG.op_folders["decode"])
SMALL = decode_at(B=3, HQ=2, HV=4, K=32, V=16)  # K and V differ, so that a state of the wrong layout does not fit


def step(q, k, v, k_first, g, beta, scale):
    """One step on a k-first state [B, HV, K, V] in fp32, g the log of the decay, g and beta [B, 1, HV]."""
    share = v.shape[2] // q.shape[2]
    q, k = (tensor[:, 0].float().repeat_interleave(share, dim=1) for tensor in (q, k))
    state = torch.exp(g[:, 0])[..., None, None] * k_first
    delta = beta[:, 0, :, None] * (v[:, 0].float() - (state * k[..., None]).sum(-2))
    state = state + einsum("bhk,bhv->bhkv", k, delta)
    return (scale * (state * q[..., None]).sum(-2))[:, None].to(v.dtype), state


def fla_step(q, k, v, *, g, beta, scale, initial_state, output_final_state, state_v_first):
    batches, _, heads, rows = v.shape
    assert output_final_state
    assert not state_v_first
    assert initial_state.shape == (batches, heads, k.shape[-1], rows)
    assert initial_state.is_contiguous()
    assert g.dtype == beta.dtype == torch.float32
    assert g.shape == beta.shape == (batches, 1, heads)
    return step(q, k, v, initial_state, g, beta, scale)


def flashinfer_step(q, k, v, state, A_log, a, dt_bias, b, scale, output, use_qk_l2norm):
    assert not use_qk_l2norm
    g = -torch.exp(A_log) * torch.nn.functional.softplus(a.float() + dt_bias)
    written, k_first = step(q, k, v, state.transpose(-1, -2), g, torch.sigmoid(b.float()), scale)
    return output.copy_(written), state.copy_(k_first.transpose(-1, -2))


LIBRARIES = {
    "decode-fla-unfused": {"fla.ops.gated_delta_rule": {"fused_recurrent_gated_delta_rule": fla_step}},
    "decode-flashinfer": {"flashinfer.gdn_decode": {"gated_delta_rule_decode_pretranspose": flashinfer_step}},
}


@pytest.mark.parametrize("scenario", DECODE.scenarios)
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_library_is_called_so_that_it_computes_the_op(monkeypatch, name, scenario):
    assert failures_with(monkeypatch, CATALOG.entries[name], LIBRARIES[name], scenario, SMALL.axes) == []


def test_flashinfer_is_given_the_outputs_to_write_and_fla_makes_its_own(monkeypatch):
    workspace = Workspace.make(DECODE, NUMERICS, SMALL, seed=2, device="cpu", scenario="typical")
    workspace.begin(CATALOG.entries["decode-flashinfer"].kernel.in_place)
    for name, given in (("decode-flashinfer", True), ("decode-fla-unfused", False)):
        kernel = load_with(monkeypatch, CATALOG.entries[name].source, LIBRARIES[name])
        output, state = kernel.bind(workspace.namespace, SMALL, None)()
        assert (output is workspace.outputs["output"]) is given
        assert (state is workspace.outputs["new_state"]) is given
        assert state.is_contiguous()


@pytest.mark.parametrize(("name", "extra"), [("decode-fla-unfused", "fla"), ("decode-flashinfer", "flashinfer")])
def test_each_says_how_its_library_is_installed(name, extra):
    (need,) = CATALOG.entries[name].kernel.requires
    assert need.remedy == f"pip install 'gdnbench[{extra}]'"
