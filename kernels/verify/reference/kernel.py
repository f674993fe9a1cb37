"""Gated Delta Net over draft tokens in eager torch, fp32. Padding reads slot 0, and what comes of that is dropped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS = 1e-6


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, sizes = tensors, (shape.HQ, shape.HV, shape.V, shape.K)
    kept = slice(None) if shape.KEEP else slice(-1, None)
    inputs = (t.mixed_qkv, t.a, t.b, t.A_log, t.dt_bias, t.pool, t.slot)
    return partial(verify, *inputs, t.scale, t.beta_limit, sizes, kept)


def verify(mixed_qkv, a, b, A_log, dt_bias, pool, slot, scale, beta_limit, sizes, kept):
    """The op as written. `sizes` are HQ, HV, V and K; `kept` is the slice of tokens whose states are given."""
    HQ, HV, V, K = sizes
    q, k, v = mixed_qkv.float().split((HQ * K, HQ * K, HV * V), dim=-1)
    q, k = (normalised(each.unflatten(-1, (HQ, K))).repeat_interleave(HV // HQ, dim=-2) for each in (q, k))
    v = v.unflatten(-1, (HV, V))
    g = torch.exp(-torch.exp(A_log) * F.softplus(a.float() + dt_bias))
    beta = beta_limit * torch.sigmoid(b.float())
    live = (slot > 0)[:, None, None, None]

    # A product and a sum, not a matmul: matmul may use TF32, which the gates do not forgive.
    state, outputs, states = pool[slot.clamp(min=0).long()].float(), [], []
    for t in range(a.shape[1]):
        decayed = g[:, t, :, None, None] * state
        retrieved = (decayed * k[:, t, :, None, :]).sum(-1)
        delta = beta[:, t, :, None] * (v[:, t] - retrieved)
        state = decayed + delta[..., None] * k[:, t, :, None, :]
        outputs.append(scale * (state * q[:, t, :, None, :]).sum(-1))
        states.append(state)
    output = torch.where(live, torch.stack(outputs, 1), 0.0).to(mixed_qkv.dtype)
    return output, torch.where(live[..., None], torch.stack(states[kept], 1), 0.0).to(pool.dtype)


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)
