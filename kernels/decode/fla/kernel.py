"""The upstream function of fla-core; it allocates its outputs itself, as in its users' code."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del shape, params
    t = tensors
    return partial(
        fused_recurrent_gated_delta_rule,
        t.q,
        t.k,
        t.v,
        g=t.a,
        beta=t.b,
        A_log=t.A_log,
        dt_bias=t.dt_bias,
        use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        scale=t.scale,
        initial_state=t.state,
        output_final_state=True,
        state_v_first=True,
    )
