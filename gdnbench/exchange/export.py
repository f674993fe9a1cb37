"""Writes ops, kernels, workloads and runs as a data set of flashinfer-bench; inputs are drawn in a subprocess."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import select_variants
from gdnbench.errors import MachineError, UsageError
from gdnbench.exchange.definition import (
    PlannedWorkload,
    blob_path,
    definition_of,
    drawn_inputs,
    plan_workloads,
    workload_traces,
)
from gdnbench.exchange.match import BLOBS_FOLDER, MOST_BLOB_BYTES, ExportedKernel, Match, match, stored_workloads
from gdnbench.exchange.schema import (
    Definition,
    ExtensionBinding,
    Trace,
    TracedWorkload,
    as_file,
    as_lines,
    check_path,
    definition_path,
    lines_path,
    solution_path,
)
from gdnbench.exchange.solution import run_traces, solution_of
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.workload import Workload
from gdnbench.process.command import PYTHON, run_tool
from gdnbench.process.worker import python_path
from gdnbench.regular_file import read_regular
from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_by_clock
from gdnbench.wording import first_of

_LIMIT_S = 600.0


def draw(
    match: Match, folder: Path, planned: Sequence[PlannedWorkload], stored: Sequence[str], to: Path
) -> dict[str, dict[str, float]]:
    """Draws typical inputs by the numerics in `folder`, and writes the `stored` ones to the data set `to`.

    Returns the scalars by uuid and name; raises MachineError if the numerics fail.
    """
    if not (stored or match.op.scalars):
        return {each.uuid: {} for each in planned}
    job = {
        "op_folder": str(folder),
        "stored": list(stored),
        "workloads": [
            {"uuid": each.uuid, "sizes": each.workload.sizes, "seed": each.number,
             "file": str(to / blob_path(match, each.uuid))}
            for each in planned
        ],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "job.json")
        path.write_text(json.dumps(job))
        done = run_tool(
            [*PYTHON, "-m", "gdnbench.exchange.export", str(path)],
            limit_s=_LIMIT_S,
            environment={"PYTHONPATH": python_path()},
        )
        if done.returncode:
            reason = (done.errors.strip().splitlines() or ["it ended without a word"])[-1]
            raise MachineError(f"the inputs of {match.op.name} cannot be drawn: {reason}", "see its numerics.py")
        answer: dict[str, dict[str, float]] = json.loads(path.with_name("scalars.json").read_text())
    return answer


def main(path: Path) -> None:
    """Runs a job, and writes `scalars.json` beside it."""
    from gdnbench.catalog.entry import Broken
    from gdnbench.catalog.load import load_op
    from gdnbench.launch.numerics import load_numerics

    job: Mapping[str, Any] = json.loads(path.read_text())
    folder = Path(job["op_folder"])
    loaded = load_op(folder)
    if isinstance(loaded, Broken):
        sys.exit(loaded.reason)
    numerics, op = load_numerics(loaded.op, folder), loaded.op
    scalars_of = {}
    for each in job["workloads"]:
        workload = op.workload(each["sizes"])
        tensors, scalars = numerics.make_inputs(workload, each["seed"], "cpu", op.scenarios[0])
        scalars_of[each["uuid"]] = {name: float(scalars[name]) for name in op.scalars}
        if job["stored"]:
            from safetensors.torch import save_file

            file = Path(each["file"])
            file.parent.mkdir(parents=True, exist_ok=True)
            save_file({name: tensors[name].contiguous() for name in job["stored"]}, file)
    path.with_name("scalars.json").write_text(json.dumps(scalars_of))


if __name__ == "__main__":
    main(Path(sys.argv[1]))


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """What to write, and to which folder.

    Attributes:
        kernels: names, presets and globs as typed; empty for no Solution.
        definition: a foreign one, whose names and order of arguments count; None for the op's own.
        run: a stored run whose cases become traces.
        binding: of kernels in CUDA C++.
        store_inputs: whether to store all inputs as the op draws them; else the reader draws them at random.
    """

    op: str
    kernels: str
    weights: Mapping[Workload, float]
    to: Path
    definition: Definition | None = None
    run: Path | None = None
    author: str = "gdnbench"
    binding: ExtensionBinding = "tvm-ffi"
    store_inputs: bool = False


@dataclass
class Written:
    """The files written, relative to the data set's folder, in order, and notes on them."""

    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def export(catalog: Catalog, request: ExportRequest) -> Written:
    """Writes a data set; replaces files of the same names.

    Raises UsageError if the format cannot hold the request, or the folder cannot be written; UnknownNameError for an
    unknown kernel; RunFormatError if the run cannot be read; MachineError if the inputs cannot be drawn.
    """
    op, folder = catalog.ops[request.op], catalog.op_folders[request.op]
    variants = select_variants(catalog, request.op, request.kernels) if request.kernels else ()
    written = Written()
    groups: dict[tuple[int, ...], dict[Workload, float]] = {}  # by compile-time axes: each has a Definition of its own
    for workload, weight in request.weights.items():
        groups.setdefault(tuple(workload.compile_time.values()), {})[workload] = weight
    for weights in groups.values():
        definition = request.definition or definition_of(op, folder, next(iter(weights)))
        matched = match(op, definition)
        covered = {workload: weight for workload, weight in weights.items() if matched.axes(workload) is not None}
        if covered:
            _DefinitionExport(catalog, request, matched, covered, variants, written).write()
    if not written.files:
        raise UsageError(f"no workload is one of {definition.name}", "name its sizes with --shape")
    return written


@dataclass(frozen=True)
class _DefinitionExport:
    """What is written of one Definition: the kernels and the weighted workloads that it covers."""

    catalog: Catalog
    request: ExportRequest
    match: Match
    weights: Mapping[Workload, float]
    variants: Sequence[Variant]
    written: Written

    def write(self) -> None:
        definition, to = self.match.definition, self.request.to
        solutions = []
        for variant in self.variants:
            entry, there = self._picked(variant)
            subject = ExportedKernel(entry, there, self.match, list(self.weights))
            solutions.append(solution_of(subject, author=self.request.author, binding=self.request.binding))
        _write(to, definition_path(definition), as_file(definition), self.written)
        for solution in solutions:
            _write(to, solution_path(definition, solution), as_file(solution), self.written)
        if solutions:
            self._note_others(solution_path(definition, solutions[0]).parent)
        lines = self._write_workloads()
        if self.request.run:
            traces = self._traces(self.request.run, lines)
            if traces:
                _write(to, lines_path("traces", definition), as_lines(traces), self.written)
            else:
                text = f"{definition.name} has no traces: {self.request.run.name} evaluated no case of it"
                self.written.notes.append(f"{text} at {first_of([str(workload) for workload in self.weights])}")

    def _picked(self, variant: Variant) -> tuple[CatalogEntry, Variant]:
        """Returns the variant at the first workload, and notes workloads at which a dispatcher picks another."""
        picks = {workload: self.catalog.at(variant, workload) for workload in self.weights}
        first, (entry, picked) = next(iter(picks.items()))
        own = (picked.kernel, picked.params)
        others = [str(workload) for workload, (_, each) in picks.items() if (each.kernel, each.params) != own]
        if others:
            text = (
                f"{variant.label} is exported as {picked.in_full}, as at {first}; at {', '.join(others)} it is another"
            )
            self.written.notes.append(f"{text}: a Solution has one set of params")
        return entry, picked

    def _write_workloads(self) -> dict[Workload, TracedWorkload]:
        """Writes the lines, unchanged for an imported op; returns the first one of each workload."""
        op, to, folder = self.match.op, self.request.to, self.catalog.op_folders[self.match.op.name]
        stored = [each for each in stored_workloads(folder) if each.definition == self.match.definition.name]
        lines = [(self.match.workload(each.workload), each) for each in stored]
        lines = [(workload, each) for workload, each in lines if workload in self.weights]
        if lines:
            self._copy_blobs(folder, [trace for _, trace in lines])
        else:
            planned = plan_workloads(self.match, self.weights)
            names = drawn_inputs(op, every=self.request.store_inputs)
            made = workload_traces(self.match, planned, draw(self.match, folder, planned, names, to), names)
            lines = [(each.workload, trace) for each, trace in zip(planned, made, strict=True)]
        text = as_lines([trace for _, trace in lines])
        _write(to, lines_path("workloads", self.match.definition), text, self.written)
        return {workload: trace.workload for workload, trace in reversed(lines)}

    def _copy_blobs(self, folder: Path, traces: Sequence[Trace]) -> None:
        inputs = [each for trace in traces for each in trace.workload.inputs.values() if each.type == "safetensors"]
        for name in dict.fromkeys(str(each.path) for each in inputs):
            path = self.request.to / check_path(name, str(folder))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(read_regular(folder / BLOBS_FOLDER / name, MOST_BLOB_BYTES))
            except OSError as error:
                text = f"cannot copy {name} to {path}: {error.strerror}"
                raise UsageError(text, "name another folder: --to") from error
            self.written.files.append(Path(name))

    def _traces(self, run: Path, lines: Mapping[Workload, TracedWorkload]) -> list[Trace]:
        """Returns the traces of a run; notes kernels whose code changed since, and those without a case."""
        info = read_info(run)
        rows = [row for clock in read_by_clock(run).values() for row in clock]
        labels = {variant.label for variant in self.variants}
        notes = [
            f"{name} has changed since {info.run_id}: its Solution is not the code that the traces are of"
            for name in sorted({row.case.variant.kernel for row in rows if row.case.label in labels})
            if self.catalog.code_state(name, info.sources.get(name, "")) is CodeState.CHANGED
        ]
        if without := sorted(labels - {row.case.label for row in rows}):
            notes.append(f"{info.run_id} has no case of {', '.join(without)}")
        # Each Definition reads the same run.
        self.written.notes += [note for note in notes if note not in self.written.notes]
        return run_traces(self.match, info, rows, lines, labels)

    def _note_others(self, folder: Path) -> None:
        """Notes Solutions of earlier exports, which stay, as they may be others' work."""
        solutions = sorted((self.request.to / folder).glob("*.json"))
        others = [path.name for path in solutions if folder / path.name not in self.written.files]
        if others:
            self.written.notes.append(
                f"{first_of(others)} of an earlier export, or of others, stay in {self.request.to / folder}, and a "
                "tool that runs this folder runs them, too: remove them, or export to an empty folder"
            )


def _write(root: Path, name: Path, text: str, written: Written) -> None:
    path = root / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a folder that is yours: --to DIR") from error
    written.files.append(name)
