"""Kimi Delta Attention's decode step in eager torch, fp32. Padding updates nothing: it writes slot 0 as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS = 1e-6
BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    return bound_to(kda_decode, tensors, shape)


def bound_to(step, t, shape: Shape) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """A launch of `kda_decode`, or of what was compiled of it."""
    lower_bound = t.lower_bound if shape.GATE == BOUNDED else None
    return lambda: step(
        t.mixed_qkv, t.g, t.b, t.A_log, t.dt_bias, t.new_pool, t.slot, t.scale, lower_bound, t.beta_limit
    )


def kda_decode(mixed_qkv, g, b, A_log, dt_bias, pool, slot, scale, lower_bound, beta_limit):
    """The op as written; `pool` is updated in place. Without a lower bound, the decay is that by softplus."""
    H, V, K = pool.shape[1:]
    q, k, v = mixed_qkv.float().split((H * K, H * K, H * V), dim=1)
    q, k = (normalised(each.unflatten(1, (H, K))) for each in (q, k))
    x, rate = g.float() + dt_bias, torch.exp(A_log)[:, None]
    nats = -rate * F.softplus(x) if lower_bound is None else lower_bound * torch.sigmoid(rate * x)
    beta = beta_limit * torch.sigmoid(b.float())
    place, live = slot.clamp(min=0).long(), (slot > 0)[:, None, None]

    # A product and a sum, not a matmul: matmul may use TF32, which the gates do not forgive.
    states = pool[place]
    decayed = torch.exp(nats)[:, :, None, :] * states.float()
    retrieved = (decayed * k[:, :, None, :]).sum(-1)
    delta = beta[:, :, None] * (v.unflatten(1, (H, V)) - retrieved)
    updated = decayed + delta[:, :, :, None] * k[:, :, None, :]
    output = scale * (updated * q[:, :, None, :]).sum(-1)
    pool.index_copy_(0, place, torch.where(live[..., None], updated.to(pool.dtype), states))
    return torch.where(live, output, 0.0).to(mixed_qkv.dtype), pool


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)
