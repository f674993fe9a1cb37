"""The product by torch._scaled_mm and the table as one function, compiled by TorchInductor for the shape at hand."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

MOST_SHAPES = 256


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del shape
    t, step, is_fast = tensors, compiled_step(params.MODE), bool(params.FAST)
    return lambda: (step(t.A, t.B, t.scale_a, t.scale_b, t.table, is_fast),)


@cache
def compiled_step(mode):
    """One compiled function a mode for every bind: it keeps a specialisation per shape, for as many as a suite has."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_SHAPES)
    return torch.compile(step, dynamic=False, fullgraph=True, mode=mode)


def step(A, B, scale_a, scale_b, table, is_fast):
    """The op as written, with one rounding to bf16."""
    product = torch._scaled_mm(A, B.T, scale_a, scale_b, out_dtype=torch.float32, use_fast_accum=is_fast)
    rows = torch.arange(len(A), device=A.device) % len(table)
    return (product + table[rows]).to(table.dtype)
