"""Runs a Triton kernel in Triton's interpreter, on CPU tensors: its arithmetic can be checked without a GPU.

The interpreter is chosen when a kernel's file is imported, so `TRITON_INTERPRET=1` must already be set.
"""

from __future__ import annotations

import torch

from gdnbench.catalog import Entry
from gdnbench.launch.bind import Launcher
from gdnbench.launch.numerics import load_file
from gdnbench.launch.workspace import Workspace
from gdnbench.model import TritonKernel, Variant


def bind_interpreted(entry: Entry, variant: Variant, workspace: Workspace) -> Launcher:
    """A function that interprets the variant on the workspace's CPU tensors."""
    kernel = entry.kernel
    assert isinstance(kernel, TritonKernel)
    function = getattr(load_file(entry.source), kernel.entry)
    grid = kernel.grid(workspace.shape, variant.params)
    values = {**workspace.inputs, **workspace.scalars, **workspace.outputs}
    constants = {**workspace.shape.axes(), **variant.params}
    bound = [{**constants, **values}[name] for name in function.arg_names]

    def run() -> tuple[torch.Tensor, ...]:
        function[grid](*bound)
        return workspace.output_tensors

    return run
