"""The upstream functions of flashinfer; they compile at their first call and write outputs that they are given.

That for states in fp32 skips slots below zero. That for bf16 takes slot 0 for padding's, and leaves padding some output
and states: they are cleared behind it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose, gated_delta_rule_mtp

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

padding = load_file(Path(__file__).parent.parent / "padding.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, T, HQ, HV, K, V = tensors, shape.B, shape.T, shape.HQ, shape.HV, shape.K, shape.V
    named = torch.empty_like(t.slot)

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        padding.clear(t.slot, t.output, t.states, named)
        q, k, v = t.mixed_qkv.split((HQ * K, HQ * K, HV * V), dim=-1)
        packed = (q.view(B, T, HQ, K), k.view(B, T, HQ, K), v.view(B, T, HV, V))
        others = {
            "initial_state": t.pool,
            "initial_state_indices": named,
            "A_log": t.A_log,
            "a": t.a,
            "dt_bias": t.dt_bias,
            "b": t.b,
            "scale": t.scale,
            "output": t.output,
            "intermediate_states_buffer": t.states,
            "disable_state_update": True,
            "use_qk_l2norm": True,
        }
        if t.pool.dtype == torch.bfloat16:
            gated_delta_rule_decode_pretranspose(*packed, state=None, **others)
            padding.clear(t.slot, t.output, t.states)
        else:
            gated_delta_rule_mtp(*packed, **others)
        return t.output, t.states

    return launch
