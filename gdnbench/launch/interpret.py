"""Runs a Triton kernel in Triton's interpreter, on CPU tensors: its arithmetic can be checked without a GPU.

The interpreter is chosen when a kernel's file is imported, so `TRITON_INTERPRET=1` must already be set.
"""

from __future__ import annotations

import torch

from gdnbench.catalog.entry import Entry
from gdnbench.launch.bind import Launcher
from gdnbench.launch.numerics import load_file
from gdnbench.launch.workspace import Workspace
from gdnbench.model.case import Variant
from gdnbench.model.kernel import TritonKernel


def bind_interpreted(entry: Entry, variant: Variant, workspace: Workspace) -> Launcher:
    """A function that interprets the variant's launches on the workspace's CPU tensors."""
    kernel, params = entry.kernel, variant.params
    assert isinstance(kernel, TritonKernel)
    values = workspace.by_name(kernel.scratch, params)
    module = load_file(entry.source)
    steps = []
    for launch in kernel.launches:
        function = getattr(module, launch.entry)
        bound = [values[name] for name in function.arg_names]
        steps.append((function[launch.grid(workspace.shape, params)], bound))

    def run() -> tuple[torch.Tensor, ...]:
        for function, bound in steps:
            function(*bound)
        return workspace.output_tensors

    return run
