"""The upstream function of flashinfer, which has a slot to read and one to write.

It takes a slot to write below zero for slot 0, and its kernel for states in bf16 also takes one to read so: what slot 0
held is brought back behind it, and padding's output cleared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, HQ, HV, K, V = tensors, shape.B, shape.HQ, shape.HV, shape.K, shape.V

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        nobodys, live = t.new_pool[0].clone(), t.read_slot > 0
        q, k, v = t.mixed_qkv.split((HQ * K, HQ * K, HV * V), dim=1)
        gated_delta_rule_decode_pretranspose(
            q.view(B, 1, HQ, K),
            k.view(B, 1, HQ, K),
            v.view(B, 1, HV, V),
            state=None,
            A_log=t.A_log,
            a=t.a[:, None],
            dt_bias=t.dt_bias,
            b=t.b[:, None],
            scale=t.scale,
            output=t.output[:, None],
            use_qk_l2norm=True,
            initial_state=t.new_pool,
            initial_state_indices=torch.where(live, t.read_slot, -1),
            output_state_indices=torch.where(live, t.write_slot, -1).clamp(min=0),
        )
        t.new_pool[0].copy_(nobodys)
        return torch.where(live[:, None, None], t.output, 0.0), t.new_pool

    return launch
