"""Kernels of other libraries, each with the library's function replaced by its mathematics: is it called rightly?"""

import pytest
import torch
from bundled import CATALOG
from decode_workloads import decode_at
from library_data import failures_with, load_with
from torch import einsum

from gdnbench.launch import Workspace, load_numerics

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


def load(monkeypatch, name):
    return load_with(monkeypatch, CATALOG.entries[name].source, LIBRARIES[name])


@pytest.mark.parametrize("scenario", DECODE.scenarios)
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_library_is_called_so_that_it_computes_the_op(monkeypatch, name, scenario):
    assert failures_with(monkeypatch, CATALOG.entries[name], LIBRARIES[name], scenario, SMALL.axes) == []


def test_flashinfer_is_given_the_outputs_to_write_and_fla_makes_its_own(monkeypatch):
    workspace = Workspace.make(DECODE, NUMERICS, SMALL, seed=2, device="cpu", scenario="typical")
    workspace.begin(CATALOG.entries["decode-flashinfer"].kernel.in_place)
    for name, given in (("decode-flashinfer", True), ("decode-fla-unfused", False)):
        output, state = load(monkeypatch, name).bind(workspace.namespace, SMALL, None)()
        assert (output is workspace.outputs["output"]) is given
        assert (state is workspace.outputs["new_state"]) is given
        assert state.is_contiguous()


@pytest.mark.parametrize(("name", "extra"), [("decode-fla-unfused", "fla"), ("decode-flashinfer", "flashinfer")])
def test_each_says_how_its_library_is_installed(name, extra):
    (need,) = CATALOG.entries[name].kernel.requires
    assert need.remedy == f"pip install 'gdnbench[{extra}]'"
