"""The decode step in eager torch, fp32: that of `verify` for one token, between a gather and a scatter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from gdnbench import Params, Shape

OPS = Path(__file__).parents[2]
pool = load_file(OPS / "decode-split" / "pool.py")
drafts = load_file(OPS / "verify" / "reference" / "kernel.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, sizes = tensors, (shape.HQ, shape.HV, shape.V, shape.K)
    small = (*(each[:, None] for each in (t.mixed_qkv, t.a, t.b)), t.A_log, t.dt_bias)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        output, states = drafts.verify(*small, t.new_pool, t.read_slot, t.scale, t.beta_limit, sizes, slice(None))
        pool.write(t.new_pool, t.read_slot, t.write_slot, states[:, 0])
        return output[:, 0], t.new_pool

    return run
