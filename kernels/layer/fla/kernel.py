"""The upstream functions of fla-core one after the other; its convolution's cache holds four inputs, and drops one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from fla.modules import FusedRMSNormGated
from fla.modules.convolution import causal_conv1d_update
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

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
        states = t.new_pool[place]
        o, updated = fused_recurrent_gated_delta_rule(
            q.reshape(B, 1, HQ, K),
            k.reshape(B, 1, HQ, K),
            v.reshape(B, 1, HV, V),
            g=t.a[:, None],
            beta=t.b[:, None],
            A_log=t.A_log,
            dt_bias=t.dt_bias,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            allow_neg_eigval=shape.BETA == 2,
            use_qk_l2norm_in_kernel=True,
            scale=t.scale,
            initial_state=states,
            output_final_state=True,
            state_v_first=True,
        )
        t.new_pool.index_copy_(0, place, torch.where(live[..., None], updated, states))
        return torch.where(live, norm(o[:, 0], t.z), 0.0), t.new_conv_pool, t.new_pool

    return launch
