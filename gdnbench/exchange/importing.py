"""Makes ops and kernels from files of flashinfer-bench; runs none of their code."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from gdnbench.catalog.catalog import KERNELS_VARIABLE, Catalog, default_roots, load_catalog
from gdnbench.catalog.entry import Broken
from gdnbench.catalog.load import LoadedOp, load_kernel, load_op
from gdnbench.catalog.new_kernel import folder_of, write_folder
from gdnbench.errors import DeclarationError, GdnbenchError, UnknownNameError, UsageError
from gdnbench.exchange.import_documents import kernel_files, kernel_name, op_files
from gdnbench.exchange.match import DEFINITION_FILE, match, stored_definition
from gdnbench.exchange.schema import DataSetFiles, Definition, Solution, read_files, safe_name


@dataclass
class Imported:
    """The result of an import: names of new ops and kernels, and their folders in the folder of kernels, `root`."""

    root: Path
    ops: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def next_steps(self) -> list[str]:
        """Commands that continue with the import."""
        is_elsewhere = bool(self.ops or self.kernels) and self.root not in default_roots()
        steps = [f"export {KERNELS_VARIABLE}={quote(str(self.root))}"] if is_elsewhere else []
        steps += [f"gdnbench verify {' '.join(self.kernels)}"] if self.kernels else []
        return steps or ["gdnbench list"]


def import_files(paths: list[Path], to: Path, op: str = "", name: str = "") -> Imported:
    """Reads files, or folders of data sets, and makes an op of a Definition, a kernel of a Solution.

    `op` is one of the catalog for the Solutions, or empty for one made from their Definition; `name` is the kernel's,
    for a single Solution. Raises UsageError for an invalid file, a Solution whose Definition is unknown, a name that is
    taken, or a folder that cannot be written; DeclarationError if the result would not load; it is removed.
    """
    files, to = read_files(paths), to.expanduser().resolve()
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is not a folder", "--to takes a folder of kernels, as `kernels/` is")
    if name and len(files.solutions) != 1:
        raise UsageError(f"--name names one kernel, and there are {len(files.solutions)} Solutions", "import one")
    imported, catalog = Imported(to), _catalog(to)
    if not (files.definitions or files.solutions):
        raise UsageError("the files have no Definition and no Solution", "name one, or the folder of a data set")
    if op and op not in catalog.ops:
        raise UnknownNameError(f"there is no op {op}", f"there are {', '.join(catalog.ops)}")
    if not op:
        for definition in files.definitions.values():
            _import_op(to, definition, files, imported)
        catalog = _catalog(to)
    known = {**_stored_definitions(catalog), **files.definitions}
    try:
        for solution in files.solutions:
            if solution.definition not in known:
                message = f"the Definition {solution.definition[:80]!r} is not among the files"
                raise UsageError(message, "name its file, too")
            _import_kernel(catalog, solution, known[solution.definition], op, name, imported)
            catalog = _catalog(to)
    except GdnbenchError:
        _remove_empty_ops(imported)
        raise
    return imported


def _catalog(root: Path) -> Catalog:
    roots = default_roots()
    return load_catalog(roots if root in roots or not root.is_dir() else (*roots, root))


def _stored_definitions(catalog: Catalog) -> dict[str, Definition]:
    folders = [folder for folder in catalog.op_folders.values() if (folder / DEFINITION_FILE).is_file()]
    return {definition.name: definition for definition in map(stored_definition, folders)}


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
    catalog: Catalog, solution: Solution, definition: Definition, op_given: str, name_given: str, imported: Imported
) -> None:
    own = op_given or op_name(definition)
    if own not in catalog.ops:
        raise UsageError(f"there is no op {own} for {solution.name[:80]}", "name the Definition's file, too, or --op")
    op = catalog.ops[own]
    if op_given:
        match(op, definition)  # raises if its tensors are not this op's
    name = name_given or kernel_name(solution, own)
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
