"""The product in eager torch, fp32: factors widened, multiplied, scaled, and the table added."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

ROWS = 1 << 17  # of the intermediate results in fp32, so that these stay small beside A and C


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t = tensors
    images = -(-ROWS // shape.P)
    blocks = [slice(begin, begin + images * shape.P) for begin in range(0, shape.M, images * shape.P)]

    def run():
        columns = t.B.float().T
        scale = t.scale_a * t.scale_b
        for rows in blocks:
            add_table(scale * (t.A[rows].float() @ columns), t.table, t.C[rows])
        return (t.C,)

    return run


def add_table(product, table, out):
    """Adds the table to the rows of each image, and to those of the last one that is not whole, rounded once."""
    images, more = divmod(len(product), len(table))
    whole = len(product) - more
    sizes = (images, *table.shape)
    if images:
        torch.add(product[:whole].view(sizes), table, out=out[:whole].view(sizes))
    if more:
        torch.add(product[whole:], table[:more], out=out[whole:])
