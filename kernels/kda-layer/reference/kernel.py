"""A Kimi Delta Attention layer's decode step in eager torch. Padding updates nothing: it writes slot 0 as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS, OUTPUT_EPS = 1e-6, 1e-5
BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    return bound_to(kda_layer, tensors, shape)


def bound_to(step, t, shape: Shape) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A launch of `kda_layer`, or of what was compiled of it."""
    lower_bound = t.lower_bound if shape.GATE == BOUNDED else None
    return lambda: step(
        t.x, t.conv_weight, t.new_conv_pool, t.slot, t.g, t.b, t.A_log, t.dt_bias, t.new_pool, t.z, t.weight, t.scale,
        lower_bound,
    )  # fmt: skip


def kda_layer(x, conv_weight, conv_pool, slot, g, b, A_log, dt_bias, pool, z, weight, scale, lower_bound):
    """The op as written; `conv_pool` and `pool` are updated in place. With no lower bound, the decay is by softplus."""
    H, _, K = pool.shape[1:]
    place, live = slot.clamp(min=0).long(), (slot > 0)[:, None, None]
    before = conv_pool[place]
    inputs = torch.cat([before, x[:, None]], dim=1)
    # Products and sums, no convolution and no matmul: these may use TF32.
    convolved = F.silu((inputs.float() * conv_weight.transpose(0, 1).flatten(1)).sum(1)).to(x.dtype)
    conv_pool.index_copy_(0, place, torch.where(live, inputs[:, 1:], before))

    q, k, v = convolved.float().unflatten(1, (3, H, K)).unbind(1)
    q, k = normalised(q), normalised(k)
    raw, rate = g.float() + dt_bias, torch.exp(A_log)[:, None]
    nats = -rate * F.softplus(raw) if lower_bound is None else lower_bound * torch.sigmoid(rate * raw)
    beta = torch.sigmoid(b.float())
    states = pool[place]
    decayed = torch.exp(nats)[:, :, None, :] * states.float()
    retrieved = (decayed * k[:, :, None, :]).sum(-1)
    delta = beta[:, :, None] * (v - retrieved)
    updated = decayed + delta[:, :, :, None] * k[:, :, None, :]
    o = (scale * (updated * q[:, :, None, :]).sum(-1)).to(x.dtype).float()
    pool.index_copy_(0, place, torch.where(live[..., None], updated.to(pool.dtype), states))

    y = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + OUTPUT_EPS) * weight * torch.sigmoid(z.float())
    return torch.where(live, y, 0.0).to(x.dtype), conv_pool, pool


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)
