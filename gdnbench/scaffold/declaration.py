"""Rewrites a `variant.py` for another name: only the tokens that name something or set a default."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from gdnbench.errors import UsageError
from gdnbench.model import ParamValue
from gdnbench.scaffold.splice import Splice

_MORE = re.compile(r'"""[^\r\n]*([\r\n].*""")', re.DOTALL)  # what a docstring says after its first line


@dataclass(frozen=True)
class Changes:
    """What a declaration is to say.

    Attributes:
        idea: the docstring's first line.
        name: the kernel's name.
        entry: the function's name; empty to leave it.
        presets: new names of presets, by the old ones.
        dropped: presets to leave out, by their old names.
        defaults: new defaults, by param.
    """

    idea: str
    name: str
    entry: str = ""
    presets: Mapping[str, str] = field(default_factory=dict)
    dropped: Set[str] = frozenset()
    defaults: Mapping[str, ParamValue] = field(default_factory=dict)


def rewrite(source: str, changes: Changes) -> str:
    """The declaration with the changes made; comments and formatting stay.

    What is to change must be written out: a name as a string, presets and params as dicts, each perhaps under a name
    of the module's own.

    Raises:
        UsageError: if it is not, but computed.
    """
    declaration = _Declaration(source)
    declaration.set_idea(changes.idea)
    declaration.set_text("name", changes.name)
    if changes.entry:
        declaration.set_text("entry", changes.entry)
    if changes.presets or changes.dropped:
        declaration.set_presets(changes.presets, changes.dropped)
    for name, value in changes.defaults.items():
        declaration.set_default(name, value)
    return declaration.splice.result()


class _Declaration:
    """A `variant.py` on its way to another name."""

    def __init__(self, source: str) -> None:
        self.module = ast.parse(source)
        self.splice = Splice(source)

    def set_idea(self, idea: str) -> None:
        docstring = f'""{_literal(idea)}""'
        match self.module.body[0]:
            case ast.Expr(value=ast.Constant(value=str()) as old):
                more = _MORE.fullmatch(self.splice.text(old))
                self.splice.replace(old, docstring.removesuffix('"""') + more[1] if more else docstring)
            case _:
                self.splice.insert(docstring + "\n\n")

    def set_text(self, keyword: str, text: str) -> None:
        self._set_string(self._argument(keyword), text, f"its {keyword}")

    def set_presets(self, renamed: Mapping[str, str], dropped: Set[str]) -> None:
        presets = self._dict("presets")
        names = [str(self._string(key, "the name of a preset").value) for key in presets.keys]
        for key, name in zip(presets.keys, names, strict=True):
            if name in renamed:
                self._set_string(key, renamed[name], "the name of a preset")
        if dropped:
            self._keep(presets, [index for index, name in enumerate(names) if name not in dropped])

    def set_default(self, name: str, value: ParamValue) -> None:
        params = self._dict("params")
        for key, declared in zip(params.keys, params.values, strict=True):
            if self._string(key, "the name of a param").value == name:
                param = self._follow(declared)
                default = (_keyword(param, "default") or _first(param)) if isinstance(param, ast.Call) else None
                if default is None:
                    raise _computed(f"the default of {name}")
                self.splice.replace(default, _literal(value))

    def _keep(self, items: ast.Dict, kept: Sequence[int]) -> None:
        """Takes the other items out, each with the comma after it, or before it where none that is kept follows."""
        if not kept:
            self.splice.replace(items, "{}")
            return
        for index, (key, value) in enumerate(zip(items.keys, items.values, strict=True)):
            after = items.keys[index + 1] if index < kept[-1] else None
            if index in kept or key is None:
                continue
            if after is not None:
                self.splice.cut(self.splice.start(key), self.splice.start(after))
            else:
                self.splice.cut(self.splice.end(items.values[index - 1]), self.splice.end(value))

    def _set_string(self, node: ast.expr | None, text: str, what: str) -> None:
        string = self._string(node, what)
        quote = self.splice.text(string)[-1]
        self.splice.replace(string, quote + text + quote)

    def _string(self, node: ast.expr | None, what: str) -> ast.Constant:
        found = self._follow(node)
        if not (isinstance(found, ast.Constant) and isinstance(found.value, str)):
            raise _computed(what)
        return found

    def _dict(self, keyword: str) -> ast.Dict:
        found = self._follow(self._argument(keyword))
        if not isinstance(found, ast.Dict):
            raise _computed(f"its {keyword}")
        return found

    def _argument(self, keyword: str) -> ast.expr | None:
        call = self._assigned("kernel")
        return _keyword(call, keyword) if isinstance(call, ast.Call) else None

    def _follow(self, node: ast.expr | None) -> ast.expr | None:
        """What a name of the module stands for; anything else is itself."""
        return self._assigned(node.id) if isinstance(node, ast.Name) else node

    def _assigned(self, name: str) -> ast.expr | None:
        for statement in reversed(self.module.body):
            match statement:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    return value
                case ast.AnnAssign(target=ast.Name(id=target), value=value) if target == name:
                    return value
        return None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _first(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else None


def _literal(value: ParamValue) -> str:
    """As Python writes it, with the double quotes of the house."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _computed(what: str) -> UsageError:
    return UsageError(
        f"variant.py computes {what}, and only what it writes out can be changed", "copy its folder and edit it by hand"
    )
