"""Matches a Definition with an op through the tensors, and what an imported folder keeps of its documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import UsageError
from gdnbench.exchange import schema
from gdnbench.exchange.reference import LaunchSize, sizes_of
from gdnbench.model.case import Variant
from gdnbench.model.declaration import DtypeOf, Params, TensorSpec
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload


@dataclass(frozen=True)
class Match:
    """A Definition of an op: `fixed` are sizes that it makes constant, `names` the op's of its variable axes."""

    op: Op
    definition: schema.Definition
    fixed: dict[str, int]
    names: dict[str, str]

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


def match(op: Op, definition: schema.Definition) -> Match:
    """Matches a Definition with an op; raises UsageError with the difference."""
    inputs = {name: each for name, each in definition.inputs.items() if each.shape is not None}
    scalars = {name: each for name, each in definition.inputs.items() if each.shape is None}
    _same_names(op, "inputs", {spec.name for spec in op.inputs}, set(inputs))
    _same_names(op, "scalars", set(op.scalars), set(scalars))
    _same_names(op, "outputs", {spec.name for spec in op.outputs}, set(definition.outputs))
    fixed = _dtype_axes(op, definition)
    matched = Match(op.at(fixed), definition, fixed, {})
    for spec in matched.op.tensors:
        _match_tensor(matched, spec, definition.tensors[spec.name])
    if left := [name for name, axis in definition.axes.items() if axis.value is None and name not in matched.names]:
        raise UsageError(f"{definition.name}: no tensor tells the axis {left[0]}", "each variable axis is a size")
    return matched


def _dtype_axes(op: Op, definition: schema.Definition) -> dict[str, int]:
    """Returns the sizes of axes that decide element types; no tensor has such an axis, so the Definition gives them."""
    sizes = {}
    for name in dict.fromkeys(spec.dtype.axis for spec in op.tensors if isinstance(spec.dtype, DtypeOf)):
        axis = definition.axes.get(name)
        if axis is None or axis.value is None:
            raise UsageError(f"{definition.name} does not tell {name}, which decides element types", "give it a value")
        sizes[name] = axis.value
        op.workload({name: axis.value})
    return sizes


def _same_names(op: Op, what: str, ours: set[str], theirs: set[str]) -> None:
    if ours != theirs:
        text = f"the Definition's {what} are not those of {op.name}: {', '.join(sorted(ours ^ theirs))}"
        raise UsageError(text, "name another op with --op")


def _match_tensor(matched: Match, spec: TensorSpec, defined: schema.DefinedTensor) -> None:
    op, shape = matched.op, defined.shape or []
    reason = ""
    if schema.DTYPE_NAMES.get(spec.settled) != defined.dtype:
        reason = f" is {defined.dtype}, and of {op.name} {spec.dtype}"
    elif len(shape) != len(spec.dims):
        reason = f" has {len(shape)} axes, and of {op.name} {len(spec.dims)}"
    for dim, name in zip(spec.dims, shape, strict=True) if not reason else ():
        value = matched.definition.axes[name].value
        if value is None:
            varies = isinstance(dim, str) and dim not in op.workloads.default.compile_time
            if not varies or matched.names.setdefault(name, str(dim)) != dim:
                reason = f": the axis {name} varies, and {dim} does not vary so"
        elif isinstance(dim, int) and dim != value:
            reason = f": the size {name} is {value}, and of {op.name} {dim}"
        elif isinstance(dim, str) and matched.fixed.setdefault(dim, value) != value:
            reason = f": the size {name} is {value}, and {dim} is {matched.fixed[dim]}"
        if reason:
            break
    if reason:
        raise UsageError(f"{matched.definition.name}: {spec.name}{reason}", "name another op")


SOLUTION_FILE = "solution.json"
SOURCES_FOLDER = "source"


def solution_files(solution: schema.Solution) -> dict[Path, bytes]:
    """Returns a Solution as files of a kernel's folder."""
    document = msgspec.to_builtins(solution)
    document["sources"] = [source.path for source in solution.sources]
    files = {Path(SOURCES_FOLDER, source.path): source.content.encode() for source in solution.sources}
    return {Path(SOLUTION_FILE): schema.encoded(document), **files}


def stored_solution(folder: Path) -> schema.Solution:
    """Reads the Solution that a kernel was imported from, with its current sources; raises UsageError if invalid."""
    path = folder / SOLUTION_FILE
    document = json.loads(schema.read_text(path))
    document["sources"] = [
        {"path": name, "content": schema.read_text(folder / SOURCES_FOLDER / name)} for name in document["sources"]
    ]
    return schema.parse_solution(json.dumps(document), str(path))


def literal(text: str) -> str:
    """Returns a text as a Python string literal."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


def one_line(text: str) -> str:
    """Returns the first line of a text, at most 100 printable characters."""
    first = (text.strip().splitlines() or [""])[0]
    return "".join(each for each in first if each.isprintable())[:100]


@dataclass(frozen=True)
class ExportedKernel:
    """A variant that becomes a Solution, with its Definition, and the workloads to export, at least one."""

    entry: CatalogEntry
    variant: Variant
    match: Match
    workloads: Sequence[Workload]

    @property
    def title(self) -> str:
        """The kernel with all of its params and the Definition, for comments."""
        return f"{self.variant.in_full} for {self.match.definition.name}"

    @property
    def known(self) -> dict[str, int]:
        """The op's sizes that are constant in the Definition: compile-time axes and others that it fixes."""
        return {**self.workloads[0].compile_time, **self.match.fixed}

    @property
    def unknown(self) -> dict[str, tuple[str, int]]:
        """The axes and derived sizes that inputs have, each with an input and the dimension."""
        op = self.match.op
        names = [*(axis.name for axis in op.workloads.axes if not axis.compile_time), *op.derived]
        places = {name: self.match.place(name) for name in names if name not in self.known}
        return {name: place for name, place in places.items() if place}

    def sizes_of(self, function: Callable[[Any, Params], Any]) -> tuple[LaunchSize, ...]:
        """Returns the results of a function of a launch's declaration: see `reference.sizes_of`."""
        op, varying = self.match.op, list(self.unknown)
        return sizes_of(function, self.variant.params, self.known, varying, self.workloads, op.named_sizes)

    def size_text(self, dim: str | int) -> str:
        """Returns a size as text: a number, or the name of a run-time size."""
        if isinstance(dim, int):
            return str(dim)
        if dim in self.known:
            return str(self.known[dim])
        if dim not in self.unknown:
            raise UsageError(f"{self.variant.label} needs {dim}, which no input's sizes tell", "export another kernel")
        return dim

    def scratch_dims(self, spec: TensorSpec) -> list[str]:
        """Returns the sizes of scratch memory as texts; they may name params."""
        params = {**self.variant.params}
        return [str(params[dim]) if dim in params else self.size_text(dim) for dim in spec.dims]
