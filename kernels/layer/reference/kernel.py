"""A layer's decode step in eager torch. Padding updates nothing: it writes slot 0 as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS = 1e-6


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, sizes = tensors, (shape.HQ, shape.HV, shape.V, shape.K)
    return lambda: layer(
        t.x, t.conv_weight, t.new_conv_pool, t.slot, t.a, t.b, t.A_log, t.dt_bias, t.new_pool, t.z, t.weight, t.scale,
        t.beta_limit, sizes,
    )  # fmt: skip


def layer(x, conv_weight, conv_pool, slot, a, b, A_log, dt_bias, pool, z, weight, scale, beta_limit, sizes):
    """The op as written; `conv_pool` and `pool` are updated in place. `sizes` are HQ, HV, V and K."""
    HQ, HV, V, K = sizes
    place, live = slot.clamp(min=0).long(), (slot > 0)[:, None, None]
    before = conv_pool[place]
    inputs = torch.cat([before, x[..., None]], dim=-1)
    # Products and sums, no convolution and no matmul: these may use TF32.
    mixed = F.silu((inputs.float() * conv_weight.float()).sum(-1)).to(x.dtype)
    conv_pool.index_copy_(0, place, torch.where(live, inputs[..., 1:], before))

    q, k, v = mixed.float().split((HQ * K, HQ * K, HV * V), dim=1)
    q, k = (normalised(each.unflatten(1, (HQ, K))).repeat_interleave(HV // HQ, dim=1) for each in (q, k))
    g = torch.exp(-torch.exp(A_log) * F.softplus(a.float() + dt_bias))
    beta = beta_limit * torch.sigmoid(b.float())
    states = pool[place]
    decayed = g[:, :, None, None] * states
    retrieved = (decayed * k[:, :, None, :]).sum(-1)
    delta = beta[:, :, None] * (v.unflatten(1, (HV, V)) - retrieved)
    updated = decayed + delta[:, :, :, None] * k[:, :, None, :]
    o = (scale * (updated * q[:, :, None, :]).sum(-1)).to(x.dtype).float()
    pool.index_copy_(0, place, torch.where(live[..., None], updated, states))

    y = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + EPS) * weight.float() * F.silu(z.float())
    return torch.where(live, y, 0.0).to(x.dtype), conv_pool, pool


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)
