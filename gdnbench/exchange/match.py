"""Matches the axes of a Definition with those of an op through the tensors, which have the same names in both."""

from __future__ import annotations

from dataclasses import dataclass

from gdnbench.errors import UsageError
from gdnbench.exchange.schema import DTYPE_NAMES, DefinedTensor, Definition, TracedWorkload
from gdnbench.model.op import Op
from gdnbench.model.tensor import DtypeOf, TensorSpec
from gdnbench.model.workload import Workload


@dataclass(frozen=True)
class Match:
    """A Definition of an op.

    Attributes:
        fixed: sizes of the op's axes and derived sizes that the Definition makes constant.
        names: the op's axis or derived size for each variable axis of the Definition.
    """

    op: Op
    definition: Definition
    fixed: dict[str, int]
    names: dict[str, str]

    def workload(self, traced: TracedWorkload) -> Workload:
        """Returns the op's workload of these axes.

        Raises UsageError if an axis is missing or the op has lists; ShapeError for a workload that the op does not
        define.
        """
        if self.op.workloads.lists:
            raise UsageError(f"{self.op.name} has lists of sizes, which axes do not tell", "name its workloads here")
        if missing := [name for name in self.names if name not in traced.axes]:
            raise UsageError(f"the workload {traced.uuid[:40]} lacks the axis {missing[0]}", "give each variable axis")
        axes = {axis.name for axis in self.op.workloads.axes}
        sizes = {**self.fixed, **{of: traced.axes[name] for name, of in self.names.items()}}
        return self.op.workload({name: size for name, size in sizes.items() if name in axes})

    def axes(self, workload: Workload) -> dict[str, int] | None:
        """Returns the Definition's variable axes at a workload, or None if the Definition does not cover it."""
        named = self.op.named_sizes(workload)
        if any(named[name] != size for name, size in self.fixed.items()):
            return None
        return {name: named[of] for name, of in self.names.items()}

    def place(self, name: str) -> tuple[str, int] | None:
        """Returns the first input with a size of the op, and its dimension, or None if no input has it."""
        for tensor in self.op.inputs:
            if name in tensor.dims:
                return tensor.name, tensor.dims.index(name)
        return None


def match(op: Op, definition: Definition) -> Match:
    """Matches a Definition with an op; raises UsageError with the difference."""
    inputs = {name: each for name, each in definition.inputs.items() if each.shape is not None}
    scalars = {name: each for name, each in definition.inputs.items() if each.shape is None}
    _same_names(op, "inputs", {spec.name for spec in op.inputs}, set(inputs))
    _same_names(op, "scalars", set(op.scalars), set(scalars))
    _same_names(op, "outputs", {spec.name for spec in op.outputs}, set(definition.outputs))
    fixed = _dtype_axes(op, definition)
    found = Match(op.at(fixed), definition, fixed, {})
    op = found.op
    for spec in op.tensors:
        _match_tensor(found, spec, definition.tensors[spec.name])
    if left := [name for name in _variable(definition) if name not in found.names]:
        raise UsageError(f"{definition.name}: no tensor tells the axis {left[0]}", "each variable axis is a size")
    return found


def _dtype_axes(op: Op, definition: Definition) -> dict[str, int]:
    """Returns the sizes of axes that decide element types; no tensor has such an axis, so the Definition gives them."""
    found = {}
    for name in dict.fromkeys(spec.dtype.axis for spec in op.tensors if isinstance(spec.dtype, DtypeOf)):
        axis = definition.axes.get(name)
        if axis is None or axis.value is None:
            raise UsageError(f"{definition.name} does not tell {name}, which decides element types", "give it a value")
        found[name] = axis.value
        op.workload({name: axis.value})
    return found


def _variable(definition: Definition) -> list[str]:
    return [name for name, axis in definition.axes.items() if axis.type == "var"]


def _same_names(op: Op, what: str, ours: set[str], theirs: set[str]) -> None:
    if ours != theirs:
        differing = ", ".join(sorted(ours ^ theirs))
        raise UsageError(
            f"the Definition's {what} are not those of {op.name}: {differing}", "name another op with --op"
        )


def _match_tensor(found: Match, spec: TensorSpec, defined: DefinedTensor) -> None:
    where = f"{found.definition.name}: {spec.name}"
    if DTYPE_NAMES.get(spec.settled) != defined.dtype:
        raise UsageError(f"{where} is {defined.dtype}, and of {found.op.name} {spec.dtype}", "name another op")
    shape = defined.shape or []
    if len(shape) != len(spec.dims):
        raise UsageError(f"{where} has {len(shape)} axes, and of {found.op.name} {len(spec.dims)}", "name another op")
    for dim, name in zip(spec.dims, shape, strict=True):
        _match_size(found, dim, name, where)


def _match_size(found: Match, dim: str | int, name: str, where: str) -> None:
    axis = found.definition.axes[name]
    if axis.value is None:
        varies = isinstance(dim, str) and dim not in found.op.workloads.default.compile_time
        if not varies or found.names.setdefault(name, str(dim)) != dim:
            raise UsageError(f"{where}: the axis {name} varies, and {dim} does not vary so", "name another op")
        return
    if isinstance(dim, int):
        if dim != axis.value:
            raise UsageError(f"{where}: the size {name} is {axis.value}, and of {found.op.name} {dim}", "name another")
        return
    if found.fixed.setdefault(dim, axis.value) != axis.value:
        raise UsageError(f"{where}: the size {name} is {axis.value}, and {dim} is {found.fixed[dim]}", "name another")
