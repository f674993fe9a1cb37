"""Makes ops, kernels and published figures from files of flashinfer-bench; runs none of their code."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join, quote
from typing import Any

from gdnbench.analyse.sources import PUBLISHED_COLUMNS, PUBLISHED_NAME
from gdnbench.catalog.catalog import KERNELS_VARIABLE, Catalog, default_roots, load_catalog
from gdnbench.catalog.entry import Broken
from gdnbench.catalog.load import LoadedOp, load_kernel, load_op
from gdnbench.catalog.new_kernel import folder_of, write_folder
from gdnbench.errors import DeclarationError, GdnbenchError, UnknownNameError, UsageError
from gdnbench.exchange.import_documents import kernel_files, kernel_name, op_files
from gdnbench.exchange.match import DEFINITION_FILE, Match, match, stored_definition
from gdnbench.exchange.schema import DataSetFiles, Definition, Solution, Trace, read_files, safe_name
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.workload import Workload
from gdnbench.origin import out_option
from gdnbench.store.files import write_table
from gdnbench.store.find import PUBLISHED_FOLDER
from gdnbench.wording import plural

TIMER = "flashinfer-bench"


def _import_figures(results: Path, match: Match, traces: Sequence[Trace], imported: Imported) -> None:
    """Writes a table of traces for each GPU into a results folder.

    A workload of several traces, each with other inputs, gets the geometric mean of their latencies, and a note with
    their number. Traces without a latency, or of workloads that the op does not have, are counted in a note.
    """
    by_gpu: dict[str, dict[tuple[str, Workload], list[Trace]]] = {}
    left_out: dict[str, int] = {}
    for trace in traces:
        assert trace.evaluation
        gpu = gpu_slug(trace.evaluation.environment.hardware.replace("_", " "))
        workload = _workload(match, trace)
        if workload is None:
            left_out[gpu] = left_out.get(gpu, 0) + 1
        else:
            key = (safe_name(trace.solution or "") or "solution", workload)
            by_gpu.setdefault(gpu, {}).setdefault(key, []).append(trace)
    for gpu, cases in by_gpu.items():
        name = safe_name(f"{match.definition.name}-{gpu}")
        rows = [_row(match, gpu, kernel, workload, same) for (kernel, workload), same in cases.items()]
        imported.folders.append(_write_figures(results, name, rows))
        imported.published.append(name)
        if gpu in left_out:
            imported.notes.append(f"{name}: {plural(left_out[gpu], 'trace')} without a latency left out")


def _workload(match: Match, trace: Trace) -> Workload | None:
    performance = trace.evaluation.performance if trace.evaluation else None
    if performance is None or not performance.latency_ms > 0:
        return None
    try:
        return match.workload(trace.workload)
    except GdnbenchError:
        return None


def _row(match: Match, gpu: str, kernel: str, workload: Workload, traces: Sequence[Trace]) -> dict[str, Any]:
    evaluations = [trace.evaluation for trace in traces if trace.evaluation]
    latencies = [each.performance.latency_ms for each in evaluations if each.performance]
    mean_ms = math.exp(sum(map(math.log, latencies)) / len(latencies))
    return {
        "op": match.op.name,
        "kernel": kernel,
        "timer": TIMER,
        **workload.cells,
        "time_us": f"{mean_ms * 1000:.6g}",
        "gpu": gpu,
        "published_in": f"traces of {safe_name(match.definition.name)}",
        "published_on": safe_name(max(each.timestamp for each in evaluations)[:10]),
        "note": f"geometric mean of {len(latencies)} workloads of these sizes" if len(latencies) > 1 else "",
    }


def _write_figures(results: Path, name: str, rows: Sequence[dict[str, Any]]) -> Path:
    assert set(PUBLISHED_COLUMNS) <= rows[0].keys()
    folder = results / PUBLISHED_FOLDER / name
    if folder.exists():
        raise UsageError(f"{folder} exists", "remove it first, or name another results folder with --out")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "name another folder with --out") from error
    write_table(folder / PUBLISHED_NAME, rows, tuple(rows[0]))
    return folder


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What to read: files, or folders of data sets; and where to write kernels and published figures.

    `op` is one of the catalog for the Solutions, or empty for one made from their Definition; `name` is the kernel's,
    for a single Solution.
    """

    files: list[Path]
    to: Path
    op: str = ""
    name: str = ""
    results: Path


@dataclass
class Imported:
    """The result of an import: names of new ops, kernels and tables of published figures, and the folders written.

    `root` is the folder of kernels, `results` that of runs and published figures.
    """

    root: Path
    results: Path
    ops: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def next_steps(self) -> list[str]:
        """Commands that continue with the import."""
        is_elsewhere = bool(self.ops or self.kernels) and self.root not in default_roots()
        steps = [f"export {KERNELS_VARIABLE}={quote(str(self.root))}"] if is_elsewhere else []
        steps += [f"gdnbench verify {' '.join(self.kernels)}"] if self.kernels else []
        for name in self.published[:1]:
            steps.append(join(("gdnbench", "compare", f"published/{name}", *out_option(self.results))))
        return steps or ["gdnbench list"]


def import_files(request: ImportRequest) -> Imported:
    """Reads files and writes folders: an op for a Definition, a kernel for a Solution, a table for traces.

    Raises UsageError for an invalid file, a Solution or line whose Definition is unknown, a name that is taken, or a
    folder that cannot be written; DeclarationError if the result would not load; it is removed.
    """
    files, to = read_files(request.files), request.to.expanduser().resolve()
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is not a folder", "--to takes a folder of kernels, as `kernels/` is")
    if request.name and len(files.solutions) != 1:
        raise UsageError(f"--name names one kernel, and there are {len(files.solutions)} Solutions", "import one")
    imported, catalog = Imported(to, request.results), _catalog(to)
    if request.op and request.op not in catalog.ops:
        raise UnknownNameError(f"there is no op {request.op}", f"there are {', '.join(catalog.ops)}")
    if not request.op:
        for definition in files.definitions.values():
            _import_op(to, definition, files, imported)
        catalog = _catalog(to)
    known = {**_stored_definitions(catalog), **files.definitions}
    try:
        for solution in files.solutions:
            _import_kernel(catalog, request, solution, _definition_of(known, solution.definition), imported)
            catalog = _catalog(to)
    except GdnbenchError:
        _remove_empty_ops(imported)
        raise
    _import_traces(catalog, request, files.traces, known, imported)
    return imported


def _catalog(root: Path) -> Catalog:
    roots = default_roots()
    return load_catalog(roots if root in roots or not root.is_dir() else (*roots, root))


def _stored_definitions(catalog: Catalog) -> dict[str, Definition]:
    folders = [folder for folder in catalog.op_folders.values() if (folder / DEFINITION_FILE).is_file()]
    return {definition.name: definition for definition in map(stored_definition, folders)}


def _definition_of(known: Mapping[str, Definition], name: str) -> Definition:
    if name not in known:
        raise UsageError(f"the Definition {name[:80]!r} is not among the files", "name its file, too")
    return known[name]


def op_name(definition: Definition) -> str:
    """Returns the op's name for a Definition."""
    name = safe_name(definition.name)
    if not name:
        raise UsageError(f"the Definition's name {definition.name[:40]!r} has no letter", "rename it")
    return name


def _import_op(to: Path, definition: Definition, files: DataSetFiles, imported: Imported) -> None:
    name = op_name(definition)
    if name in _catalog(to).ops:
        folder = _catalog(to).op_folders[name]
        if (folder / DEFINITION_FILE).is_file() and stored_definition(folder) == definition:
            imported.notes.append(f"the op {name} was imported before, and stays as it is")
            return
        raise UsageError(f"there is an op {name}: {folder}", "with --op its kernels are added to that")
    lines = [(trace, root) for trace, root in files.workloads if trace.definition == definition.name]
    folder = to / name
    write_folder(folder, op_files(definition, name, lines), _check_op)
    imported.ops.append(name)
    imported.folders.append(folder)
    if definition.constraints:
        imported.notes.append(f"{name}: its constraints are kept in {DEFINITION_FILE}, and not checked")


def _remove_empty_ops(imported: Imported) -> None:
    """Removes the new ops that have none of their kernels, so that the import can be repeated."""
    for name in imported.ops:
        folder = imported.root / name
        if not any(folder in made.parents for made in imported.folders):
            shutil.rmtree(folder)


def _check_op(folder: Path) -> None:
    loaded = load_op(folder)
    if isinstance(loaded, Broken):
        raise DeclarationError(f"the op does not load: {loaded.reason}", "what its Definition says contradicts itself")


def _import_kernel(
    catalog: Catalog, request: ImportRequest, solution: Solution, definition: Definition, imported: Imported
) -> None:
    own = request.op or op_name(definition)
    if own not in catalog.ops:
        raise UsageError(f"there is no op {own} for {solution.name[:80]}", "name the Definition's file, too, or --op")
    op = catalog.ops[own]
    if request.op:
        match(op, definition)  # raises if its tensors are not this op's
    name = request.name or kernel_name(solution, own)
    taken = {label for entry in catalog.entries.values() for label in (entry.kernel.name, *entry.kernel.presets)}
    if name in taken:
        raise UsageError(f"there is a kernel {name}", "choose another name with --name")
    loaded = LoadedOp(op, catalog.op_folders[own])
    folder = imported.root / own / safe_name(folder_of(name, own))

    def check(made: Path) -> None:
        kernel = load_kernel(made, loaded)
        if isinstance(kernel, Broken):
            raise DeclarationError(f"the kernel does not load: {kernel.reason}", "choose another name with --name")

    write_folder(folder, kernel_files(solution, definition, name), check)
    imported.kernels.append(name)
    imported.folders.append(folder)


def _import_traces(
    catalog: Catalog, request: ImportRequest, traces: list[Trace], known: Mapping[str, Definition], imported: Imported
) -> None:
    for name in dict.fromkeys(trace.definition for trace in traces):
        matched = _matching(catalog, request.op, _definition_of(known, name))
        own = [trace for trace in traces if trace.definition == name]
        _import_figures(request.results, matched, own, imported)


def _matching(catalog: Catalog, op: str, definition: Definition) -> Match:
    """Returns the op of a Definition: the named one, the one made from it, or one with its tensors."""
    if op or op_name(definition) in catalog.ops:
        return match(catalog.ops[op or op_name(definition)], definition)
    for each in catalog.ops.values():
        try:
            return match(each, definition)
        except UsageError:
            continue
    raise UsageError(f"no op has the tensors of {definition.name[:80]}", "import its Definition, too")
