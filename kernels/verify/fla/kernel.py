"""The upstream function of fla-core on states that are gathered for it; one launch behind it clears padding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

padding = load_file(Path(__file__).parent.parent / "padding.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, T, HQ, HV, K, V = tensors, shape.B, shape.T, shape.HQ, shape.HV, shape.K, shape.V

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((HQ * K, HQ * K, HV * V), dim=-1)
        output, last = fused_recurrent_gated_delta_rule(
            q.reshape(B, T, HQ, K),
            k.reshape(B, T, HQ, K),
            v.reshape(B, T, HV, V),
            g=t.a,
            beta=t.b,
            A_log=t.A_log,
            dt_bias=t.dt_bias,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            allow_neg_eigval=shape.BETA == 2,
            use_qk_l2norm_in_kernel=True,
            scale=t.scale,
            initial_state=t.pool[t.slot.clamp(min=0).long()],
            output_final_state=True,
            state_v_first=True,
        )
        states = last.to(t.pool.dtype)  # it gives fp32, whatever it takes
        padding.clear(t.slot, output, states)
        return output, states[:, None]

    return launch
