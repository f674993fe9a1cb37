"""The product by `torch._scaled_mm`, a call a pair; scales that are not in tiles are brought there in each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gdnbench import nvfp4

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t = tensors
    a, b = (each.view(torch.float4_e2m1fn_x2) for each in (t.A, t.B))

    def run():
        sfa, sfb = (t.sfa, t.sfb) if shape.TILED else (nvfp4.tiled(t.sfa), nvfp4.tiled(t.sfb))
        pairs = zip(a, b.mT, sfa, sfb, strict=True)
        each = [torch._scaled_mm(*pair, out_dtype=torch.float16) for pair in pairs]
        return (each[0][None] if len(each) == 1 else torch.stack(each),)

    return run
