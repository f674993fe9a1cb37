"""Factors unpacked to fp16 by a table, a product a group by cuBLAS, compiled by TorchInductor as one function."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

from gdnbench import nvfp4

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

MOST_SHAPES = 256


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, values = tensors, nvfp4.table(torch.float16, tensors.A.device)
    step = compiled_step(tuple(shape.rows), bool(shape.TILED))
    return lambda: (step((t.A, t.sfa), (t.B, t.sfb), values),)


def widened(bits, scales, values, is_tiled):
    """[rows, K] in fp16, where it is exact."""
    return nvfp4.looked_up(bits, nvfp4.untiled(scales, len(bits)) if is_tiled else scales, values)


@cache
def compiled_step(rows, is_tiled):
    """One compiled function a list of groups for every bind: it keeps a specialisation per shape."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_SHAPES)

    def step(left, right, values):
        (codes, scales), (bits, of_bits) = left, right
        products, row, of_scales = [], 0, 0
        for group, count in enumerate(rows):
            taken = nvfp4.tiled_rows(count) if is_tiled else count
            if count:
                a = widened(codes[row : row + count], scales[of_scales : of_scales + taken], values, is_tiled)
                b = widened(bits[group], of_bits[group], values, is_tiled)
                products.append(torch.mm(a, b.T, out_dtype=torch.float32))
            row, of_scales = row + count, of_scales + taken
        return torch.cat(products).half()

    return torch.compile(step, dynamic=False, fullgraph=True)
