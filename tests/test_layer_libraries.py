"""Prologue, epilogue and layer by fla, with its functions replaced by their mathematics: are they called rightly?"""

import pytest
import torch
import torch.nn.functional as F
from bundled import CATALOG
from library_data import failures_with

from gdnbench.model.workload import Shape

EPS = 1e-6
KERNELS = ("prologue-fla", "epilogue-fla", "layer-fla", "layer-flashinfer")
SCENARIOS = [(name, each) for name in KERNELS for each in CATALOG.entries[name].op.scenarios]


def update_of_fla(x, cache, residual=None, weight=None, bias=None, activation=None):
    """What fla's causal_conv1d_update does: its cache [N, D, 4] is shifted by one, and convolved with what it holds."""
    assert activation == "silu"
    assert residual is bias is None
    assert cache.shape == (x.shape[0], x.shape[2], 4)
    assert cache.is_contiguous()
    assert weight.shape == cache.shape[1:]
    cache.copy_(torch.cat([cache[..., 1:], x[:, 0, :, None]], dim=-1))
    return F.silu((cache.float() * weight.float()).sum(-1))[:, None].to(x.dtype), cache


def norm_of_fla(x, eps):
    assert x.is_contiguous()
    rows = x.float()
    return (rows * torch.rsqrt(rows.square().sum(-1, keepdim=True) + eps)).to(x.dtype), None


def step_of_fla(q, k, v, *, g, beta, A_log, dt_bias, scale, initial_state, allow_neg_eigval=False, **said):
    """What fla's recurrence does, by states [N, HV, V, K]; gates and norms are inside."""
    assert said
    assert all(said.values())
    q, k = (norm_of_fla(each[:, 0].contiguous(), EPS)[0].float() for each in (q, k))
    q, k = (each.repeat_interleave(v.shape[2] // q.shape[1], dim=1) for each in (q, k))
    decay = torch.exp(-torch.exp(A_log) * F.softplus(g[:, 0].float() + dt_bias))
    states = decay[..., None, None] * initial_state
    beta = (2 if allow_neg_eigval else 1) * torch.sigmoid(beta[:, 0].float())
    delta = beta[..., None] * (v[:, 0] - torch.einsum("bhvk,bhk->bhv", states, k))
    states = states + delta[..., None] * k[:, :, None]
    return scale * torch.einsum("bhvk,bhk->bhv", states, q)[:, None].to(v.dtype), states


class NormOfFla:
    def __init__(self, size, eps, device, dtype, activation="swish"):
        self.weight, self.eps = torch.nn.Parameter(torch.ones(size, device=device, dtype=dtype)), eps
        self.gate = {"swish": F.silu, "sigmoid": torch.sigmoid}[activation]

    def requires_grad_(self, wanted):
        self.weight.requires_grad_(wanted)
        return self

    def __call__(self, x, g):
        rows = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        return (rows * self.weight.float() * self.gate(g.float())).to(x.dtype)


def step_of_flashinfer(q, k, v, *, state, A_log, a, dt_bias, b, scale, use_qk_l2norm, initial_state, **said):
    """What FlashInfer's recurrence does on a pool in fp32: entries of -1 give zero and touch nothing."""
    assert state is None
    assert use_qk_l2norm
    place = said.pop("initial_state_indices")
    assert not said
    live = place >= 0
    places = place[live].long()
    o, states = step_of_fla(
        *(each[live] for each in (q, k, v)),
        g=a[live], beta=b[live], A_log=A_log, dt_bias=dt_bias, scale=scale, initial_state=initial_state[places],
        state_v_first=True,
    )  # fmt: skip
    initial_state[places] = states
    output = torch.zeros(v.shape, dtype=v.dtype)
    output[live] = o
    return output, initial_state


LIBRARIES = {
    "fla.modules": {"FusedRMSNormGated": NormOfFla},
    "fla.modules.convolution": {"causal_conv1d_update": update_of_fla},
    "fla.modules.l2norm": {"l2norm_fwd": norm_of_fla},
    "fla.ops.gated_delta_rule": {"fused_recurrent_gated_delta_rule": step_of_fla},
    "flashinfer.gdn_decode": {"gated_delta_rule_decode_pretranspose": step_of_flashinfer},
}


@pytest.mark.parametrize(("name", "scenario"), SCENARIOS)
def test_the_library_is_called_so_that_it_computes_the_op(monkeypatch, name, scenario):
    shape = Shape(B=4, HQ=2, HV=4, K=64, V=64)
    assert failures_with(monkeypatch, CATALOG.entries[name], LIBRARIES, scenario, shape) == []


@pytest.mark.parametrize("name", ["prologue-fla", "layer-fla"])
def test_fla_has_a_beta_up_to_2(monkeypatch, name):
    shape = Shape(B=4, HQ=2, HV=2, K=96, V=192, BETA=2)
    assert failures_with(monkeypatch, CATALOG.entries[name], LIBRARIES, "saturated-gates", shape) == []


def test_flashinfer_knows_neither_a_beta_up_to_2_nor_small_heads():
    entry = CATALOG.entries["layer-flashinfer"]
    shapes = (Shape(), Shape(BETA=2), Shape(K=96, V=192))
    unable = [entry.kernel.unsupported_reason(entry.op.workload(shape)) for shape in shapes]
    assert unable == ["", "FlashInfer's beta has the limit 1", "FlashInfer's heads have at least 128 elements"]
