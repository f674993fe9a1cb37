"""The upstream functions of fla-core and flashinfer one after the other; FlashInfer knows padding by -1 alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from fla.modules import FusedRMSNormGated
from fla.modules.convolution import causal_conv1d_update
from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS = 1e-6


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, B, HQ, HV, K, V = tensors, shape.B, shape.HQ, shape.HV, shape.K, shape.V
    norm = FusedRMSNormGated(V, eps=EPS, device=t.x.device, dtype=t.weight.dtype).requires_grad_(False)
    norm.weight.data = t.weight

    def launch() -> tuple[torch.Tensor, ...]:
        place, live = t.slot.clamp(min=0).long(), (t.slot > 0)[:, None, None]
        before = t.new_conv_pool[place]
        cache = F.pad(before, (1, 0))
        mixed = causal_conv1d_update(t.x[:, None], cache, weight=t.conv_weight, activation="silu")[0].view(B, -1)
        t.new_conv_pool.index_copy_(0, place, torch.where(live, cache[..., 1:], before))

        q, k, v = mixed.split((HQ * K, HQ * K, HV * V), dim=1)
        o, _ = gated_delta_rule_decode_pretranspose(
            q.view(B, 1, HQ, K),
            k.view(B, 1, HQ, K),
            v.view(B, 1, HV, V),
            state=None,
            A_log=t.A_log,
            a=t.a[:, None],
            dt_bias=t.dt_bias,
            b=t.b[:, None],
            scale=t.scale,
            use_qk_l2norm=True,
            initial_state=t.new_pool,
            initial_state_indices=torch.where(t.slot > 0, t.slot, -1),
        )
        return torch.where(live, norm(o[:, 0].contiguous(), t.z), 0.0), t.new_conv_pool, t.new_pool

    return launch
