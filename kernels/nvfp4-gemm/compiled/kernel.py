"""Both factors unpacked to fp16 by a table, and the product by cuBLAS, compiled by TorchInductor as one function."""

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
    t, values, step = tensors, nvfp4.table(torch.float16, tensors.A.device), compiled_step(bool(shape.TILED))
    return lambda: (step((t.A, t.sfa), (t.B, t.sfb), values),)


def widened(bits, scales, values, is_tiled):
    """[L, rows, K] in fp16, where it is exact."""
    matrices = zip(bits, scales, strict=True)
    each = ((one, nvfp4.untiled(of_one, len(one)) if is_tiled else of_one) for one, of_one in matrices)
    return torch.stack([nvfp4.looked_up(one, plain, values) for one, plain in each])


@cache
def compiled_step(is_tiled):
    """One compiled function a layout for every bind: it keeps a specialisation per shape."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_SHAPES)

    def step(left, right, values):
        a, b = (widened(*each, values, is_tiled) for each in (left, right))
        products = [torch.mm(one, other.T, out_dtype=torch.float32) for one, other in zip(a, b, strict=True)]
        return torch.stack(products).half()

    return torch.compile(step, dynamic=False, fullgraph=True)
