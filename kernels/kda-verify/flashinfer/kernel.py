"""The upstream function of flashinfer, by KEEP: its recurrence for draft tokens, or that which writes no state.

The recurrence reads a sequence's first state from one pool and writes that after each token to a slot of another: here
to its place among the outputs, and for the last state alone all to the same place, in turn. Padding is computed like
others, from slot 0, and cleared. Both compile at their first call. The recurrence reads q, k and v as dense without
asking: of views of the packed tokens it gives wrong numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from flashinfer.kda import recurrent_kda

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

BOUNDED = 1
EACH, NONE = 1, 2

padding = load_file(Path(__file__).parents[2] / "verify" / "padding.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, T, H, K, V = tensors, shape.B, shape.T, shape.H, shape.K, shape.V
    mode = frozen(t) if shape.KEEP == NONE else drafted(t, B, T, shape.KEEP == EACH)
    packed = (B, T) if shape.KEEP == NONE else (1, B * T)
    lower_bound = t.lower_bound if shape.GATE == BOUNDED else None

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((H * K, H * K, H * V), dim=-1)
        recurrent_kda(
            q.contiguous().view(*packed, H, K),
            k.contiguous().view(*packed, H, K),
            v.contiguous().view(*packed, H, V),
            t.g.view(*packed, H, K),
            t.b.view(*packed, H),
            A_log=t.A_log,
            dt_bias=t.dt_bias.view(-1),
            scale=t.scale,
            use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True,
            lower_bound=lower_bound,
            initial_state_source=t.pool,
            initial_state_indices=t.slot.clamp(min=0),
            output=t.output.view(*packed, H, V),
            beta_is_logit=True,
            backend="cute-dsl",
            **mode,
        )
        padding.clear(t.slot, t.output, t.states)
        return t.output, t.states

    return launch


def frozen(t) -> dict[str, object]:
    """No state is written."""
    del t
    return {"disable_state_update": True}


def drafted(t, B: int, T: int, is_each: bool) -> dict[str, object]:
    """T tokens of each sequence lie together; `ssm_state_indices` [B, T], or [B] for one token, say where states go."""
    device, places = t.slot.device, torch.arange(B * T if is_each else B, dtype=torch.int32, device=t.slot.device)
    places = places.view(B, T) if is_each else places[:, None].expand(B, T).contiguous()
    return {
        "cu_seqlens": torch.arange(0, B * T + 1, T, dtype=torch.int32, device=device),
        "initial_state": t.states.flatten(0, 1),
        "ssm_state_indices": places if T > 1 else places[:, 0],
        "num_spec_tokens": T - 1 or None,
    }
