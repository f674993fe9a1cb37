"""An op at fixed compile-time axes as a Definition, and workloads of a suite as lines of a file."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import UsageError
from gdnbench.exchange.match import DEFINITION_FILE, Match, stored_definition
from gdnbench.exchange.reference import write_reference
from gdnbench.exchange.schema import (
    DTYPE_NAMES,
    DefinedAxis,
    DefinedTensor,
    Definition,
    Trace,
    TracedInput,
    TracedWorkload,
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


_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/flashinfer-ai/flashinfer-bench/gdnbench")
_MOST_REPEATS = 1000  # a larger weight is not a count
_MEANINGLESS = ("int32", "int64", "bool")  # of inputs: the format draws any number, but kernels index with them


@dataclass(frozen=True)
class PlannedWorkload:
    """A line to write, with values of the Definition's variable axes.

    `number` is its index among the lines of the same workload, and the seed of its inputs; `uuid` is the same in each
    export.
    """

    workload: Workload
    axes: Mapping[str, int]
    number: int
    uuid: str


def plan_workloads(match: Match, weights: Mapping[Workload, float]) -> list[PlannedWorkload]:
    """Returns the lines for workloads with weights: as many as the weight, if all weights are integers, else one.

    The format has no weights, and its score counts each line once. Workloads that the Definition does not cover are
    left out.
    """
    counted = all(weight == int(weight) <= _MOST_REPEATS for weight in weights.values())
    planned = []
    for workload, weight in weights.items():
        axes = match.axes(workload)
        for number in range(int(weight) if counted else 1) if axes is not None else ():
            name = f"{match.definition.name}/{workload.key}/{number}"
            planned.append(PlannedWorkload(workload, axes or {}, number, str(uuid.uuid5(_NAMESPACE, name))))
    return planned


def drawn_inputs(op: Op, *, every: bool) -> list[str]:
    """Returns the inputs to store: indices and flags, as random ones mean nothing; with `every`, all tensors."""
    return [spec.name for spec in op.inputs if every or spec.dtype in _MEANINGLESS]


def workload_traces(
    match: Match,
    planned: Sequence[PlannedWorkload],
    scalars: Mapping[str, Mapping[str, float]],
    stored: Sequence[str],
) -> list[Trace]:
    """Returns the lines; `scalars` has values by uuid and name, `stored` the inputs in the file at `blob_path`."""
    traces = []
    for each in planned:
        file = str(blob_path(match, each.uuid))
        inputs = dict.fromkeys(match.definition.inputs, TracedInput(type="random"))
        inputs |= {name: TracedInput(type="safetensors", path=file, tensor_key=name) for name in stored}
        inputs |= {name: TracedInput(type="scalar", value=value) for name, value in scalars[each.uuid].items()}
        workload = TracedWorkload(axes=dict(each.axes), inputs=inputs, uuid=each.uuid)
        traces.append(Trace(definition=match.definition.name, workload=workload))
    return traces


def blob_path(match: Match, identifier: str) -> Path:
    """Returns the path of a workload's stored inputs in a data set."""
    definition = match.definition
    return Path("blob", "workloads", definition.op_type, definition.name, f"{definition.name}_{identifier}.safetensors")
