"""Finds the kernels: one folder per op, one folder per kernel."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

from gdnbench.catalog.entry import Broken, CatalogEntry, label_parts
from gdnbench.catalog.load import LoadedOp, load_kernel, load_op, read_dispatch, try_ahead
from gdnbench.errors import DeclarationError, UnknownNameError
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.kernel import DispatchKernel
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.origin import bundled_kernels, command_origin, is_folder
from gdnbench.wording import count_order

KERNELS_VARIABLE = "GDNBENCH_KERNELS"


@dataclass(frozen=True)
class Catalog:
    """The ops and kernels in some folders, `roots`, by name; `broken` are the folders that could not be loaded."""

    roots: tuple[Path, ...]
    ops: dict[str, Op]
    op_folders: dict[str, Path]
    entries: dict[str, CatalogEntry]
    broken: tuple[Broken, ...]

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
    """The bundled kernels, then the folders in `GDNBENCH_KERNELS` (separated as in `PATH`); of a job, those it has."""
    if (origin := command_origin()) and origin.roots:
        return tuple(map(Path, origin.roots))
    more = os.environ.get(KERNELS_VARIABLE, "").split(os.pathsep)
    return (bundled_kernels(), *(Path(folder).resolve() for folder in more if folder))


def load_catalog(roots: Iterable[Path] | None = None) -> Catalog:
    """Loads every op and kernel; what fails is listed as broken. A later root may add kernels to earlier ops."""
    searched = tuple(default_roots() if roots is None else roots)
    ops: dict[str, LoadedOp] = {}
    entries: dict[str, CatalogEntry] = {}
    taken: dict[str, CatalogEntry] = {}
    broken: list[Broken] = []
    try_ahead(_declarations(searched))
    for loaded in _find(searched, ops):
        admitted = _claim_names(loaded, taken) if isinstance(loaded, CatalogEntry) else loaded
        if isinstance(admitted, Broken):
            broken.append(admitted)
        else:
            entries[admitted.kernel.name] = admitted
    broken += _fill_dispatchers(entries)
    declared, folders = ({name: getattr(op, part) for name, op in ops.items()} for part in ("op", "folder"))
    return Catalog(searched, declared, folders, entries, tuple(broken))


def _declarations(roots: Iterable[Path]) -> Iterator[Path]:
    ops: set[str] = set()
    for op_folder in chain.from_iterable(map(_folders, filter(is_folder, roots))):
        if isinstance(op_folder, Path) and os.path.lexists(op_folder / "op.py"):
            ops.add(op_folder.name)
            yield op_folder / "op.py"
        if isinstance(op_folder, Path) and op_folder.name in ops:
            variants = (folder / "variant.py" for folder in _folders(op_folder) if isinstance(folder, Path))
            yield from filter(os.path.lexists, variants)


def _find(roots: Iterable[Path], ops: dict[str, LoadedOp]) -> Iterator[CatalogEntry | Broken]:
    for root in roots:
        if not is_folder(root):
            yield Broken(root.name, root, f"{root} is not a folder (see {KERNELS_VARIABLE})")
            continue
        for op_folder in _folders(root):
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
        if isinstance(op, LoadedOp):
            ops.setdefault(op.op.name, op)
        return op
    return ops.get(folder.name)


def _folders(folder: Path) -> list[Path | Broken]:
    try:
        paths = [path for path in folder.iterdir() if path.name[0] not in "._" and is_folder(path)]
    except OSError as error:
        return [Broken(folder.name, folder, f"{folder} cannot be read: {error.strerror}")]
    paths.sort(key=lambda path: count_order(path.name))
    return [path if os.access(path, os.R_OK | os.X_OK) else _unreadable(path) for path in paths]


def _unreadable(folder: Path) -> Broken:
    return Broken(f"{folder.parent.name}/{folder.name}", folder, f"{folder} cannot be read: Permission denied")


def _claim_names(entry: CatalogEntry, taken: dict[str, CatalogEntry]) -> CatalogEntry | Broken:
    """Returns the entry, or why its names are taken: kernels and presets share one namespace."""
    names = (entry.kernel.name, *entry.kernel.presets)
    for name in names:
        if other := taken.get(name):
            reason = f"the name {name} is taken by {other.folder}; choose another"
            return Broken(f"{entry.op.name}/{entry.folder.name}", entry.folder, reason)
    taken.update(dict.fromkeys(names, entry))
    return entry


def find_op(catalog: Catalog, name: str) -> Op:
    """An op by its name; UnknownNameError if the catalog has none of that name."""
    if name not in catalog.ops:
        raise UnknownNameError(f"there is no op {name}", f"there are {', '.join(catalog.ops) or 'none'}")
    return catalog.ops[name]


def op_named(name: str) -> Op:
    """An op of the default roots, for files that name it; UnknownNameError if there is none of that name."""
    return find_op(_catalog(default_roots()), name)


@cache
def _catalog(roots: tuple[Path, ...]) -> Catalog:
    return load_catalog(roots)
