"""The upstream functions of fla-core: convolution with SiLU, norms. Its cache holds four inputs, of which it drops one.

What it has for the gates of single tokens is inside its recurrence, so that they are torch operations here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from fla.modules.convolution import causal_conv1d_update
from fla.modules.l2norm import l2norm_fwd

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS = 1e-6


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, B, HQ, HV, K, V = tensors, shape.B, shape.HQ, shape.HV, shape.K, shape.V

    def launch() -> tuple[torch.Tensor, ...]:
        place, live = t.slot.clamp(min=0).long(), (t.slot > 0)[:, None]
        before = t.new_conv_pool[place]
        cache = F.pad(before, (1, 0))
        y = causal_conv1d_update(t.x[:, None], cache, weight=t.conv_weight, activation="silu")[0].view(B, -1)
        t.new_conv_pool.index_copy_(0, place, torch.where(live[..., None], cache[..., 1:], before))
        q, k, v = torch.where(live, y, 0.0).split((HQ * K, HQ * K, HV * V), dim=1)
        q, k = (l2norm_fwd(each.reshape(B, HQ, K).contiguous(), EPS)[0] for each in (q, k))
        g = torch.exp(-torch.exp(t.A_log) * F.softplus(t.a.float() + t.dt_bias))
        beta = t.beta_limit * torch.sigmoid(t.b.float())
        g, beta = (torch.where(live, each, 0.0) for each in (g, beta))
        return q, k, v.reshape(B, HV, V), g, beta, t.new_conv_pool

    return launch
