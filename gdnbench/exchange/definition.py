"""An op at fixed compile-time axes as a Definition."""

from __future__ import annotations

import re
from pathlib import Path

from gdnbench.errors import UsageError
from gdnbench.exchange.match import DEFINITION_FILE, stored_definition
from gdnbench.exchange.reference import write_reference
from gdnbench.exchange.schema import (
    DTYPE_NAMES,
    DefinedAxis,
    DefinedTensor,
    Definition,
    parse_definition,
    read_text,
)
from gdnbench.model.declaration import TensorSpec
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload


def definition_of(op: Op, folder: Path, workload: Workload) -> Definition:
    """Returns an op's Definition at compile-time axes; one that was imported is unchanged.

    Raises UsageError if the format cannot hold the op.
    """
    if (folder / DEFINITION_FILE).is_file():
        return stored_definition(folder)
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
    dims = {dim for spec in op.tensors for dim in spec.dims}
    of_inputs = {dim for spec in op.inputs for dim in spec.dims}
    axes: dict[str, DefinedAxis] = {}
    for axis in op.workloads.axes:
        if axis.compile_time:
            axes[axis.name] = DefinedAxis(type="const", value=workload.axes[axis.name], description=axis.doc or None)
        elif axis.name in dims:
            axes[axis.name] = DefinedAxis(type="var", description=axis.doc or None)
    axes |= {name: DefinedAxis(type="var") for name in op.derived if name in dims}
    numbers = sorted(dim for dim in dims if isinstance(dim, int))
    axes |= {_number(dim): DefinedAxis(type="const", value=dim) for dim in numbers}
    for name, defined in axes.items():
        if defined.type == "var" and name not in of_inputs:
            raise UsageError(f"{op.name} has outputs of {name}, which no input tells", "the format cannot hold that")
    return axes


def _tensor(op: Op, spec: TensorSpec) -> DefinedTensor:
    if spec.settled not in DTYPE_NAMES:
        known = ", ".join(DTYPE_NAMES)
        raise UsageError(f"{spec.name} of {op.name} is {spec.dtype}, which the format cannot hold", f"it has {known}")
    return DefinedTensor(shape=[_number(dim) for dim in spec.dims], dtype=DTYPE_NAMES[spec.settled])


def _number(dim: str | int) -> str:
    """Returns a dimension's axis name, which for a number is `size_128`."""
    return dim if isinstance(dim, str) else f"size_{dim}"


_SEPARATED = re.compile(r"[^A-Za-z0-9]+")


def axis_names(definition: Definition) -> dict[str, str]:
    """Returns a unique name for each axis, `batchSize` for `batch_size`; raises UsageError if it would be too long."""
    taken, names = set(definition.tensors), dict[str, str]()
    for name in definition.axes:
        first, *rest = [part for part in _SEPARATED.split(name) if part] or [""]
        ours = first + "".join(part[0].upper() + part[1:] for part in rest)
        if not ours[:1].isalpha():
            ours = f"axis{ours}"
        while ours in taken:
            ours += "Axis"
        if len(ours) > 60:
            raise UsageError(f"{definition.name[:80]}: the axis {name[:40]!r} has too long a name", "rename it")
        taken.add(ours)
        names[name] = ours
    return names
