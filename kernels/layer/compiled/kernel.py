"""The eager reference, compiled by TorchInductor for the shape at hand."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

MOST_SHAPES = 256


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, sizes, step = tensors, (shape.HQ, shape.HV, shape.V, shape.K), compiled_step()
    return lambda: step(
        t.x, t.conv_weight, t.new_conv_pool, t.slot, t.a, t.b, t.A_log, t.dt_bias, t.new_pool, t.z, t.weight, t.scale,
        t.beta_limit, sizes,
    )  # fmt: skip


@cache
def compiled_step():
    """One compiled function for every bind: it keeps a specialisation per shape, for as many as a suite has."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_SHAPES)
    path = Path(__file__).parent.parent / "reference" / "kernel.py"
    spec = importlib.util.spec_from_file_location("gdn_layer_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return torch.compile(module.layer, dynamic=False, fullgraph=True)
