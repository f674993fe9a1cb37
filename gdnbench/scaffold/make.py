"""Makes a kernel out of another: copies its folder under a new name, and sees that the copy loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gdnbench.catalog import Broken, Catalog, Entry, default_roots, find_variant, load_catalog
from gdnbench.catalog.load import LoadedOp, load_kernel
from gdnbench.errors import DeclarationError, UsageError
from gdnbench.model import Variant
from gdnbench.scaffold.declaration import Changes
from gdnbench.scaffold.folder import read_folder, write_folder
from gdnbench.scaffold.naming import folder_of, op_named_by
from gdnbench.scaffold.place import choose_root, op_folder_in
from gdnbench.scaffold.plan import apply_changes, plan_changes
from gdnbench.scaffold.reach import reaches


@dataclass(frozen=True)
class NewKernel:
    """A kernel that was made.

    Attributes:
        name: its name.
        origin: the label of what it was made from.
        root: the folder of kernels that it is in.
        folder: its own folder.
        source: the implementing file.
        files: its files, by path in its folder.
        notes: what to know about it.
    """

    name: str
    origin: str
    root: Path
    folder: Path
    source: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...]

    @property
    def is_in_catalog(self) -> bool:
        """Whether the catalog looks where it is."""
        return self.root in default_roots()


def make_kernel(name: str, origin: str, to: Path | None = None) -> NewKernel:
    """Copies a kernel under a new name.

    Args:
        name: the new kernel's name.
        origin: what to copy: a kernel, a preset or a label. Its params become the defaults.
        to: the folder of kernels to put it in; without it `choose_root` says where it goes.

    Raises:
        UsageError: for a name that is none or is taken, an unknown origin, or a place that cannot be written.
        DeclarationError: if the copy would not load; nothing is left of it.
    """
    to = to.expanduser().resolve() if to else None
    catalog = _with_root(load_catalog(), to)
    op = op_named_by(name, catalog.ops)
    entry, variant = _find(catalog, op, origin)
    root = choose_root(entry, catalog.roots, to)
    catalog = _with_root(catalog, root)
    files = read_folder(entry.folder)
    changes = plan_changes(name, entry, variant, files)
    _check_names(catalog, entry, changes)
    copies = apply_changes(entry, changes, files)
    folder = _op_folder(catalog, root, entry) / folder_of(name, op)
    write_folder(folder, copies, partial(_check_loads, origin=entry, changes=changes))
    notes = tuple(_notes(name, entry, folder, copies))
    return NewKernel(name, variant.label, root, folder, folder / entry.kernel.source, tuple(copies), notes)


def _with_root(catalog: Catalog, root: Path | None) -> Catalog:
    if root is None or root in catalog.roots or not root.is_dir():
        return catalog
    return load_catalog((*catalog.roots, root))


def _find(catalog: Catalog, op: str, origin: str) -> tuple[Entry, Variant]:
    if not origin:
        names = [entry.kernel.name for entry in catalog.of_op(op) if not (entry.kernel.floor or entry.dispatch)]
        raise UsageError("a new kernel begins as a copy of another", f"say which with --from: {', '.join(names)}")
    entry, variant = find_variant(catalog, op, origin)
    if entry.dispatch:
        picked = dict.fromkeys(pick.kernel for rows in entry.dispatch.picks.values() for pick in rows.values())
        raise UsageError(f"{origin} picks kernels and has no code to copy", f"copy one of them: {', '.join(picked)}")
    return entry, variant


def _op_folder(catalog: Catalog, root: Path, origin: Entry) -> Path:
    """The folder for the op's kernels in a root.

    Raises:
        UsageError: if no kernel there can load, since the op does not.
    """
    folder = op_folder_in(root, origin)
    for broken in catalog.broken:
        if broken.folder == folder:
            raise UsageError(f"{folder} declares an op that does not load: {broken.reason}", "mend its op.py first")
    return folder


def _check_names(catalog: Catalog, origin: Entry, changes: Changes) -> None:
    """A kernel and its presets share one namespace with all others.

    Raises:
        UsageError: if another has one of the names.
    """
    old = {changes.name: origin.kernel.name} | {new: old for old, new in changes.presets.items()}
    for entry in catalog.entries.values():
        for variant in (entry.default, *entry.presets):
            if variant.label in old:
                what = f"a preset of {entry.kernel.name}" if variant.preset else f"a kernel in {entry.folder}"
                made = "" if variant.label == changes.name else f", and {old[variant.label]} would become it"
                raise UsageError(f"{variant.label} exists already: {what}{made}", "choose another name")


def _check_loads(folder: Path, *, origin: Entry, changes: Changes) -> None:
    """Loads a copy as the catalog will.

    Raises:
        DeclarationError: if it does not load, or its names are not those planned.
    """
    hint = f"copy {origin.folder} and edit it by hand"
    loaded = load_kernel(folder, LoadedOp(origin.op, origin.op_folder))
    if isinstance(loaded, Broken):
        raise DeclarationError(f"the copy of {origin.kernel.name} does not load: {loaded.reason}", hint)
    found = [loaded.kernel.name, *loaded.kernel.presets]
    planned = [changes.name, *changes.presets.values()]
    if found != planned:
        raise DeclarationError(f"the copy of {origin.kernel.name} says {found}, not {planned}", hint)


def _notes(name: str, origin: Entry, folder: Path, files: Mapping[Path, bytes]) -> list[str]:
    notes = []
    if origin.kernel.floor:
        notes.append(
            f"{name} is a floor, as {origin.kernel.name} is; take `floor=` out of variant.py to have it verified"
        )
    places = reaches(files) if folder.parent != origin.folder.parent else []
    if places:
        notes.append(f"{', '.join(places)} reaches outside the folder; put what it looks for near {folder}")
    return notes
