"""The upstream function of fla-core on states that are gathered for it; what it gives for padding is set to zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from fla.ops.kda import fused_recurrent_kda

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, T, H, K, V = tensors, shape.B, shape.T, shape.H, shape.K, shape.V

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((H * K, H * K, H * V), dim=-1)
        output, last = fused_recurrent_kda(
            q.reshape(B, T, H, K),
            k.reshape(B, T, H, K),
            v.reshape(B, T, H, V),
            g=t.g,
            beta=t.b,
            A_log=t.A_log,
            dt_bias=t.dt_bias,
            scale=t.scale,
            initial_state=t.pool[t.slot.clamp(min=0).long()],
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            allow_neg_eigval=shape.BETA == 2,
            lower_bound=t.lower_bound if shape.GATE == BOUNDED else None,
            state_v_first=True,
        )
        live = (t.slot > 0)[:, None, None, None]
        states = torch.where(live, last, 0.0).to(t.pool.dtype)  # it gives fp32, whatever it takes
        return torch.where(live, output, 0.0), states[:, None]

    return launch
