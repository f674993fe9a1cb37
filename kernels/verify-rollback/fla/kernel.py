"""The upstream function of fla-core, once for each token, as it gives the last state alone; states stay in fp32."""

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
    t, B, T, HQ, HV, K, V = tensors, shape.B, shape.T, shape.HQ, shape.HV, shape.K, shape.V

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((HQ * K, HQ * K, HV * V), dim=-1)
        state = t.new_pool[pool.read_slots(t.slots, t.accepted).clamp(min=0).long()]
        outputs, states = [], []
        for token in range(T):
            output, state = fused_recurrent_gated_delta_rule(
                q[:, token].reshape(B, 1, HQ, K),
                k[:, token].reshape(B, 1, HQ, K),
                v[:, token].reshape(B, 1, HV, V),
                g=t.a[:, token : token + 1],
                beta=t.b[:, token : token + 1],
                A_log=t.A_log,
                dt_bias=t.dt_bias,
                use_gate_in_kernel=True,
                use_beta_sigmoid_in_kernel=True,
                allow_neg_eigval=shape.BETA == 2,
                use_qk_l2norm_in_kernel=True,
                scale=t.scale,
                initial_state=state,
                output_final_state=True,
                state_v_first=True,
            )
            outputs.append(output)
            states.append(state)
        pool.write(t.new_pool, t.slots, torch.stack(states, 1))
        live = (t.slots[:, :1] > 0)[..., None, None]
        return torch.where(live, torch.cat(outputs, 1), 0.0), t.new_pool

    return launch
