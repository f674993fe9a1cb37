"""Copies a kernel's folder under a new name, and checks that the copy loads."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, default_roots, load_catalog
from gdnbench.catalog.entry import Broken, CatalogEntry
from gdnbench.catalog.load import LoadedOp, load_kernel
from gdnbench.catalog.new_kernel_changes import Changes, changed_files, plan_changes
from gdnbench.catalog.select import find_variant
from gdnbench.errors import DeclarationError, UsageError
from gdnbench.model.case import Variant

_PACKAGE = Path(__file__).resolve().parent.parent
_OUTSIDE = re.compile(rb'\b__file__\b|#\s*include\s*"\.\./')  # the files that these refer to may be missing elsewhere


@dataclass(frozen=True)
class NewKernel:
    """A new kernel in the folder of kernels `root`, copied from the label `origin`.

    `source` is the implementing file; `files` are paths in its own folder.
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
        """Whether the catalog searches its root."""
        return self.root in default_roots()


def make_kernel(name: str, origin: str, to: Path | None = None) -> NewKernel:
    """Copies a kernel, preset or label, whose params become the defaults, under a new name.

    `to` is the folder of kernels to put it in, by default that of `choose_root`. Raises UsageError for an invalid or
    taken name, an unknown origin, or a place that cannot be written; DeclarationError, leaving nothing, if the copy
    would not load.
    """
    to = to.expanduser().resolve() if to else None
    catalog = _with_root(load_catalog(), to)
    op = op_named_by(name, catalog.ops, origin)
    entry, variant = _find(catalog, op, origin)
    root = choose_root(entry, catalog.roots, to)
    catalog = _with_root(catalog, root)
    files = read_folder(entry.folder)
    changes = plan_changes(name, entry, variant, files)
    _check_names(catalog, entry, changes)
    copies = changed_files(entry, changes, files)
    op_folder = op_folder_in(root, entry)
    if broken := next((each for each in catalog.broken if each.folder == op_folder), None):
        raise UsageError(f"{op_folder} declares an op that does not load: {broken.reason}", "mend its op.py first")
    folder = op_folder / folder_of(name, op)
    write_folder(folder, copies, lambda hidden: _check_loads(hidden, entry, changes))
    notes = tuple(_notes(name, entry, folder, copies))
    return NewKernel(name, variant.label, root, folder, folder / entry.kernel.source, tuple(copies), notes)


def _with_root(catalog: Catalog, root: Path | None) -> Catalog:
    if root is None or root in catalog.roots or not root.is_dir():
        return catalog
    return load_catalog((*catalog.roots, root))


def _find(catalog: Catalog, op: str, origin: str) -> tuple[CatalogEntry, Variant]:
    if not origin:
        names = [entry.kernel.name for entry in catalog.of_op(op) if not (entry.kernel.floor or entry.dispatch)]
        raise UsageError("a new kernel begins as a copy of another", f"say which with --from: {', '.join(names)}")
    entry, variant = find_variant(catalog, op, origin)
    if entry.dispatch:
        picked = dict.fromkeys(pick.kernel for pick in entry.dispatch.rows)
        raise UsageError(f"{origin} picks kernels and has no code to copy", f"copy one of them: {', '.join(picked)}")
    return entry, variant


def choose_root(source: CatalogEntry, roots: Iterable[Path], to: Path | None) -> Path:
    """Returns the folder of kernels for a copy of `source`; raises UsageError if `to` cannot hold kernels.

    It is `to` if given; else the root that holds `source`; else the first other root; else `kernels/` here. A root
    inside an installed package is skipped, and so is one that cannot be written.
    """
    if to is None:
        beside = source.folder.parent.parent
        own = sorted((root for root in roots if not root.is_relative_to(_PACKAGE)), key=lambda root: root != beside)
        return next((root for root in own if _is_writable(root)), Path.cwd() / "kernels")
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is not a folder", "--to takes a folder of kernels, as `kernels/` is")
    if (to / "op.py").is_file():
        raise UsageError(f"{to} holds the kernels of one op", f"--to takes the folder above it: --to {to.parent}")
    return to


def _is_writable(folder: Path) -> bool:
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


def op_folder_in(root: Path, source: CatalogEntry) -> Path:
    """Returns the folder in `root` for the kernels of `source`'s op; it need not exist."""
    known = (source.folder.parent, source.op_folder)
    return next((folder for folder in known if folder.parent == root), root / source.op.name)


def read_folder(folder: Path) -> dict[Path, bytes]:
    """Reads the files of a folder by their relative paths, without Python's cache."""
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {name: (folder / name).read_bytes() for name in names if "__pycache__" not in name.parts}


def op_named_by(name: str, ops: Collection[str], origin: str = "") -> str:
    """Returns the op in a kernel's name, `decode` of `decode-mine`; raises UsageError if it names no op's kernel.

    `origin` is the kernel to copy; the error's hint names its op.
    """
    longest_first = sorted(ops, key=len, reverse=True)
    for op in longest_first:
        if re.fullmatch(rf"{re.escape(op)}(-[a-z0-9]+)+", name):
            return op
    meant = next((op for op in longest_first if origin.startswith(f"{op}-")), "")
    beginnings = " or ".join(f"{op}-" for op in ([meant] if meant else ops))
    follow = f"lower-case letters, digits and single dashes follow, as in {meant or 'decode'}-mine"
    raise UsageError(f"{name!r} is not a kernel's name", f"a name begins with {beginnings}; {follow}")


def folder_of(name: str, op: str) -> str:
    """Returns a kernel's folder name: `floor_copy` for `decode-floor-copy`."""
    return name.removeprefix(f"{op}-").replace("-", "_")


def _check_names(catalog: Catalog, origin: CatalogEntry, changes: Changes) -> None:
    """Raises UsageError if another kernel or preset has one of the names; all share one namespace."""
    old = {changes.name: origin.kernel.name} | {new: old for old, new in changes.presets.items()}
    for entry in catalog.entries.values():
        for variant in (entry.default, *entry.presets):
            if variant.label in old:
                what = f"a preset of {entry.kernel.name}" if variant.preset else f"a kernel in {entry.folder}"
                made = "" if variant.label == changes.name else f", and {old[variant.label]} would become it"
                raise UsageError(f"{variant.label} exists already: {what}{made}", "choose another name")


def write_folder(folder: Path, files: Mapping[Path, bytes], check: Callable[[Path], None]) -> None:
    """Writes a folder, hidden beside its place until it has passed the check; on failure nothing is left.

    The hidden folder's name begins with a dot, which the catalog skips. Raises UsageError if the folder exists or
    cannot be written, and whatever `check` raises.
    """
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists", "choose another name, or remove it first")
    missing = [parent for parent in folder.parents if not parent.exists()]
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        hidden.mkdir(parents=True)
        for name, data in files.items():
            (hidden / name).parent.mkdir(parents=True, exist_ok=True)
            (hidden / name).write_bytes(data)
        check(hidden)
        shutil.rmtree(hidden / "__pycache__", ignore_errors=True)
        hidden.rename(folder)
    except BaseException as error:
        shutil.rmtree(hidden, ignore_errors=True)
        for parent in missing:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            hint = "name a folder that is yours: --to DIR"
            raise UsageError(f"cannot write {folder}: {error.strerror}", hint) from error
        raise


def _check_loads(folder: Path, origin: CatalogEntry, changes: Changes) -> None:
    """Loads a copy as the catalog will; raises DeclarationError if it does not load, or has other names."""
    hint = f"copy {origin.folder} and edit it by hand"
    loaded = load_kernel(folder, LoadedOp(origin.op, origin.op_folder))
    if isinstance(loaded, Broken):
        raise DeclarationError(f"the copy of {origin.kernel.name} does not load: {loaded.reason}", hint)
    found = [loaded.kernel.name, *loaded.kernel.presets]
    planned = [changes.name, *filter(None, changes.presets.values())]
    if found != planned:
        raise DeclarationError(f"the copy of {origin.kernel.name} says {found}, not {planned}", hint)


def _notes(name: str, origin: CatalogEntry, folder: Path, files: Mapping[Path, bytes]) -> Iterable[str]:
    if origin.kernel.floor:
        is_floor = f"{name} is a floor, as {origin.kernel.name} is"
        yield f"{is_floor}; take `floor=` out of variant.py to have it verified"
    if folder.parent == origin.folder.parent:
        return
    lines = ((name, number, line) for name, data in files.items() for number, line in enumerate(data.split(b"\n"), 1))
    if places := ", ".join(f"{name}:{number}" for name, number, line in lines if _OUTSIDE.search(line)):
        yield f"{places} reaches outside the folder; put what it looks for near {folder}"
