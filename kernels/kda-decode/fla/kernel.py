"""The function below fla-core's public one, which alone knows a pool: `fused_recurrent_kda` drops slots unread.

Its kernel knows no padding, so that padding updates slot 0, which launches around it make good; and it takes q, k and v
to be dense, so that each is copied from among the others first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, H, K, V = tensors, shape.B, shape.H, shape.K, shape.V

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((H * K, H * K, H * V), dim=1)
        nobodys, live = t.new_pool[0].clone(), (t.slot > 0)[:, None, None]
        fused_recurrent_kda_fwd(
            q.contiguous().view(B, 1, H, K),
            k.contiguous().view(B, 1, H, K),
            v.contiguous().view(B, 1, H, V),
            g=t.g[:, None],
            beta=t.b[:, None],
            A_log=t.A_log,
            dt_bias=t.dt_bias,
            initial_state=t.new_pool,
            scale=t.scale,
            inplace_final_state=True,
            state_v_first=True,
            ssm_state_indices=t.slot.clamp(min=0),
            use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            allow_neg_eigval=shape.BETA == 2,
            lower_bound=t.lower_bound if shape.GATE == BOUNDED else None,
            out=t.output[:, None],
        )
        t.new_pool[0].copy_(nobodys)
        return torch.where(live, t.output, 0.0), t.new_pool

    return launch
