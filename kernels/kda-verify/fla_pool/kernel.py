"""FLA's kernel, told by `num_accepted_tokens` to read its first state where the column behind those of the tokens says.

It always writes a state after each token: to its place among the outputs; for the last state alone all of a sequence's
to the same place, in turn; and where none is kept those of all sequences to the same, which stays in the L2. Padding is
computed like others, from slot 0, and one launch behind it clears it. q, k and v are taken to be dense.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd_kernel

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

BOUNDED = 1
LAST, EACH = 0, 1
ROWS, WARPS, STAGES = 32, 4, 2  # as FLA's own function has them

padding = load_file(Path(__file__).parents[2] / "verify" / "padding.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, T, H, K, V = tensors, shape.B, shape.T, shape.H, shape.K, shape.V
    kept = t.states.flatten(0, 1) if t.states.numel() else t.pool.new_empty(1, H, V, K)
    places = places_of_tokens(B, T, shape.KEEP).to(t.slot.device)
    accepted = torch.full_like(t.slot, T + 1)

    def launch() -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = t.mixed_qkv.split((H * K, H * K, H * V), dim=-1)
        torch.clamp(t.slot, min=0, out=places[:, T])
        fused_recurrent_kda_fwd_kernel[(-(-V // ROWS) * B * H,)](
            q=q.contiguous(),
            k=k.contiguous(),
            v=v.contiguous(),
            g=t.g,
            beta=t.b,
            A_log=t.A_log,
            dt_bias=t.dt_bias,
            o=t.output,
            h0=t.pool,
            ht=kept,
            cu_seqlens=None,
            ssm_state_indices=places,
            num_accepted_tokens=accepted,
            lower_bound=t.lower_bound if shape.GATE == BOUNDED else None,
            scale=t.scale,
            N=B,
            T=T,
            H=H,
            HV=H,
            K=K,
            V=V,
            BK=K,
            BV=ROWS,
            stride_init_state_token=t.pool.stride(0),
            stride_final_state_token=kept.stride(0),
            stride_indices_seq=T + 1,
            stride_indices_tok=1,
            IS_BETA_HEADWISE=False,
            USE_QK_L2NORM_IN_KERNEL=True,
            INPLACE_FINAL_STATE=True,
            USE_GATE_IN_KERNEL=True,
            APPLY_BETA_SIGMOID=True,
            ALLOW_NEG_EIGVAL=shape.BETA == 2,
            STATE_V_FIRST=True,
            num_warps=WARPS,
            num_stages=STAGES,
        )
        padding.clear(t.slot, t.output, t.states)
        return t.output, t.states

    return launch


def places_of_tokens(B: int, T: int, keep: int) -> torch.Tensor:
    """Where the state after each token goes, int32 [B, T + 1], whose last column is for the slots that are read."""
    of_sequences, of_tokens = {EACH: (T, 1), LAST: (1, 0)}.get(keep, (0, 0))
    places = of_sequences * torch.arange(B)[:, None] + of_tokens * torch.arange(T)
    return torch.cat([places, places[:, :1]], 1).int().contiguous()
