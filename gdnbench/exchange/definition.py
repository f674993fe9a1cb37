"""An op at fixed compile-time axes as a Definition."""

from __future__ import annotations

from pathlib import Path

from gdnbench.errors import UsageError
from gdnbench.exchange.kept import DEFINITION_FILE, kept_definition
from gdnbench.exchange.parse import parse_definition, read_text
from gdnbench.exchange.reference import write_reference
from gdnbench.exchange.schema import DTYPE_NAMES, DefinedAxis, DefinedTensor, Definition
from gdnbench.model.op import Op
from gdnbench.model.tensor import TensorSpec
from gdnbench.model.workload import Workload


def definition_of(op: Op, folder: Path, workload: Workload) -> Definition:
    """Returns an op's Definition at compile-time axes; one that was imported is unchanged.

    Raises UsageError if the format cannot hold the op.
    """
    if (folder / DEFINITION_FILE).is_file():
        return kept_definition(folder)
    op, axes = op.at(workload.axes), _axes(op, workload)
    return Definition(
        name=definition_name(op, workload),
        op_type=op.name,
        description=op.title or None,
        axes=axes,
        inputs={
            **{spec.name: _tensor(op, spec) for spec in op.inputs},
            **{name: DefinedTensor(shape=None, dtype=DTYPE_NAMES["fp32"]) for name in op.scalars},
        },
        outputs={spec.name: _tensor(op, spec) for spec in op.outputs},
        reference=write_reference(op, folder, [*(spec.name for spec in op.inputs), *op.scalars]),
    )


def definition_name(op: Op, workload: Workload) -> str:
    """Returns `decode_HQ4_HV8_K128_V128`: the op and its compile-time axes."""
    return "_".join([op.name, *(f"{name}{size}" for name, size in workload.compile_time.items())])


def read_definition(path: Path) -> Definition:
    """Reads a Definition's file; raises UsageError if it is invalid."""
    return parse_definition(read_text(path), str(path))


def _axes(op: Op, workload: Workload) -> dict[str, DefinedAxis]:
    """Returns the axes of all tensors: compile-time ones and numbers are constant, derived sizes vary."""
    named = {dim for spec in op.tensors for dim in spec.dims}
    told = {dim for spec in op.inputs for dim in spec.dims}
    found: dict[str, DefinedAxis] = {}
    for axis in op.workloads.axes:
        if axis.compile_time:
            found[axis.name] = DefinedAxis(type="const", value=workload.axes[axis.name], description=axis.doc or None)
        elif axis.name in named:
            found[axis.name] = DefinedAxis(type="var", description=axis.doc or None)
    found |= {name: DefinedAxis(type="var") for name in op.derived if name in named}
    numbers = sorted(dim for dim in named if isinstance(dim, int))
    found |= {_number(dim): DefinedAxis(type="const", value=dim) for dim in numbers}
    for name, defined in found.items():
        if defined.type == "var" and name not in told:
            raise UsageError(f"{op.name} has outputs of {name}, which no input tells", "the format cannot hold that")
    return found


def _tensor(op: Op, spec: TensorSpec) -> DefinedTensor:
    if spec.settled not in DTYPE_NAMES:
        known = ", ".join(DTYPE_NAMES)
        raise UsageError(f"{spec.name} of {op.name} is {spec.dtype}, which the format cannot hold", f"it has {known}")
    return DefinedTensor(shape=[_number(dim) for dim in spec.dims], dtype=DTYPE_NAMES[spec.settled])


def _number(dim: str | int) -> str:
    """Returns a dimension's axis name, which for a number is `size_128`."""
    return dim if isinstance(dim, str) else f"size_{dim}"
