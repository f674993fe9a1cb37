"""The upstream functions of fla-core one after the other; its convolution's cache holds four inputs, and drops one.

The recurrence is the function below the public one, which alone knows a pool. Its kernel knows no padding, so that
padding updates slot 0, which launches around it make good; and it takes q, k and v to be dense. The convolution takes a
channel's weights to lie together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from fla.modules import FusedRMSNormGated
from fla.modules.convolution import causal_conv1d_update
from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS = 1e-5
BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, B, H, K = tensors, shape.B, shape.H, shape.K
    norm = FusedRMSNormGated(K, eps=EPS, activation="sigmoid", device=t.x.device, dtype=t.weight.dtype)
    norm = norm.requires_grad_(False)
    norm.weight.data = t.weight

    def launch() -> tuple[torch.Tensor, ...]:
        place, live = t.slot.clamp(min=0), (t.slot > 0)[:, None, None]
        before = t.new_conv_pool[place]
        cache = F.pad(before.transpose(1, 2), (1, 0)).contiguous()
        weight = t.conv_weight.transpose(1, 2).reshape(-1, t.conv_weight.shape[1])
        convolved = causal_conv1d_update(t.x[:, None], cache, weight=weight, activation="silu")[0]
        t.new_conv_pool.index_copy_(0, place.long(), torch.where(live, cache[..., 1:].transpose(1, 2), before))

        q, k, v = (each.contiguous() for each in convolved.view(B, 1, 3, H, K).unbind(2))
        nobodys = t.new_pool[0].clone()
        o, _ = fused_recurrent_kda_fwd(
            q,
            k,
            v,
            g=t.g[:, None],
            beta=t.b[:, None],
            A_log=t.A_log,
            dt_bias=t.dt_bias,
            initial_state=t.new_pool,
            scale=t.scale,
            inplace_final_state=True,
            state_v_first=True,
            ssm_state_indices=place,
            use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            allow_neg_eigval=False,
            lower_bound=t.lower_bound if shape.GATE == BOUNDED else None,
            out=torch.empty_like(v),
        )
        t.new_pool[0].copy_(nobodys)
        return torch.where(live, norm(o[:, 0], t.z), 0.0), t.new_conv_pool, t.new_pool

    return launch
