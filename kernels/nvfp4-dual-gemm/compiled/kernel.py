"""Factors unpacked to fp16 by a table, two products by cuBLAS and the gate: one function of TorchInductor's."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import silu

from gdnbench import nvfp4

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

MOST_SHAPES = 256


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, values, step = tensors, nvfp4.table(torch.float16, tensors.A.device), compiled_step(bool(shape.TILED))
    return lambda: (step((t.A, t.sfa), (t.B1, t.sfb1), (t.B2, t.sfb2), values),)


def widened(bits, scales, values, is_tiled):
    """[rows, K] in fp16, where it is exact."""
    return nvfp4.looked_up(bits, nvfp4.untiled(scales, len(bits)) if is_tiled else scales, values)


@cache
def compiled_step(is_tiled):
    """One compiled function a layout for every bind: it keeps a specialisation per shape."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_SHAPES)

    def step(left, gate, other, values):
        a = widened(*left, values, is_tiled)
        x, y = (torch.mm(a, widened(*b, values, is_tiled).T, out_dtype=torch.float32) for b in (gate, other))
        return (silu(x) * y).half()

    return torch.compile(step, dynamic=False, fullgraph=True)
