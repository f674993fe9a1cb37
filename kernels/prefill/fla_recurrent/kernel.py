"""The recurrent function of fla-core, gates fused; it allocates its outputs itself, as in its users' code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# As for prefill-fla, which may be measured in the same process: FLA reads this when it is imported.
os.environ.setdefault("FLA_TENSOR_CACHE_SIZE", "1024")

from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del shape, params
    t = tensors
    q, k, v, a, b = (tensor[None] for tensor in (t.q, t.k, t.v, t.a, t.b))

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        output, state = fused_recurrent_gated_delta_rule(
            q,
            k,
            v,
            g=a,
            beta=b,
            A_log=t.A_log,
            dt_bias=t.dt_bias,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            scale=t.scale,
            initial_state=t.state,
            output_final_state=True,
            state_v_first=True,
            cu_seqlens=t.cu_seqlens,
        )
        return output[0], state

    return run
