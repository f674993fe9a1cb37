"""Launches a case once on fresh memory, the least work for a tool that watches every access.

Inputs are drawn on the CPU and copied, so that the kernel is the only one that runs. Outputs and scratch are not
poisoned: initcheck finds reads of them only while they are unwritten. The parent turns torch's caching allocator off,
so that each tensor is an allocation of its own, whose end memcheck knows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.launch import Workspace, load, load_numerics
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.profilers.process import ProfileTask


def launch_untouched(task: ProfileTask) -> None:
    """Launches the task's case once on inputs of the op's first kind, synchronizes, and writes the task's result."""
    catalog = load_catalog(Path(root) for root in task.roots)
    op, case = catalog.ops[task.op], task.case
    entry = catalog.entries[case.variant.kernel]
    numerics = load_numerics(op, catalog.op_folders[op.name])
    kind = op.inputs_to_verify(case.workload)[0]
    drawn = Workspace.make(op, numerics, case.workload, seed=task.seed, device="cpu", scenario=kind)
    if isinstance(entry.kernel, CudaKernel | TritonKernel):
        drawn.by_name(entry.kernel.scratch, case.variant.params)  # allocates the scratch
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        run = load(entry, case.variant, case.workload)(_on_gpu(drawn))  # keeps the tensors alive
        run()
        torch.cuda.synchronize()
    Path(task.result).write_text("launched\n")


def _on_gpu(drawn: Workspace) -> Workspace:
    """Copies the inputs to the GPU, and allocates unwritten outputs and scratch there."""
    inputs = {name: tensor.to("cuda") for name, tensor in drawn.inputs.items()}
    return replace(
        drawn,
        inputs=inputs,
        pristine=inputs,  # initial values of tensors updated in place; only this one launch changes them
        outputs={name: torch.empty_like(tensor, device="cuda") for name, tensor in drawn.outputs.items()},
        scratch={key: torch.empty_like(tensor, device="cuda") for key, tensor in drawn.scratch.items()},
    )
