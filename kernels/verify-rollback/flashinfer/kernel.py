"""The upstream functions of flashinfer on its pool; they keep each state beside it, and a scatter brings these home.

That for states in fp32 skips slots below zero. That for bf16 takes slot 0 for padding's; what either leaves in the
place of padding is replaced.
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

pool = load_file(Path(__file__).parent.parent / "pool.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, T, HQ, HV, K, V = tensors, shape.B, shape.T, shape.HQ, shape.HV, shape.K, shape.V
    states = torch.empty(B, T, HV, V, K, dtype=t.new_pool.dtype, device=t.new_pool.device)

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((HQ * K, HQ * K, HV * V), dim=-1)
        packed = (q.view(B, T, HQ, K), k.view(B, T, HQ, K), v.view(B, T, HV, V))
        read = pool.read_slots(t.slots, t.accepted)
        others = {
            "initial_state": t.new_pool,
            "initial_state_indices": torch.where(read > 0, read, -1),
            "A_log": t.A_log,
            "a": t.a,
            "dt_bias": t.dt_bias,
            "b": t.b,
            "scale": t.scale,
            "output": t.output,
            "intermediate_states_buffer": states,
            "disable_state_update": True,
            "use_qk_l2norm": True,
        }
        if t.new_pool.dtype == torch.bfloat16:
            gated_delta_rule_decode_pretranspose(*packed, state=None, **others)
        else:
            gated_delta_rule_mtp(*packed, **others)
        pool.write(t.new_pool, t.slots, states)
        return torch.where((read > 0)[:, None, None, None], t.output, 0.0), t.new_pool

    return launch
