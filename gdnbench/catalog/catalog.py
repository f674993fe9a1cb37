"""Finds the kernels: one folder per op, one folder per kernel."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.catalog.entry import Broken, CatalogEntry, label_parts
from gdnbench.catalog.load import LoadedOp, load_kernel, load_op, read_dispatch
from gdnbench.errors import DeclarationError, UnknownNameError
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.kernel import DispatchKernel
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.origin import bundled_kernels, command_origin, is_folder
from gdnbench.project import find_project
from gdnbench.wording import natural_key

KERNELS_VARIABLE = "GDNBENCH_KERNELS"


@dataclass(frozen=True)
class Catalog:
    """The ops and kernels in some folders, `roots`, by name; `broken` are the folders that could not be loaded.

    `own` are the roots of a project. Unless it was loaded with the `library`, their kernels alone are meant where none
    is named; without a project all are.
    """

    roots: tuple[Path, ...]
    ops: dict[str, Op]
    op_folders: dict[str, Path]
    entries: dict[str, CatalogEntry]
    broken: tuple[Broken, ...]
    own: tuple[Path, ...] = ()
    library: bool = False

    def op_hash(self, op: str) -> str:
        """Shortened SHA-256 of what an op says of inputs, gates, costs and suites; empty if it cannot be read."""
        folder, digest = self.op_folders[op], hashlib.sha256()
        try:
            for path in sorted([*folder.glob("*.py"), *folder.glob("*.csv")]):
                digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        except OSError:
            return ""
        return digest.hexdigest()[:16]

    def of_op(self, op: str) -> tuple[CatalogEntry, ...]:
        """The kernels of one op."""
        return tuple(entry for entry in self.entries.values() if entry.op.name == op)

    def is_own(self, folder: Path) -> bool:
        """Whether a folder of an op or of a kernel is the project's."""
        root = next((parent for parent in folder.parents if parent in self.roots), None)
        return root in self.own

    @property
    def is_of_project(self) -> bool:
        """Whether the project's kernels alone are meant where none is named."""
        return bool(self.own) and not self.library

    @property
    def meant(self) -> tuple[CatalogEntry, ...]:
        """The kernels that are meant where neither a kernel nor an op is named."""
        every = self.entries.values()
        return tuple(entry for entry in every if not self.is_of_project or self.is_own(entry.folder))

    @property
    def meant_ops(self) -> tuple[str, ...]:
        """The ops that are meant where nothing is named: of a project those that it declares, or has kernels of."""
        owners = {entry.op.name for entry in self.meant}
        declared = self.op_folders.items()
        return tuple(op for op, at in declared if op in owners or not self.is_of_project or self.is_own(at))

    def meant_of_op(self, op: str) -> tuple[CatalogEntry, ...]:
        """The kernels of an op that are meant where none is named: the project's; all if it has no folder of them."""
        broken = any(self.is_own(each.folder) and each.name.partition("/")[0] == op for each in self.broken)
        own = tuple(entry for entry in self.meant if entry.op.name == op)
        return own if own or (broken and self.is_of_project) else self.of_op(op)

    def at(self, variant: Variant, workload: Workload, gpu: str = "") -> tuple[CatalogEntry, Variant]:
        """A variant and its kernel at a workload, resolved for a dispatcher; `gpu` is a short name, empty for any."""
        resolved = self.entries[variant.kernel].at(variant, workload, gpu)
        return self.entries[resolved.kernel], resolved

    def behind(self, variant: Variant, workload: Workload, gpu: str = "") -> tuple[CatalogEntry, Variant]:
        """As `at`, for looking at one kernel: what a dispatcher picks has its own name here."""
        entry, resolved = self.at(variant, workload, gpu)
        return (entry, entry.named(resolved.params, workload)) if resolved.is_picked else (entry, resolved)

    def owner(self, label: str) -> CatalogEntry | None:
        """The kernel that a label belongs to, a kernel's or a preset's, with params or not; None if it is not here."""
        name, _ = label_parts(label)
        return self.entries.get(name) or next(
            (entry for entry in self.entries.values() if name in entry.kernel.presets), None
        )

    def code_state(self, label: str, stored: str) -> CodeState:
        """Whether a stored source hash, empty if none, is that of a label's present code; unknown without a kernel."""
        owner = self.owner(label)
        return owner.code_state(stored) if owner else CodeState.UNKNOWN


def default_roots() -> tuple[Path, ...]:
    """The bundled kernels, those of the project, and the folders in `GDNBENCH_KERNELS`; of a job, those it has.

    The variable's are separated as in `PATH`. Raises as `find_project`.
    """
    if (origin := command_origin()) and origin.roots:
        return tuple(map(Path, origin.roots))
    project, more = find_project(), os.environ.get(KERNELS_VARIABLE, "").split(os.pathsep)
    own = project.roots if project else ()
    return tuple(dict.fromkeys((bundled_kernels(), *own, *(Path(folder).resolve() for folder in more if folder))))


_loaded: dict[tuple[Path, ...], Catalog] = {}
"""What was last loaded of some roots, for `op_named`."""


def own_roots() -> tuple[Path, ...]:
    """The default roots behind the first if the command belongs to a project, else none; raises as `find_project`."""
    origin = command_origin()
    return default_roots()[1:] if (origin.project if origin else find_project()) else ()


def place_named(root: Path) -> str:
    """Returns what names a default root that is not bundled: the key of a file, or `GDNBENCH_KERNELS`."""
    project = find_project()
    return project.named_by if project and root in project.roots else KERNELS_VARIABLE


def load_catalog(roots: Iterable[Path] | None = None, *, library: bool = False, only: str = "") -> Catalog:
    """Loads every op and kernel, a project's first; what fails is listed as broken.

    A later root may add kernels to earlier ops. With `library`, or `roots`, the bundled kernels are meant like others
    where none is named. With `only`, as workers call it, the folders of one op are loaded; all if none declares it.
    """
    searched, own = (default_roots(), own_roots()) if roots is None else (tuple(roots), ())
    ops: dict[str, LoadedOp] = {}
    entries: dict[str, CatalogEntry] = {}
    taken: dict[str, CatalogEntry] = {}
    broken: list[Broken] = []
    for loaded in _find(searched, ops, only):
        admitted = _claim_names(loaded, taken) if isinstance(loaded, CatalogEntry) else loaded
        if isinstance(admitted, Broken):
            broken.append(admitted)
        else:
            entries[admitted.kernel.name] = admitted
    if only and only not in ops:
        return load_catalog(searched)
    broken += _fill_dispatchers(entries)
    catalog = Catalog(searched, {}, {}, entries, tuple(broken), own, library)
    ordered = sorted(ops.values(), key=lambda each: not catalog.is_own(each.folder))
    catalog = replace(
        catalog,
        ops={each.op.name: each.op for each in ordered},
        op_folders={each.op.name: each.folder for each in ordered},
        entries=dict(sorted(entries.items(), key=lambda each: not catalog.is_own(each[1].folder))),
    )
    if not only:
        _loaded[searched] = catalog
    return catalog


def load_catalog_of(labels: Sequence[str], op: str = "") -> Catalog:
    """Loads the op of some kernels alone where names tell it, in a fraction of the time; else every op."""
    folders = (each for root in default_roots() if is_folder(root) for each in _folders(root) if isinstance(each, Path))
    known = (each.name for each in folders if all(label.startswith(f"{each.name}-") for label in labels))
    if only := op or max(known, key=len, default=""):
        catalog = load_catalog(only=only)
        if only in catalog.ops and all(map(catalog.owner, labels)):
            return catalog
    return load_catalog()


def _find(roots: Iterable[Path], ops: dict[str, LoadedOp], only: str) -> Iterator[CatalogEntry | Broken]:
    for root in roots:
        if not is_folder(root):
            yield Broken(root.name, root, f"{root} is not a folder (see {place_named(root)})")
            continue
        for op_folder in _folders(root, only):
            op = op_folder if isinstance(op_folder, Broken) else _op_of(op_folder, ops)
            if isinstance(op, Broken):
                yield op
            if not isinstance(op, LoadedOp) or isinstance(op_folder, Broken):
                continue
            for folder in _folders(op_folder):
                if isinstance(folder, Broken):
                    yield folder
                elif os.path.lexists(folder / "variant.py"):
                    yield load_kernel(folder, op)


def _fill_dispatchers(entries: dict[str, CatalogEntry]) -> list[Broken]:
    broken = []
    for name, entry in list(entries.items()):
        if isinstance(entry.kernel, DispatchKernel):
            kernels = {each.kernel.name: each.kernel for each in entries.values() if each.op.name == entry.op.name}
            try:
                entries[name] = replace(entry, dispatch=read_dispatch(entry.source, entry.op, kernels))
            except DeclarationError as error:
                del entries[name]
                broken.append(Broken(f"{entry.op.name}/{entry.folder.name}", entry.folder, error.message))
    return broken


def _op_of(folder: Path, ops: dict[str, LoadedOp]) -> LoadedOp | Broken | None:
    if os.path.lexists(folder / "op.py"):
        op = load_op(folder)
        if isinstance(op, LoadedOp) and (other := ops.setdefault(op.op.name, op)) is not op:
            reason = f"the name {op.op.name} is taken by the op in {other.folder}; choose another"
            return Broken(folder.name, folder, f"{reason}, or remove op.py to add kernels to that")
        return op
    return ops.get(folder.name)


def _folders(folder: Path, only: str = "") -> list[Path | Broken]:
    try:
        names = (path for path in folder.iterdir() if path.name[0] not in "._" and only in ("", path.name))
        paths = [path for path in names if is_folder(path)]
    except OSError as error:
        return [Broken(folder.name, folder, f"{folder} cannot be read: {error.strerror}")]
    return [
        path
        if os.access(path, os.R_OK | os.X_OK)
        else Broken(f"{folder.name}/{path.name}", path, f"{path} cannot be read: Permission denied")
        for path in sorted(paths, key=lambda path: natural_key(path.name))
    ]


def _claim_names(entry: CatalogEntry, taken: dict[str, CatalogEntry]) -> CatalogEntry | Broken:
    """Returns the entry, or why its names are taken: kernels and presets share one namespace."""
    names = (entry.kernel.name, *entry.kernel.presets)
    for name in names:
        if other := taken.get(name):
            what = "the bundled kernel in " if other.folder.is_relative_to(bundled_kernels()) else ""
            reason = f"the name {name} is taken by {what}{other.folder}; choose another"
            return Broken(f"{entry.op.name}/{entry.folder.name}", entry.folder, reason, claims=name)
    taken.update(dict.fromkeys(names, entry))
    return entry


def find_op(catalog: Catalog, name: str) -> Op:
    """An op by its name; UnknownNameError if the catalog has none of that name, DeclarationError if it did not load."""
    if name not in catalog.ops:
        if broken := next((each for each in catalog.broken if each.is_op and each.name == name), None):
            raise broken.error
        raise UnknownNameError(f"there is no op {name}", f"there are {', '.join(catalog.ops) or 'none'}")
    return catalog.ops[name]


def op_named(name: str) -> Op:
    """An op of the default roots, for files that name it; raises as `find_op`. Reads no kernel unless it must."""
    roots = default_roots()
    for folder in () if roots in _loaded else (root / name for root in roots):
        if os.path.lexists(folder / "op.py"):
            loaded = load_op(folder)
            if isinstance(loaded, LoadedOp) and loaded.op.name == name:
                return loaded.op
    return find_op(_loaded.get(roots) or load_catalog(), name)
