"""The gated product in eager torch, fp32: factors unpacked by a table, some rows of B1 and B2 at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import silu

from gdnbench import nvfp4

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

AT_ONCE = 1 << 26  # numbers that are unpacked at a time, so that these stay small beside a GPU's memory


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, values = tensors, nvfp4.table(torch.float32, tensors.A.device)
    step = max(1, AT_ONCE // shape.K)
    parts = [slice(first, first + step) for first in range(0, shape.N, step)]

    def plain(scales, rows):
        return nvfp4.untiled(scales, rows) if shape.TILED else scales

    def run():
        a = nvfp4.looked_up(t.A, plain(t.sfa, shape.M), values)
        gates, others = plain(t.sfb1, shape.N), plain(t.sfb2, shape.N)
        for rows in parts:
            gate = a @ nvfp4.looked_up(t.B1[rows], gates[rows], values).T
            t.C[:, rows] = silu(gate) * (a @ nvfp4.looked_up(t.B2[rows], others[rows], values).T)
        return (t.C,)

    return run
