"""The upstream function of flashinfer; it compiles at its first call and writes outputs that it is given.

Its kernel for states in bf16 takes slot 0 for padding's, updates it, and leaves padding some output: what the op says
of both is restored by launches around it.
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
            initial_state_indices=torch.where(t.slot > 0, t.slot, -1),
        )
        return t.output, t.new_pool

    def launch_bf16() -> tuple[torch.Tensor, torch.Tensor]:
        nobodys, live = t.new_pool[0].clone(), (t.slot > 0)[:, None, None]
        output, _ = launch()
        t.new_pool[0].copy_(nobodys)
        return torch.where(live, output, 0.0), t.new_pool

    return launch_bf16 if t.new_pool.dtype == torch.bfloat16 else launch
