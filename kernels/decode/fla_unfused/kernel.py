"""FLA's recurrent step as the middle one of several launches: gates before it, a transposition before and after."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del shape, params
    return partial(gdn_decode, tensors)


def gdn_decode(t):
    log_decay = -torch.exp(t.A_log) * F.softplus(t.a.float() + t.dt_bias)
    beta = torch.sigmoid(t.b.float())
    k_first = t.state.transpose(-1, -2).contiguous()
    output, k_first = fused_recurrent_gated_delta_rule(
        t.q,
        t.k,
        t.v,
        g=log_decay,
        beta=beta,
        scale=t.scale,
        initial_state=k_first,
        output_final_state=True,
        state_v_first=False,
    )
    return output, k_first.transpose(-1, -2).contiguous()
