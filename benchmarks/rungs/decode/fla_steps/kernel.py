"""FLA's recurrent step with its gates and the state's layout each as in decode-fla or as in decode-fla-unfused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Workload


def bind(tensors, workload: Workload, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del workload
    return partial(gdn_decode, tensors, params.GATES == "fused", params.TRANSPOSED)


def gdn_decode(t, fused: bool, transposed: int):
    if fused:
        gates = {
            "g": t.a,
            "beta": t.b,
            "A_log": t.A_log,
            "dt_bias": t.dt_bias,
            "use_gate_in_kernel": True,
            "use_beta_sigmoid_in_kernel": True,
        }
    else:
        log_decay = -torch.exp(t.A_log) * F.softplus(t.a.float() + t.dt_bias)
        gates = {"g": log_decay, "beta": torch.sigmoid(t.b.float())}
    output, state = fused_recurrent_gated_delta_rule(
        t.q,
        t.k,
        t.v,
        scale=t.scale,
        initial_state=t.state.transpose(-1, -2).contiguous() if transposed else t.state,
        output_final_state=True,
        state_v_first=not transposed,
        **gates,
    )
    return output, state.transpose(-1, -2).contiguous() if transposed else state
