"""Kimi Delta Attention over draft tokens in eager torch, fp32. Padding reads slot 0; what comes of that is dropped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS = 1e-6
BOUNDED = 1
KEPT = {0: slice(-1, None), 1: slice(None), 2: slice(0, 0)}  # tokens whose states are given, by KEEP


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, lower_bound = tensors, tensors.lower_bound if shape.GATE == BOUNDED else None
    inputs = (t.mixed_qkv, t.g, t.b, t.A_log, t.dt_bias, t.pool, t.slot)
    return partial(kda_verify, *inputs, t.scale, lower_bound, t.beta_limit, KEPT[shape.KEEP])


def kda_verify(mixed_qkv, g, b, A_log, dt_bias, pool, slot, scale, lower_bound, beta_limit, kept):
    """The op as written; `kept` is the slice of tokens whose states are given."""
    H, V, K = pool.shape[1:]
    q, k, v = mixed_qkv.float().split((H * K, H * K, H * V), dim=-1)
    q, k = (normalised(each.unflatten(-1, (H, K))) for each in (q, k))
    v = v.unflatten(-1, (H, V))
    x, rate = g.float() + dt_bias, torch.exp(A_log)[:, None]
    decay = torch.exp(-rate * F.softplus(x) if lower_bound is None else lower_bound * torch.sigmoid(rate * x))
    beta = beta_limit * torch.sigmoid(b.float())
    live = (slot > 0)[:, None, None, None]

    # A product and a sum, not a matmul: matmul may use TF32, which the gates do not forgive.
    state, outputs, states = pool[slot.clamp(min=0).long()].float(), [], []
    for t in range(g.shape[1]):
        decayed = decay[:, t, :, None, :] * state
        retrieved = (decayed * k[:, t, :, None, :]).sum(-1)
        delta = beta[:, t, :, None] * (v[:, t] - retrieved)
        state = decayed + delta[..., None] * k[:, t, :, None, :]
        outputs.append(scale * (state * q[:, t, :, None, :]).sum(-1))
        states.append(state)
    output = torch.where(live, torch.stack(outputs, 1), 0.0).to(mixed_qkv.dtype)
    return output, torch.where(live[..., None], torch.stack(states, 1)[:, kept], 0.0).to(pool.dtype)


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)
