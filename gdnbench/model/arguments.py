"""The arguments of a CUDA launch, by name and in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        expected = call_of(op, kernel, launch.entry, every)
        raise DeclarationError(f"{launch.entry} takes {', '.join(unknown)}, and there is no such; expected: {expected}")
    return launch.arguments


def call_of(op: Op, kernel: Kernel | None, function: str, names: Iterable[str]) -> str:
    """How a function takes arguments, by what each name is: `scale(x: fp32[M, N], factor: float, M: int)`.

    A name that is no tensor, scalar or size is a constant.
    """
    tensors = (*op.tensors, *getattr(kernel, "scratch", ()))
    kinds = {spec.name: f"{'/'.join(spec.dtypes)}[{', '.join(map(str, spec.dims))}]" for spec in tensors}
    kinds |= dict.fromkeys(op.scalars, "float") | dict.fromkeys(op.derived, "long long")
    kinds |= {axis.name: "int" for axis in op.workloads.axes if not axis.compile_time}
    typed = (f"{name}: {kinds.get(name, 'constexpr')}" for name in names)
    return f"{function}({', '.join(typed)})"


_POINTER_BYTES, _WIDE_BYTES, _NUMBER_BYTES = 8, 8, 4


def check_arguments(op: Op, kernel: Kernel, launch: CudaLaunch, sizes: Sequence[int]) -> None:
    """Makes sure that a compiled function takes what its launch gives: CUDA reads beyond it, and says nothing.

    Args:
        op: the op.
        kernel: its kernel.
        launch: the kernel's launch.
        sizes: bytes of each parameter of the function, in order.

    Raises:
        DeclarationError: if not; it says what was expected.
    """
    names = argument_names(op, kernel, launch)
    numbers = {*op.scalars, *(axis.name for axis in op.workloads.axes)}
    wide = dict.fromkeys(op.derived, _WIDE_BYTES) | dict.fromkeys(numbers, _NUMBER_BYTES)
    given = [wide.get(name, _POINTER_BYTES) for name in names]
    if list(sizes) != given:
        takes, gives = f"{len(sizes)} parameters", f"{len(given)}"
        if takes.startswith(f"{gives} "):
            takes, gives = (", ".join(map(str, each)) for each in (sizes, given))
            takes = f"parameters of {takes} bytes"
        told = f"{launch.entry} takes {takes}, and its launch gives {gives}"
        expected = call_of(op, kernel, launch.entry, names)
        raise DeclarationError(f"{told}; expected: {expected}", "see `arguments` of the launch in variant.py")
