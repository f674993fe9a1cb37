"""The arguments of a CUDA launch, by name and in order."""

from __future__ import annotations

from gdnbench.errors import DeclarationError
from gdnbench.model.kernel import CudaLaunch, Kernel
from gdnbench.model.op import Op


def argument_names(op: Op, kernel: Kernel, launch: CudaLaunch) -> tuple[str, ...]:
    """The names of a CUDA launch's arguments, in order; DeclarationError for a name that the op does not have."""
    scratch = [spec.name for spec in getattr(kernel, "scratch", ())]
    inputs, outputs = [spec.name for spec in op.inputs], [spec.name for spec in op.outputs]
    run_time = [axis.name for axis in op.workloads.axes if not axis.compile_time]
    every = (*inputs, *op.scalars, *outputs, *scratch, *run_time, *op.derived)
    if launch.arguments is None:
        return every
    if unknown := [name for name in launch.arguments if name not in every]:
        raise DeclarationError(f"{launch.entry} takes {', '.join(unknown)}, and there are {', '.join(every)}")
    return launch.arguments
