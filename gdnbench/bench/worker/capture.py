"""Captures a call into a CUDA graph: proof that it launches on its stream and waits for nothing."""

from __future__ import annotations

from dataclasses import dataclass

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


def capture(run: Launcher, stream: torch.cuda.Stream) -> Captured:
    """Captures one call on a stream.

    Raises:
        RuntimeError: if the call synchronises, allocates outside torch's allocator, or uses the default stream.
    """
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=stream):
        outputs = run()
    kernels, operations = _count_nodes(graph.raw_cuda_graph())
    return Captured(graph, tuple(outputs), kernels, operations)


def _count_nodes(handle: int) -> tuple[int, int]:
    from cuda.bindings import driver

    _, _, count = driver.cuGraphGetNodes(handle, 0)
    _, nodes, _ = driver.cuGraphGetNodes(handle, count)
    kind = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    return sum(driver.cuGraphNodeGetType(node)[1] == kind for node in nodes[:count]), count
