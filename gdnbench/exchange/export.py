"""Writes ops, kernels, workloads and runs as a data set of flashinfer-bench; inputs are drawn in a subprocess."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
from gdnbench.exchange.match import BLOBS_FOLDER, MOST_BLOB_BYTES, ExportedKernel, Match, kept_workloads, match
from gdnbench.exchange.parse import check_path, definition_path, lines_path, solution_path
from gdnbench.exchange.schema import Definition, ExtensionBinding, Trace, TracedWorkload, as_file, as_lines
from gdnbench.exchange.solution import run_traces, solution_of
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.measurement import Measurement
from gdnbench.model.workload import Workload
from gdnbench.process.command import PYTHON, run_tool
from gdnbench.process.worker import python_path
from gdnbench.regular_file import read_regular
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.measurements import read_by_clock
from gdnbench.wording import first_of

_LIMIT_S = 600.0


def draw(
    match: Match, folder: Path, planned: Sequence[PlannedWorkload], stored: Sequence[str], to: Path
) -> dict[str, dict[str, float]]:
    """Draws each workload's typical inputs, writes the `stored` ones, and returns the scalars by uuid and name.

    Raises MachineError if the numerics fail.

    Args:
        folder: of the op's numerics.
        to: the root of the data set.
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
    found = {}
    for each in job["workloads"]:
        workload = op.workload(each["sizes"])
        tensors, scalars = numerics.make_inputs(workload, each["seed"], "cpu", op.scenarios[0])
        found[each["uuid"]] = {name: float(scalars[name]) for name in op.scalars}
        if job["stored"]:
            from safetensors.torch import save_file

            file = Path(each["file"])
            file.parent.mkdir(parents=True, exist_ok=True)
            save_file({name: tensors[name].contiguous() for name in job["stored"]}, file)
    path.with_name("scalars.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """What to write, and where.

    Attributes:
        kernels: names, presets and globs as typed; empty for no Solution.
        weights: the workloads, with weights.
        to: the folder of the data set.
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
    for weights in _by_compile_time(request.weights):
        first = next(iter(weights))
        definition = request.definition or definition_of(op, folder, first)
        matched = match(op, definition)
        covered = {workload: weight for workload, weight in weights.items() if matched.axes(workload) is not None}
        if covered:
            _export_definition(catalog, request, matched, covered, variants, written)
    if not written.files:
        raise UsageError(f"no workload is one of {definition.name}", "name its sizes with --shape")
    return written


def _by_compile_time(weights: Mapping[Workload, float]) -> list[dict[Workload, float]]:
    """Groups workloads by their compile-time axes: each group belongs to one Definition."""
    groups: dict[tuple[int, ...], dict[Workload, float]] = {}
    for workload, weight in weights.items():
        groups.setdefault(tuple(workload.compile_time.values()), {})[workload] = weight
    return list(groups.values())


def _export_definition(
    catalog: Catalog,
    request: ExportRequest,
    matched: Match,
    weights: Mapping[Workload, float],
    variants: Sequence[Variant],
    written: Written,
) -> None:
    definition = matched.definition
    solutions = []
    for variant in variants:
        entry, there = _picked(catalog, variant, list(weights), written)
        subject = ExportedKernel(entry, there, matched, list(weights))
        solutions.append(solution_of(subject, author=request.author, binding=request.binding))
    _write(request.to, definition_path(definition), as_file(definition), written)
    for solution in solutions:
        _write(request.to, solution_path(definition, solution), as_file(solution), written)
    if solutions:
        written.notes += _notes_on_others(request.to, solution_path(definition, solutions[0]).parent, written)
    lines = _export_workloads(catalog, request, matched, weights, written)
    if request.run:
        traces = _traces(catalog, request.run, matched, lines, variants, written)
        if traces:
            _write(request.to, lines_path("traces", definition), as_lines(traces), written)
        else:
            told = f"{definition.name} has no traces: {request.run.name} evaluated no case of it"
            written.notes.append(f"{told} at {first_of([str(workload) for workload in weights])}")


def _picked(
    catalog: Catalog, variant: Variant, workloads: Sequence[Workload], written: Written
) -> tuple[CatalogEntry, Variant]:
    """Returns the variant at the first workload, and notes workloads at which a dispatcher picks another."""
    there = {workload: catalog.at(variant, workload) for workload in workloads}
    entry, first = there[workloads[0]]
    own = (first.kernel, first.params)
    others = [str(workload) for workload, (_, each) in there.items() if (each.kernel, each.params) != own]
    if others:
        told = f"{variant.label} is exported as {first.in_full}, as at {workloads[0]}"
        why = "it is another: a Solution has one set of params"
        written.notes.append(f"{told}; at {', '.join(others)} {why}")
    return entry, first


def _export_workloads(
    catalog: Catalog, request: ExportRequest, matched: Match, weights: Mapping[Workload, float], written: Written
) -> dict[Workload, TracedWorkload]:
    """Writes the lines, unchanged for an imported op; returns the first one of each workload."""
    op, folder = matched.op, catalog.op_folders[matched.op.name]
    lines = _kept_lines(folder, matched, weights)
    if lines:
        _copy_blobs(folder, [trace for _, trace in lines], request.to, written)
    else:
        planned = plan_workloads(matched, weights)
        stored = drawn_inputs(op, every=request.store_inputs)
        scalars = draw(matched, folder, planned, stored, request.to)
        made = workload_traces(matched, planned, scalars, stored)
        lines = [(each.workload, trace) for each, trace in zip(planned, made, strict=True)]
    _write(request.to, lines_path("workloads", matched.definition), as_lines([trace for _, trace in lines]), written)
    found: dict[Workload, TracedWorkload] = {}
    for workload, trace in lines:
        found.setdefault(workload, trace.workload)
    return found


def _kept_lines(folder: Path, matched: Match, weights: Mapping[Workload, float]) -> list[tuple[Workload, Trace]]:
    kept = [each for each in kept_workloads(folder) if each.definition == matched.definition.name]
    lines = [(matched.workload(each.workload), each) for each in kept]
    return [(workload, each) for workload, each in lines if workload in weights]


def _copy_blobs(folder: Path, traces: Sequence[Trace], to: Path, written: Written) -> None:
    told = [each for trace in traces for each in trace.workload.inputs.values() if each.type == "safetensors"]
    for name in dict.fromkeys(str(each.path) for each in told):
        path = to / check_path(name, str(folder))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(read_regular(folder / BLOBS_FOLDER / name, MOST_BLOB_BYTES))
        except OSError as error:
            raise UsageError(f"cannot copy {name} to {path}: {error.strerror}", "name another folder: --to") from error
        written.files.append(Path(name))


def _traces(
    catalog: Catalog,
    run: Path,
    matched: Match,
    lines: Mapping[Workload, TracedWorkload],
    variants: Sequence[Variant],
    written: Written,
) -> list[Trace]:
    info = read_info(run)
    rows = [row for clock in read_by_clock(run).values() for row in clock]
    labels = {variant.label for variant in variants}
    notes = [*_changed(catalog, info, rows, labels)]
    if without := sorted(labels - {row.case.label for row in rows}):
        notes.append(f"{info.run_id} has no case of {', '.join(without)}")
    written.notes += [note for note in notes if note not in written.notes]  # each Definition reads the same run
    return run_traces(matched, info, rows, lines, labels)


def _changed(catalog: Catalog, info: RunInfo, rows: Sequence[Measurement], labels: set[str]) -> Iterator[str]:
    """Yields a note for each kernel whose code changed since the run."""
    kernels = {row.case.variant.kernel for row in rows if row.case.label in labels}
    for name in sorted(kernels):
        if catalog.code_state(name, info.sources.get(name, "")) is CodeState.CHANGED:
            yield f"{name} has changed since {info.run_id}: its Solution is not the code that the traces are of"


def _notes_on_others(root: Path, solutions: Path, written: Written) -> Iterator[str]:
    """Yields a note on Solutions of earlier exports, which stay, as they may be others' work."""
    others = [
        path.name for path in sorted((root / solutions).glob("*.json")) if solutions / path.name not in written.files
    ]
    if others:
        yield (
            f"{first_of(others)} of an earlier export, or of others, stay in {root / solutions}, and a tool that runs "
            "this folder runs them, too: remove them, or export to an empty folder"
        )


def _write(root: Path, name: Path, text: str, written: Written) -> None:
    path = root / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a folder that is yours: --to DIR") from error
    written.files.append(name)
