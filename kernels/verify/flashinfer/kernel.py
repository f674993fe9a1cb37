"""The upstream function of flashinfer; it compiles at its first call and writes outputs that it is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from flashinfer.gdn_decode import gated_delta_rule_mtp

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

padding = load_file(Path(__file__).parent.parent / "padding.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, T, HQ, HV, K, V = tensors, shape.B, shape.T, shape.HQ, shape.HV, shape.K, shape.V
    named = torch.empty_like(t.slot)  # it skips what is below zero, and takes slot 0 for a sequence's

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        padding.clear(t.slot, t.output, t.states, named)
        q, k, v = t.mixed_qkv.split((HQ * K, HQ * K, HV * V), dim=-1)
        gated_delta_rule_mtp(
            q.view(B, T, HQ, K),
            k.view(B, T, HQ, K),
            v.view(B, T, HV, V),
            initial_state=t.pool,
            initial_state_indices=named,
            A_log=t.A_log,
            a=t.a,
            dt_bias=t.dt_bias,
            b=t.b,
            scale=t.scale,
            output=t.output,
            intermediate_states_buffer=t.states,
            disable_state_update=True,
            use_qk_l2norm=True,
        )
        return t.output, t.states

    return launch
