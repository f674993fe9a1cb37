"""Writes ops, kernels and workloads as a data set of flashinfer-bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import select_variants
from gdnbench.errors import UsageError
from gdnbench.exchange.definition import definition_of
from gdnbench.exchange.match import BLOBS_FOLDER, ExportedKernel, Match, match, read_blob, stored_workloads
from gdnbench.exchange.schema import (
    Definition,
    ExtensionBinding,
    Trace,
    as_file,
    as_lines,
    check_path,
    definition_path,
    solution_path,
    workloads_path,
)
from gdnbench.exchange.solution import solution_of
from gdnbench.exchange.workloads import new_lines
from gdnbench.model.case import Variant
from gdnbench.model.workload import Workload
from gdnbench.wording import first_of


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
    for group in groups.values():
        definition = foreign or definition_of(op, folder, next(iter(group)))
        matched = match(op, definition)
        covered = {workload: weight for workload, weight in group.items() if matched.axes(workload) is not None}
        if covered:
            picked = [_picked(catalog, variant, list(covered), data) for variant in variants]
            subjects = [ExportedKernel(entry, variant, matched, list(covered)) for entry, variant in picked]
            solutions = [solution_of(subject, author, binding) for subject in subjects]
            data.write(definition_path(definition), as_file(definition))
            for solution in solutions:
                data.write(solution_path(definition, solution), as_file(solution))
            if solutions:
                _note_others(data, solution_path(definition, solutions[0]).parent)
            lines = _stored_lines(matched, folder, covered, data) or new_lines(matched, folder, covered, to)
            data.write(workloads_path(definition), as_lines(lines))
    if not data.files:
        raise UsageError(f"no workload is one of {definition.name}", "name its sizes with --shape")
    return data


def _picked(
    catalog: Catalog, variant: Variant, workloads: Sequence[Workload], data: DataSet
) -> tuple[CatalogEntry, Variant]:
    """Returns the variant at the first workload, and notes workloads at which a dispatcher picks another."""
    picks = {workload: catalog.at(variant, workload) for workload in workloads}
    first, (entry, picked) = next(iter(picks.items()))
    own = (picked.kernel, picked.params)
    others = [str(workload) for workload, (_, each) in picks.items() if (each.kernel, each.params) != own]
    if others:
        text = f"{variant.label} is exported as {picked.in_full}, as at {first}; at {', '.join(others)} it is another"
        data.notes.append(f"{text}: a Solution has one set of params")
    return entry, picked


def _stored_lines(matched: Match, folder: Path, weights: Mapping[Workload, float], data: DataSet) -> list[Trace]:
    """Returns the lines that an op was imported with, as they were, and writes the inputs that they name."""
    stored = [each for each in stored_workloads(folder) if each.definition == matched.definition.name]
    lines = [each for each in stored if matched.workload(each.workload) in weights]
    inputs = [each for line in lines for each in line.workload.inputs.values() if each.type == "safetensors"]
    for name in dict.fromkeys(str(each.path) for each in inputs):
        data.write(Path(check_path(name, str(folder))), read_blob(folder / BLOBS_FOLDER / name))
    return lines


def _note_others(data: DataSet, folder: Path) -> None:
    """Notes Solutions of earlier exports, which stay, as they may be others' work."""
    solutions = sorted((data.to / folder).glob("*.json"))
    if others := [path.name for path in solutions if folder / path.name not in data.files]:
        data.notes.append(
            f"{first_of(others)} of an earlier export, or of others, stay in {data.to / folder}, and a "
            "tool that runs this folder runs them, too: remove them, or export to an empty folder"
        )
