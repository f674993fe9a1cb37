"""The product by torch._scaled_mm in fp32, then the table, in two launches; three where the last image is not whole.

A product in bf16 would be half as large, and is another function: its rounding errors are not those of one rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    t = tensors
    images, more = divmod(shape.M, shape.P)
    whole = shape.M - more
    sizes = (images, shape.P, shape.N)
    columns, is_fast = t.B.T, bool(params.FAST)

    def run():
        # Its memory is the allocator's from one launch to the next: bound to each placement it would fill a GPU.
        product = torch._scaled_mm(t.A, columns, t.scale_a, t.scale_b, out_dtype=torch.float32, use_fast_accum=is_fast)
        if images:
            torch.add(product[:whole].view(sizes), t.table, out=t.C[:whole].view(sizes))
        if more:
            torch.add(product[whole:], t.table[:more], out=t.C[whole:])
        return (t.C,)

    return run
