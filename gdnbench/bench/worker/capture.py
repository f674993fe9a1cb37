"""Captures a call into a CUDA graph: proof that it launches on its stream and waits for nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from gdnbench.launch import Launcher


@dataclass(frozen=True)
class Captured:
    """A captured call.

    Attributes:
        graph: replays the call.
        outputs: where a replay writes.
        kernels: kernel launches in it.
        operations: all nodes, copies and fills included.
    """

    graph: torch.cuda.CUDAGraph
    outputs: tuple[torch.Tensor, ...]
    kernels: int
    operations: int


def capture(run: Launcher, *, strict: bool, pool: Any = None) -> Captured:
    """Captures one call on the current stream.

    Args:
        run: the call.
        strict: whether calls that may wait for the device, such as an allocation by the driver, break the capture
            wherever they are made. If not, only those made on the capturing stream do.
        pool: handle of memory that the graph shares with others, which must not be replayed at the same time.

    Raises:
        RuntimeError: what the call raised first, if the capture broke.
    """
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    graph.capture_begin(pool=pool, capture_error_mode="global" if strict else "relaxed")
    try:
        outputs = run()
    except Exception:
        with suppress(RuntimeError):  # says only that there was an error
            graph.capture_end()
        raise
    graph.capture_end()
    kernels, operations = _count_nodes(graph.raw_cuda_graph())
    return Captured(graph, tuple(outputs), kernels, operations)


def _count_nodes(handle: int) -> tuple[int, int]:
    from cuda.bindings import driver

    _, _, count = driver.cuGraphGetNodes(handle, 0)
    _, nodes, _ = driver.cuGraphGetNodes(handle, count)
    kind = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    return sum(driver.cuGraphNodeGetType(node)[1] == kind for node in nodes[:count]), count
