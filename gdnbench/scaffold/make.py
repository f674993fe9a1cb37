"""Makes a kernel out of another: copies its folder under a new name, and checks that the copy loads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, default_roots, load_catalog
from gdnbench.catalog.entry import Broken, Entry, label_parts
from gdnbench.catalog.load import LoadedOp, load_kernel
from gdnbench.catalog.select import find_variant
from gdnbench.errors import DeclarationError, UsageError
from gdnbench.model.case import Variant
from gdnbench.scaffold.declaration import Changes, rewrite
from gdnbench.scaffold.folder import choose_root, op_folder_in, read_folder, references_outside, write_folder

DECLARATION = Path("variant.py")
_AFTER_OP = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


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


def _find(catalog: Catalog, op: str, origin: str) -> tuple[Entry, Variant]:
    if not origin:
        names = [entry.kernel.name for entry in catalog.of_op(op) if not (entry.kernel.floor or entry.dispatch)]
        raise UsageError("a new kernel begins as a copy of another", f"say which with --from: {', '.join(names)}")
    entry, variant = find_variant(catalog, op, origin)
    if entry.dispatch:
        picked = dict.fromkeys(pick.kernel for pick in entry.dispatch.rows)
        raise UsageError(f"{origin} picks kernels and has no code to copy", f"copy one of them: {', '.join(picked)}")
    return entry, variant


def _check_names(catalog: Catalog, origin: Entry, changes: Changes) -> None:
    """A kernel and its presets share one namespace with all others; raises UsageError if another has one of them."""
    old = {changes.name: origin.kernel.name} | {new: old for old, new in changes.presets.items()}
    for entry in catalog.entries.values():
        for variant in (entry.default, *entry.presets):
            if variant.label in old:
                what = f"a preset of {entry.kernel.name}" if variant.preset else f"a kernel in {entry.folder}"
                made = "" if variant.label == changes.name else f", and {old[variant.label]} would become it"
                raise UsageError(f"{variant.label} exists already: {what}{made}", "choose another name")


def _check_loads(folder: Path, origin: Entry, changes: Changes) -> None:
    """Loads a copy as the catalog will; raises DeclarationError if it does not load, or under other names."""
    hint = f"copy {origin.folder} and edit it by hand"
    loaded = load_kernel(folder, LoadedOp(origin.op, origin.op_folder))
    if isinstance(loaded, Broken):
        raise DeclarationError(f"the copy of {origin.kernel.name} does not load: {loaded.reason}", hint)
    found = [loaded.kernel.name, *loaded.kernel.presets]
    planned = [changes.name, *filter(None, changes.presets.values())]
    if found != planned:
        raise DeclarationError(f"the copy of {origin.kernel.name} says {found}, not {planned}", hint)


def _notes(name: str, origin: Entry, folder: Path, files: Mapping[Path, bytes]) -> Iterable[str]:
    if origin.kernel.floor:
        is_floor = f"{name} is a floor, as {origin.kernel.name} is"
        yield f"{is_floor}; take `floor=` out of variant.py to have it verified"
    if folder.parent != origin.folder.parent and (places := references_outside(files)):
        yield f"{', '.join(places)} reaches outside the folder; put what it looks for near {folder}"


def op_named_by(name: str, ops: Iterable[str]) -> str:
    """The op whose kernel `name` would be: `decode` of `decode-mine`.

    Raises:
        UsageError: if it is not the name of any op's kernel.
    """
    known = list(ops)
    for op in sorted(known, key=len, reverse=True):
        if name.startswith(f"{op}-") and _AFTER_OP.fullmatch(name.removeprefix(f"{op}-")):
            return op
    beginnings = " or ".join(f"{op}-" for op in known)
    raise UsageError(
        f"{name!r} is not a kernel's name",
        f"a name begins with {beginnings}; lower-case letters, digits and single dashes follow, as in decode-mine",
    )


def folder_of(name: str, op: str) -> str:
    """The name of its folder: `floor_copy` for `decode-floor-copy`."""
    return name.removeprefix(f"{op}-").replace("-", "_")


def preset_of(preset: str, op: str, old: str, new: str) -> str:
    """A preset's new name: `decode-v4b` becomes `decode-mineb`, and `decode-wide` becomes `decode-mine-wide`."""
    return new + preset.removeprefix(old) if preset.startswith(old) else f"{new}-{preset.removeprefix(f'{op}-')}"


def entry_of(entry: str, old: str, new: str) -> str:
    """The function's new name: `gdn_decode_v4` becomes `gdn_decode_mine`; one without the old name in it stays."""
    carried = re.escape(old.replace("-", "_"))
    return re.sub(rf"(?<![A-Za-z0-9]){carried}(?![A-Za-z0-9])", new.replace("-", "_"), entry)


def plan_changes(name: str, origin: Entry, variant: Variant, files: Mapping[Path, bytes]) -> Changes:
    """What makes `origin` the kernel `name`, with the variant's params as its defaults."""
    kernel, (label, settings) = origin.kernel, label_parts(variant.label)
    defaults = {param: value for param, value in variant.params.items() if value != kernel.params[param].default}
    # A preset that says no more than the new defaults would be measured twice.
    presets = {
        preset: None
        if defaults and values.items() <= variant.params.items()
        else preset_of(preset, origin.op.name, kernel.name, name)
        for preset, values in kernel.presets.items()
    }
    entry = entry_of(kernel.entry, kernel.name, name)
    is_taken = any(_word(entry).search(data) for data in files.values())
    is_renamed = entry != kernel.entry and Path(kernel.source) in files and not is_taken
    copied = " ".join([label, *(["with", *settings] if settings else [])])
    idea = f"Copy of {copied}: say here, in one line, what its idea is."
    return Changes(idea, name, entry if is_renamed else "", presets, defaults)


def apply_changes(origin: Entry, changes: Changes, files: Mapping[Path, bytes]) -> dict[Path, bytes]:
    """The files with the changes made: the declaration, and the function's name in every text.

    Raises:
        UsageError: if the declaration computes what is to change, or is not UTF-8.
    """
    try:
        declaration = files[DECLARATION].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin.folder / DECLARATION} is not UTF-8", "save it as UTF-8 first") from error
    changed = {DECLARATION: rewrite(declaration, changes).encode()}
    if not changes.entry:
        return {**files, **changed}
    word, new = _word(origin.kernel.entry), changes.entry.encode()
    return {name: data if b"\0" in data else word.sub(new, data) for name, data in files.items()} | changed


def _word(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"\b" + re.escape(name).encode() + rb"\b")
