"""The eager reference's two functions, compiled by TorchInductor for the workload at hand.

Chunk after chunk stays a loop in Python: unrolled, it would be a graph of thousands of operations for a long prompt.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

torch._dynamo.config.recompile_limit = 200  # workloads in one process; by default the ninth is refused
reference = load_file(Path(__file__).parent.parent / "reference" / "kernel.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    tables = reference.lay_out(shape.lengths, tensors.q.device)
    return partial(reference.gdn_prefill, tensors, tables, *compiled())


@cache
def compiled():
    """One compiled function of each for every bind: they keep a specialisation per workload themselves."""
    return tuple(
        torch.compile(function, dynamic=False, fullgraph=True) for function in (reference.prepare, reference.take_chunk)
    )
