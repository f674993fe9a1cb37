"""The product in eager torch, fp32: both factors unpacked by a table, some rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

BLOCK = 16
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
AT_ONCE = 1 << 26  # numbers that are unpacked at a time, so that these stay small beside a GPU's memory


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t = tensors
    values = torch.tensor([*VALUES, *(-value for value in VALUES)], device=t.a.device)
    step = max(1, AT_ONCE // shape.K)
    parts = [(matrix, slice(first, first + step)) for matrix in range(shape.L) for first in range(0, shape.M, step)]

    def run():
        vectors = unpacked(t.b, t.sfb, values)
        for matrix, rows in parts:
            t.c[matrix, rows] = unpacked(t.a[matrix, rows], t.sfa[matrix, rows], values) @ vectors[matrix]
        return (t.c,)

    return run


def unpacked(bits, scales, values):
    """[rows, K], scaled numbers, of which the lower half of a byte is the first."""
    codes = torch.stack([bits & 15, bits >> 4], dim=-1).flatten(1)
    return (values[codes.int()].view(len(bits), -1, BLOCK) * scales.float()[..., None]).flatten(1)
