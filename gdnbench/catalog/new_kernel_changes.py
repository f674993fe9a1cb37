"""Turns a kernel's files into those of another: changes only names and defaults."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from gdnbench.catalog.entry import CatalogEntry, label_parts
from gdnbench.errors import UsageError
from gdnbench.model.case import Variant
from gdnbench.model.declaration import ParamValue

_DECLARATION = Path("variant.py")
_AFTER_FIRST_LINE = re.compile(r'"""[^\r\n]*([\r\n].*""")', re.DOTALL)  # of a docstring


@dataclass(frozen=True)
class Changes:
    """The changes to a declaration; `idea` is its docstring's first line.

    `entry` is the function's new name, empty to keep it; `presets` has new names by old ones, None to leave one out.
    """

    idea: str
    name: str
    entry: str = ""
    presets: Mapping[str, str | None] = field(default_factory=dict)
    defaults: Mapping[str, ParamValue] = field(default_factory=dict)


def plan_changes(name: str, origin: CatalogEntry, variant: Variant, files: Mapping[Path, bytes]) -> Changes:
    """Plans the changes that turn `origin` into the kernel `name`, with the variant's params as its defaults."""
    kernel, (label, settings) = origin.kernel, label_parts(variant.label)
    defaults = {param: value for param, value in variant.params.items() if value != kernel.params[param].default}
    # A preset that only repeats the new defaults would be measured twice.
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


def preset_of(preset: str, op: str, old: str, new: str) -> str:
    """Renames a preset: `decode-v4b` becomes `decode-mineb`, and `decode-wide` becomes `decode-mine-wide`."""
    return new + preset.removeprefix(old) if preset.startswith(old) else f"{new}-{preset.removeprefix(f'{op}-')}"


def entry_of(entry: str, old: str, new: str) -> str:
    """Renames the function: `gdn_decode_v4` becomes `gdn_decode_mine`; one without the old name stays."""
    carried = re.escape(old.replace("-", "_"))
    return re.sub(rf"(?<![A-Za-z0-9]){carried}(?![A-Za-z0-9])", new.replace("-", "_"), entry)


def changed_files(origin: CatalogEntry, changes: Changes, files: Mapping[Path, bytes]) -> dict[Path, bytes]:
    """Changes the declaration, and the function's name in every text file.

    Raises UsageError if the declaration computes what is to change, or is not UTF-8.
    """
    try:
        declaration = rewrite(files[_DECLARATION].decode("utf-8-sig"), changes).encode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin.folder / _DECLARATION} is not UTF-8", "save it as UTF-8 first") from error
    changed = dict(files)
    if changes.entry:
        word, new = _word(origin.kernel.entry), changes.entry.encode()
        changed = {name: data if b"\0" in data else word.sub(new, data) for name, data in files.items()}
    return {**changed, _DECLARATION: declaration}


def _word(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"\b" + re.escape(name).encode() + rb"\b")


def rewrite(source: str, changes: Changes) -> str:
    """Changes a declaration; comments and formatting stay.

    What changes must be written out: a name as a string, presets and params as dicts, each perhaps under a name of the
    module. Raises UsageError if it is computed instead.
    """
    file = _Source(source)
    kernel = file.arguments(file.assigned.get("kernel"))
    file.set_first_line(changes.idea)
    file.set_string(kernel.get("name"), changes.name, "its name")
    if changes.entry:
        file.set_string(kernel.get("entry"), changes.entry, "its entry")
    if changes.presets:
        file.rename_items(kernel.get("presets"), changes.presets)
    if changes.defaults:
        params = {name: value for name, _, value in file.items(kernel.get("params"), "param")}
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

    def items(self, node: ast.expr | None, what: str) -> list[tuple[str, ast.expr, ast.expr]]:
        """Returns the items of a dict: name, key and value."""
        found = self.follow(node)
        if not isinstance(found, ast.Dict):
            raise _computed(f"its {what}s")
        pairs = zip(found.keys, found.values, strict=True)
        strings = [(self.string(key, f"the name of a {what}"), key, value) for key, value in pairs]
        return [(str(string.value), key, value) for string, key, value in strings if key is not None]

    def rename_items(self, presets: ast.expr | None, names: Mapping[str, str | None]) -> None:
        items, whole = self.items(presets, "preset"), self.follow(presets)
        kept = [index for index, (name, _, _) in enumerate(items) if names.get(name, name) is not None]
        if not kept and whole is not None:
            self.replace(whole, "{}")
        for index, (name, key, value) in enumerate(items if kept else ()):
            if index in kept:
                self.set_string(key, names.get(name) or name, "the name of a preset")
            elif index < kept[-1]:  # with the comma after it
                self.edits.append((self.span(key)[0], self.span(items[index + 1][1])[0], ""))
            else:  # with the comma before it
                self.edits.append((self.span(items[index - 1][2])[1], self.span(value)[1], ""))


def _literal(value: ParamValue) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _computed(what: str) -> UsageError:
    hint = "copy its folder and edit it by hand"
    return UsageError(f"variant.py computes {what}, and only what it writes out can be changed", hint)
