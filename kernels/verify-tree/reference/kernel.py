"""A tree of draft tokens in eager torch, fp32: one token of `verify` after the other, from the state of its parent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

drafts = load_file(Path(__file__).parents[2] / "verify" / "reference" / "kernel.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, B, sizes = tensors, shape.B, (shape.HQ, shape.HV, shape.V, shape.K)
    rows = torch.arange(B, device=t.slot.device)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        states = [t.pool[t.slot.clamp(min=0).long()].float()]  # the first, then that after each token
        outputs = []
        for token in range(shape.T):
            place = (t.parent[:, token].long() + 1).clamp(max=token)
            begun = torch.stack(states, 1)[rows, place]
            pool = torch.cat([begun[:1], begun])  # whose first slot is nobody's
            small = (each[:, token : token + 1] for each in (t.mixed_qkv, t.a, t.b))
            output, after = drafts.verify(
                *small, t.A_log, t.dt_bias, pool, rows + 1, t.scale, t.beta_limit, sizes, slice(None)
            )
            outputs.append(output)
            states.append(after[:, 0])
        after = torch.stack(states[1:], 1)
        live = (t.slot > 0)[:, None, None, None]  # at each call: padding moves
        output = torch.where(live, torch.cat(outputs, 1), 0.0)
        return output, torch.where(live[..., None], after, 0.0).to(t.pool.dtype)

    return run
