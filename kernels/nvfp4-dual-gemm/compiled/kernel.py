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
    t, values, step = tensors, nvfp4.table(torch.float16, tensors.A.device), compiled_step(bool(shape.TILED))
    weights = [(t.B1, t.sfb1), (t.B2, t.sfb2)]
    if not params.WIDENED:
        return lambda: (step((t.A, t.sfa), *weights, values),)
    kept = {}

    def run():
        changes = tuple(each._version for pair in weights for each in pair)
        if kept.get("changes") != changes:
            each = [(widened(bits, scales, values, bool(shape.TILED)), None) for bits, scales in weights]
            kept.update(changes=changes, weights=each)
        return (step((t.A, t.sfa), *kept["weights"], values),)

    return run


def widened(bits, scales, values, is_tiled):
    """[rows, K] in fp16, where it is exact."""
    return nvfp4.looked_up(bits, nvfp4.untiled(scales, len(bits)) if is_tiled else scales, values)


@cache
def compiled_step(is_tiled):
    """One compiled function a layout for every bind: it keeps a specialisation per shape."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_SHAPES)

    def step(left, gate, other, values):
        a = widened(*left, values, is_tiled)
        weights = [
            bits if scales is None else widened(bits, scales, values, is_tiled) for bits, scales in (gate, other)
        ]
        x, y = (torch.mm(a, b.T, out_dtype=torch.float32) for b in weights)
        return (silu(x) * y).half()

    return torch.compile(step, dynamic=False, fullgraph=True)
