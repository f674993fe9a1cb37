"""Makes what is new: a copy of a kernel's folder that loads, or a small op that is right, to be made one's own."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, default_roots, load_catalog, own_roots
from gdnbench.catalog.entry import Broken, CatalogEntry, label_parts, without_claims
from gdnbench.catalog.load import LoadedOp, load_kernel
from gdnbench.catalog.select import find_broken, find_variant
from gdnbench.errors import DeclarationError, UsageError
from gdnbench.model.case import Variant
from gdnbench.model.declaration import EVERY, ParamValue, check_name
from gdnbench.origin import bundled_kernels

_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class NewKernel:
    """A copy of `origin` in the folder of kernels `root`; `source` implements it, `files` lie in its folder."""

    name: str
    origin: str
    root: Path
    folder: Path
    source: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...]


def make_kernel(name: str, origin: str, to: Path | None = None) -> NewKernel:
    """Copies a kernel, preset or label, whose params become the defaults, under a new name, without presets and claims.

    `to` is the folder of kernels to put it in, by default that of `choose_root`, in a project among its own. Raises
    UsageError for an invalid or taken name, an unknown origin, or a place that cannot be written; DeclarationError,
    leaving nothing, if the copy would not load.
    """
    to = to.expanduser().resolve() if to else None
    catalog = _with_root(load_catalog(), to)
    if broken := find_broken(catalog, origin):
        raise broken.error
    op = op_named_by(name, catalog.ops, origin)
    entry, variant = _find(catalog, op, origin)
    root = choose_root(entry, catalog.own or catalog.roots, to)
    catalog = _with_root(catalog, root)
    files = read_folder(entry.folder)
    changes = plan_changes(name, entry, variant, files)
    if owner := catalog.owner(name):  # kernels and presets share one namespace
        what = f"a preset of {owner.kernel.name}" if name in owner.kernel.presets else f"a kernel in {owner.folder}"
        raise UsageError(f"{name} exists already: {what}", "choose another name")
    copies = changed_files(entry, changes, files)
    known = (entry.folder.parent, entry.op_folder)
    op_folder = next((folder for folder in known if folder.parent == root), root / entry.op.name)
    if broken := next((each for each in catalog.broken if each.folder == op_folder), None):
        raise UsageError(f"{op_folder} declares an op that does not load: {broken.reason}", "mend its op.py first")
    folder = op_folder / folder_of(name, op)
    write_folder(folder, copies, lambda hidden: _check_loads(hidden, entry, changes))
    is_floor = f"{name} is a floor, as {entry.kernel.name} is; take `floor=` out of variant.py to have it verified"
    notes = (is_floor,) if entry.kernel.floor else ()
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

    It is `to` if given; else the root that holds `source`; else the first other root; else `kernels/` here. The bundled
    one is skipped but in the checkout that it is part of.
    """
    if to is not None:
        return checked_root(to)
    holder, bundled = source.folder.parent.parent, bundled_kernels()
    is_in_checkout = Path.cwd().is_relative_to(bundled.parent) and not bundled.is_relative_to(_PACKAGE)
    own = sorted((root for root in roots if root != bundled or is_in_checkout), key=lambda root: root != holder)
    return next(iter(own), Path.cwd() / "kernels")


def checked_root(to: Path) -> Path:
    """Returns a folder of kernels that was named; raises UsageError if it cannot hold kernels."""
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is not a folder", "--to takes a folder of kernels, as `kernels/` is")
    if (to / "op.py").is_file():
        raise UsageError(f"{to} holds the kernels of one op", f"--to takes the folder above it: --to {to.parent}")
    return to


def read_folder(folder: Path) -> dict[Path, bytes]:
    """Reads the files of a folder by their relative paths, without Python's cache."""
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {name: (folder / name).read_bytes() for name in names if "__pycache__" not in name.parts}


def op_named_by(name: str, ops: Collection[str], origin: str = "") -> str:
    """The op in a kernel's name, `decode` of `decode-mine`; UsageError, with `origin`'s as hint, if none."""
    longest_first = sorted(ops, key=len, reverse=True)
    for op in longest_first:
        if re.fullmatch(rf"{re.escape(op)}(-[a-z0-9]+)+", name):
            return op
    meant = next((op for op in longest_first if origin.startswith(f"{op}-")), "")
    beginnings = ", ".join(f"{op}-" for op in ([meant] if meant else ops))
    follow = f"lower-case letters, digits and single dashes follow, as in {meant or 'decode'}-mine"
    raise UsageError(f"{name!r} is not a kernel's name", f"a name begins with {beginnings}; {follow}")


def folder_of(name: str, op: str) -> str:
    """Returns a kernel's folder name: `floor_copy` for `decode-floor-copy`."""
    return name.removeprefix(f"{op}-").replace("-", "_")


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
    hint = f"copy {origin.folder} and edit it by hand"
    loaded = load_kernel(folder, LoadedOp(origin.op, origin.op_folder))
    if isinstance(loaded, Broken):
        raise DeclarationError(f"the copy of {origin.kernel.name} does not load: {loaded.reason}", hint)
    if [loaded.kernel.name, *loaded.kernel.presets] != [changes.name]:
        raise DeclarationError(f"the copy of {origin.kernel.name} declares other names than {changes.name}", hint)


_DECLARATION = Path("variant.py")
_AFTER_FIRST_LINE = re.compile(r'"""[^\r\n]*([\r\n].*""")', re.DOTALL)  # of a docstring


@dataclass(frozen=True)
class Changes:
    """Changes to a declaration: title, names, params' defaults, no presets; an empty `entry` keeps the function."""

    idea: str
    name: str
    entry: str = ""
    defaults: Mapping[str, ParamValue] = field(default_factory=dict)


def plan_changes(name: str, origin: CatalogEntry, variant: Variant, files: Mapping[Path, bytes]) -> Changes:
    """Plans the changes that turn `origin` into the kernel `name`, with the variant's params as its defaults."""
    kernel, (label, settings) = origin.kernel, label_parts(variant.label)
    defaults = {param: value for param, value in variant.params.items() if value != kernel.params[param].default}
    entry = entry_of(kernel.entry, kernel.name, name)
    is_taken = any(_word(entry).search(data) for data in files.values())
    is_renamed = entry != kernel.entry and Path(kernel.source) in files and not is_taken
    copied = " ".join([label, *(["with", *settings] if settings else [])])
    idea = f"Copy of {copied}: say here, in one line, what its idea is."
    return Changes(idea, name, entry if is_renamed else "", defaults)


def entry_of(entry: str, old: str, new: str) -> str:
    """Renames the function: `gdn_decode_v4` becomes `gdn_decode_mine`; one without the old name stays."""
    carried = re.escape(old.replace("-", "_"))
    return re.sub(rf"(?<![A-Za-z0-9]){carried}(?![A-Za-z0-9])", new.replace("-", "_"), entry)


def changed_files(origin: CatalogEntry, changes: Changes, files: Mapping[Path, bytes]) -> dict[Path, bytes]:
    """Changes the declaration, without its claims, and the function's name in every file; UsageError if it cannot."""
    try:
        declaration = rewrite(files[_DECLARATION].decode("utf-8-sig"), changes).encode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin.folder / _DECLARATION} is not UTF-8", "save it as UTF-8 first") from error
    changed = dict(files)
    if changes.entry:
        word, new = _word(origin.kernel.entry), changes.entry.encode()
        changed = {name: data if b"\0" in data else word.sub(new, data) for name, data in files.items()}
    return {**changed, _DECLARATION: without_claims(declaration)}


def _word(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"\b" + re.escape(name).encode() + rb"\b")


def rewrite(source: str, changes: Changes) -> str:
    """Changes a declaration; comments and formatting stay.

    What changes must be written out: a name as a string, params as a dict, each perhaps under a name of the module.
    Raises UsageError if it is computed instead.
    """
    file = _Source(source)
    kernel = file.arguments(file.assigned.get("kernel"))
    file.set_first_line(changes.idea)
    file.set_string(kernel.get("name"), changes.name, "its name")
    if changes.entry:
        file.set_string(kernel.get("entry"), changes.entry, "its entry")
    if presets := kernel.get("presets"):
        file.replace(presets, "{}")
    if changes.defaults:
        params = file.items(kernel.get("params"))
        for name, value in changes.defaults.items():
            default = file.arguments(params.get(name)).get("default")
            if default is None:
                raise _computed(f"the default of {name}")
            file.replace(default, _literal(value))
    return file.edited()


class _Source:
    """A Python file and its edits; positions count bytes of UTF-8, as `ast` counts columns."""

    def __init__(self, source: str) -> None:
        self.body, self.bytes = ast.parse(source).body, source.encode()
        self.lines = [0, *accumulate(map(len, self.bytes.splitlines(keepends=True)))]
        self.edits: list[tuple[int, int, str]] = []
        self.assigned: dict[str, ast.expr | None] = {}
        for statement in self.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                self.assigned |= {each.id: statement.value for each in targets if isinstance(each, ast.Name)}

    def edited(self) -> str:
        result = self.bytes
        for start, end, text in sorted(self.edits, reverse=True):
            result = result[:start] + text.encode() + result[end:]
        return result.decode()

    def span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = self.lines[node.lineno - 1], self.lines[node.end_lineno - 1]
        return start + node.col_offset, end + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        return self.bytes[slice(*self.span(node))].decode()

    def replace(self, node: ast.expr, text: str) -> None:
        self.edits.append((*self.span(node), text))

    def follow(self, node: ast.expr | None) -> ast.expr | None:
        """Returns the value of a module's name; any other expression is returned as is."""
        return self.assigned.get(node.id) if isinstance(node, ast.Name) else node

    def arguments(self, node: ast.expr | None) -> dict[str | None, ast.expr]:
        """Returns the arguments of a call by name; the first positional one is a param's `default`."""
        call = self.follow(node)
        if not isinstance(call, ast.Call):
            return {}
        return dict(zip(["default"], call.args, strict=False)) | {each.arg: each.value for each in call.keywords}

    def string(self, node: ast.expr | None, what: str) -> ast.Constant:
        found = self.follow(node)
        if not (isinstance(found, ast.Constant) and isinstance(found.value, str)):
            raise _computed(what)
        return found

    def set_string(self, node: ast.expr | None, text: str, what: str) -> None:
        string = self.string(node, what)
        quote = self.text(string)[-1]
        self.replace(string, quote + text + quote)

    def set_first_line(self, line: str) -> None:
        """Sets the first line of the docstring, or adds one."""
        docstring = f'""{_literal(line)}""'
        match self.body[0]:
            case ast.Expr(value=ast.Constant(value=str()) as old):
                more = _AFTER_FIRST_LINE.fullmatch(self.text(old))
                self.replace(old, docstring.removesuffix('"""') + more[1] if more else docstring)
            case _:
                self.edits.append((0, 0, docstring + "\n\n"))

    def items(self, node: ast.expr | None) -> dict[str, ast.expr]:
        """Returns the values of a dict of params, by name."""
        found = self.follow(node)
        if not isinstance(found, ast.Dict):
            raise _computed("its params")
        pairs = zip(found.keys, found.values, strict=True)
        return {str(self.string(key, "the name of a param").value): value for key, value in pairs}


def _literal(value: ParamValue) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _computed(what: str) -> UsageError:
    hint = "copy its folder and edit it by hand"
    return UsageError(f"variant.py computes {what}, and only what it writes out can be changed", hint)


_TEMPLATE = Path(__file__).resolve().parent / "template"
_NAME_THERE = re.compile(rb"\bexample\b")
_OP_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class NewOp:
    """An op in the folder of kernels `root`; `files` lie in its own folder."""

    name: str
    root: Path
    folder: Path
    files: tuple[Path, ...]


def make_op(name: str, to: Path | None = None) -> NewOp:
    """Writes an op of this name with a kernel of each language, all of which verify.

    It goes into `to`, else the project's first folder of kernels, else `kernels/` here.
    Raises UsageError for an invalid or taken name, or a place that cannot be written.
    """
    if not _OP_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not an op's name", "lower-case letters, digits, single dashes, as in rms-norm")
    try:
        check_name(name if name == EVERY else f"{name}-triton")  # its longest
    except DeclarationError as error:
        raise UsageError(error.message, error.hint) from error
    root = checked_root(to.expanduser().resolve()) if to else next(iter(own_roots()), Path.cwd() / "kernels")
    files = {path: _NAME_THERE.sub(name.encode(), data) for path, data in read_folder(_TEMPLATE).items()}
    kernels = [path.parent for path in files if path.name == "variant.py"]
    catalog = load_catalog((*default_roots(), root))
    if folder := catalog.op_folders.get(name):
        raise UsageError(f"{name} exists already: an op in {folder}", "choose another name")
    for each in (name, *(f"{name}-{kernel}" for kernel in kernels)):
        if owner := catalog.owner(each):
            raise UsageError(f"{each} exists already: a kernel in {owner.folder}", "choose another name")
    write_folder(root / name, files, lambda _hidden: None)
    return NewOp(name, root, root / name, tuple(files))
