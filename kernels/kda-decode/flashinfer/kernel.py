"""The upstream function of flashinfer; it compiles at its first call and writes the output that it is given.

It takes one token of each sequence as a sequence of its own among packed ones: without `cu_seqlens` it would gather the
states and scatter them. It takes slots below 0 for padding and 0 for a sequence's, so that it is given the pool without
its first slot, and slots less one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from flashinfer.kda import recurrent_kda

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, H, K, V = tensors, shape.B, shape.H, shape.K, shape.V
    ends = torch.arange(B + 1, dtype=torch.int32, device=t.slot.device)

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((H * K, H * K, H * V), dim=1)
        recurrent_kda(
            q.contiguous().view(1, B, H, K),
            k.contiguous().view(1, B, H, K),
            v.contiguous().view(1, B, H, V),
            t.g[None],
            t.b[None],
            A_log=t.A_log,
            dt_bias=t.dt_bias.view(-1),
            scale=t.scale,
            initial_state=t.new_pool[1:],
            use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True,
            lower_bound=t.lower_bound if shape.GATE == BOUNDED else None,
            cu_seqlens=ends,
            ssm_state_indices=t.slot - 1,
            output=t.output[None],
            beta_is_logit=True,
            backend="cute-dsl",
        )
        return t.output, t.new_pool

    return launch
