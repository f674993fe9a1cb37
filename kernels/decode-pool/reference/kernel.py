"""The decode step over a pool in eager torch, fp32. Padding updates nothing: it writes slot 0 as it was."""

from __future__ import annotations

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
    return lambda: decode_pool(
        t.mixed_qkv, t.a, t.b, t.A_log, t.dt_bias, t.new_pool, t.slot, t.scale, t.beta_limit, sizes
    )


def decode_pool(mixed_qkv, a, b, A_log, dt_bias, pool, slot, scale, beta_limit, sizes):
    """The op as written; `pool` is updated in place. `sizes` are HQ, HV, V and K."""
    HQ, HV, V, K = sizes
    q, k, v = mixed_qkv.float().split((HQ * K, HQ * K, HV * V), dim=1)
    q, k = (normalised(each.unflatten(1, (HQ, K))).repeat_interleave(HV // HQ, dim=1) for each in (q, k))
    g = torch.exp(-torch.exp(A_log) * F.softplus(a.float() + dt_bias))
    beta = beta_limit * torch.sigmoid(b.float())
    place, live = slot.clamp(min=0).long(), (slot > 0)[:, None, None]

    # A product and a sum, not a matmul: matmul may use TF32, which the gates do not forgive.
    states = pool[place]
    decayed = g[:, :, None, None] * states.float()
    retrieved = (decayed * k[:, :, None, :]).sum(-1)
    delta = beta[:, :, None] * (v.unflatten(1, (HV, V)) - retrieved)
    updated = decayed + delta[:, :, :, None] * k[:, :, None, :]
    output = scale * (updated * q[:, :, None, :]).sum(-1)
    pool.index_copy_(0, place, torch.where(live[..., None], updated.to(pool.dtype), states))
    return torch.where(live, output, 0.0).to(mixed_qkv.dtype), pool


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)
