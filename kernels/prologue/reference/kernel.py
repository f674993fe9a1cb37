"""What comes before the recurrence, in eager torch. Padding updates nothing: it writes slot 0 as it was."""

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
    return lambda: prologue(
        t.x, t.conv_weight, t.new_conv_pool, t.slot, t.a, t.b, t.A_log, t.dt_bias, t.beta_limit, sizes
    )


def prologue(x, conv_weight, conv_pool, slot, a, b, A_log, dt_bias, beta_limit, sizes):
    """The op as written; `conv_pool` is updated in place. `sizes` are HQ, HV, V and K."""
    HQ, HV, V, K = sizes
    place, live = slot.clamp(min=0).long(), (slot > 0)[:, None]
    before = conv_pool[place]
    inputs = torch.cat([before, x[..., None]], dim=-1)
    # A product and a sum, not a convolution: that may use TF32.
    y = F.silu((inputs.float() * conv_weight.float()).sum(-1)).to(x.dtype)
    conv_pool.index_copy_(0, place, torch.where(live[..., None], inputs[..., 1:], before))

    q, k, v = torch.where(live, y, 0.0).split((HQ * K, HQ * K, HV * V), dim=1)
    q, k = (normalised(each.unflatten(1, (HQ, K)).float()).to(x.dtype) for each in (q, k))
    g = torch.exp(-torch.exp(A_log) * F.softplus(a.float() + dt_bias))
    beta = beta_limit * torch.sigmoid(b.float())
    return q, k, v.unflatten(1, (HV, V)), torch.where(live, g, 0.0), torch.where(live, beta, 0.0), conv_pool


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)
