"""The upstream function of fla-core; states are gathered for it and scattered behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

pool = load_file(Path(__file__).parent.parent / "pool.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, HQ, HV, K, V = tensors, shape.B, shape.HQ, shape.HV, shape.K, shape.V

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((HQ * K, HQ * K, HV * V), dim=1)
        output, updated = fused_recurrent_gated_delta_rule(
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
            initial_state=t.new_pool[t.read_slot.clamp(min=0).long()],
            output_final_state=True,
            state_v_first=True,
        )
        pool.write(t.new_pool, t.read_slot, t.write_slot, updated)
        return torch.where((t.read_slot > 0)[:, None, None], output[:, 0], 0.0), t.new_pool

    return launch
