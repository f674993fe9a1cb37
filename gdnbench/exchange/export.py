"""Writes an op at fixed compile-time axes as a Definition, its kernels as Solutions, and a suite as workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import select_variants
from gdnbench.errors import UsageError
from gdnbench.exchange.match import ExportedKernel, match
from gdnbench.exchange.reference import write_reference
from gdnbench.exchange.schema import (
    DTYPE_NAMES,
    DefinedAxis,
    DefinedTensor,
    Definition,
    ExtensionBinding,
    as_file,
    as_lines,
    safe_name,
)
from gdnbench.exchange.solution import solution_of
from gdnbench.exchange.workloads import new_lines
from gdnbench.model.case import Variant
from gdnbench.model.declaration import TensorSpec
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone, ignore


@dataclass
class DataSet:
    """A data set that is written: its folder, its files in order, relative to that, and notes on them."""

    to: Path
    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def write(self, name: Path, content: bytes) -> None:
        """Writes a file, and replaces one of that name; raises UsageError if it cannot be written."""
        path = self.to / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}", "name a folder that is yours: --to DIR"
            ) from error
        self.files.append(name)


def export(
    catalog: Catalog,
    op_name: str,
    kernels: str,
    weights: Mapping[Workload, float],
    to: Path,
    foreign: Definition | None,
    binding: ExtensionBinding,
    author: str,
    observer: Observer = ignore,
) -> DataSet:
    """Writes a data set; replaces files of the same names.

    `kernels` are names, presets and globs as typed, empty for no Solution. `foreign` is a Definition of others, whose
    names and order of arguments count; `binding` is of kernels in CUDA C++.

    Raises UsageError if the format cannot hold the request, or the folder cannot be written; UnknownNameError for an
    unknown kernel; MachineError if the inputs cannot be drawn.
    """
    op, folder = catalog.ops[op_name], catalog.op_folders[op_name]
    variants = select_variants(catalog, op_name, kernels) if kernels else ()
    data = DataSet(to)
    groups: dict[tuple[int, ...], dict[Workload, float]] = {}  # by compile-time axes: each has a Definition of its own
    for workload, weight in weights.items():
        groups.setdefault(tuple(workload.compile_time.values()), {})[workload] = weight
    observer(PhaseBegun("write", len(groups)))
    for group in groups.values():
        observer(StepChanged(str(next(iter(group)))))
        definition = foreign or definition_of(op, folder, next(iter(group)))
        matched = match(op, definition)
        covered = {workload: weight for workload, weight in group.items() if matched.axes(workload) is not None}
        if covered:
            picked = [_picked(catalog, variant, list(covered), data) for variant in variants]
            subjects = [ExportedKernel(entry, variant, matched, list(covered)) for entry, variant in picked]
            solutions = [solution_of(subject, author, binding) for subject in subjects]
            kind, name = safe_name(definition.op_type), safe_name(definition.name)
            data.write(Path("definitions", kind, f"{name}.json"), as_file(definition))
            for solution in solutions:
                data.write(Path("solutions", kind, name, f"{safe_name(solution.name)}.json"), as_file(solution))
            lines = new_lines(matched, folder, covered, to)
            data.write(Path("workloads", kind, f"{name}.jsonl"), as_lines(lines))
        observer(UnitDone())
    if not data.files:
        raise UsageError(f"no workload is one of {definition.name}", "name its sizes with --shape")
    return data


def _picked(
    catalog: Catalog, variant: Variant, workloads: Sequence[Workload], data: DataSet
) -> tuple[CatalogEntry, Variant]:
    picks = {workload: catalog.at(variant, workload) for workload in workloads}
    first, (entry, picked) = next(iter(picks.items()))
    own = (picked.kernel, picked.params)
    others = [str(workload) for workload, (_, each) in picks.items() if (each.kernel, each.params) != own]
    if others:
        text = f"{variant.label} is exported as {picked.in_full}, as at {first}; at {', '.join(others)} it is another"
        data.notes.append(f"{text}: a Solution has one set of params")
    return entry, picked


def definition_of(op: Op, folder: Path, workload: Workload) -> Definition:
    """An op's Definition at compile-time axes; UsageError if the format cannot hold it."""
    op, axes = op.at(workload.axes), _axes(op, workload)
    return Definition(
        name="_".join([op.name, *(f"{name}{size}" for name, size in workload.compile_time.items())]),
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
    return dim if isinstance(dim, str) else f"size_{dim}"
