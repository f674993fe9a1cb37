"""Finds loads in Triton that may be issued before a store that stands in front of them.

A load in a loop of several stages follows a store to the same tensor, and Triton may issue it before. Neither the
compiler tells it, which looks for no such dependence, nor the interpreter, which goes by the source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.model.kernel import TritonKernel

_SILENCE = re.compile(r"#\s*gdnbench:\s*loads in order\W*\w")


def moved_loads(catalog: Catalog, kernel: str) -> tuple[str, ...]:
    """Describes them in the source of a kernel, or of those that a dispatcher picks, by file and line.

    A comment `# gdnbench: loads in order: WHY` on the line of a load silences it. A source that is no Python has none:
    its build says why.
    """
    entry = catalog.entries[kernel]
    picks = [pick.kernel for pick in entry.dispatch.rows] if entry.dispatch else [kernel]
    return tuple(dict.fromkeys(found for name in picks for found in _of_source(catalog.entries[name])))


def _of_source(entry: CatalogEntry) -> Iterator[str]:
    kernel = entry.kernel
    if not isinstance(kernel, TritonKernel):
        return
    tensors = [spec.name for spec in (*entry.op.tensors, *kernel.scratch)]
    constants = {name: param.choices for name, param in kernel.params.items()}
    try:
        text = entry.source.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for moved in find_moved_loads(tree, [launch.entry for launch in kernel.launches], tensors, constants):
        if not _SILENCE.search(text.splitlines()[moved.load.lineno - 1]):
            yield (
                f"{entry.source.name}:{moved.load.lineno}: the load of {moved.tensor} follows its store in line "
                f"{moved.store.lineno} of a loop of num_stages={moved.stages}: it may be issued before that store; "
                "keep the value in registers, or take num_stages from that loop"
            )


FEWEST_STAGES = 2
"""With one stage no load is issued ahead."""

_DEEPEST_CALL = 8

Tensors = frozenset[str]
"""The arguments, of those that are tensors, that a value points into."""


class MovedLoad(NamedTuple):
    """A load, the store in front of it, their tensor, and the loop's stages."""

    load: ast.Call
    store: ast.Call
    tensor: str
    stages: int


def find_moved_loads(
    tree: ast.Module, entries: Iterable[str], tensors: Iterable[str], constants: Mapping[str, Sequence[object]]
) -> Iterator[MovedLoad]:
    """Yields them in the functions `entries` of a file and in those that they call.

    `tensors` are names of arguments; `constants` are the values that others may have, of which the most stages count.
    """
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    named = {name: frozenset({name}) for name in tensors}
    for entry in entries:
        if function := functions.get(entry):
            follower = _Follower(functions, constants)
            follower.call(function, {name: named[name] for name in _arguments(function) if name in named})
            yield from follower.moved


def _arguments(function: ast.FunctionDef) -> list[str]:
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


@dataclass
class _Follower:
    """Follows a function in source order, branches one after the other, with the tensors behind each name."""

    functions: Mapping[str, ast.FunctionDef]
    constants: Mapping[str, Sequence[object]]
    moved: list[MovedLoad] = field(default_factory=list)
    _loops: list[tuple[int, dict[str, ast.Call]]] = field(default_factory=list)  # stages, and what was stored to whom
    _depth: int = 0

    def call(self, function: ast.FunctionDef, names: dict[str, Tensors]) -> Tensors:
        """Follows a function; returns the tensors that its results point into."""
        if self._depth >= _DEEPEST_CALL:
            return frozenset()
        self._depth += 1
        returned = self._follow(function.body, names)
        self._depth -= 1
        return returned

    def _follow(self, body: Iterable[ast.stmt], names: dict[str, Tensors]) -> Tensors:
        returned: Tensors = frozenset()
        for statement in body:
            match statement:
                case ast.Assign(targets=targets, value=value):
                    self._assign(targets, self._value(value, names), names)
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    self._assign([target], self._value(value, names), names)
                case ast.AugAssign(target=target, value=value):
                    self._assign([target], self._value(target, names) | self._value(value, names), names)
                case ast.Return(value=value) if value is not None:
                    returned |= self._value(value, names)
                case ast.For(iter=loop, body=inner):
                    self._value(loop, names)
                    self._loops.append((self._stages(loop), {}))
                    returned |= self._follow(inner, names)
                    self._loops.pop()
                case ast.If(test=test, body=inner, orelse=other):
                    self._value(test, names)
                    returned |= self._follow([*inner, *other], names)
                case ast.While(body=inner) | ast.With(body=inner):
                    returned |= self._follow(inner, names)
                case ast.Expr(value=value):
                    self._value(value, names)
        return returned

    def _assign(self, targets: Iterable[ast.expr], value: Tensors, names: dict[str, Tensors]) -> None:
        for target in targets:
            names |= {each.id: value for each in ast.walk(target) if isinstance(each, ast.Name)}

    def _stages(self, loop: ast.expr) -> int:
        """The most stages of a loop's `tl.range`; 0 if it says none, or they are not known."""
        options = loop.keywords if isinstance(loop, ast.Call) else []
        option = next((each.value for each in options if each.arg == "num_stages"), None)
        values: Sequence[object] = [option.value] if isinstance(option, ast.Constant) else []
        if isinstance(option, ast.Name):
            values = self.constants.get(option.id, ())
        return max((value for value in values if isinstance(value, int)), default=0)

    def _value(self, node: ast.expr, names: dict[str, Tensors]) -> Tensors:
        """The tensors that an expression points into; notes the accesses in it."""
        match node:
            case ast.Name(id=name):
                return names.get(name, frozenset())
            case ast.Call():
                return self._called(node, names)
            case ast.Compare():
                self._all(ast.iter_child_nodes(node), names)
                return frozenset()
            case _:
                return self._all(ast.iter_child_nodes(node), names)

    def _all(self, nodes: Iterable[ast.AST], names: dict[str, Tensors]) -> Tensors:
        found: Tensors = frozenset()
        for node in nodes:
            if isinstance(node, ast.expr):
                found |= self._value(node, names)
        return found

    def _called(self, node: ast.Call, names: dict[str, Tensors]) -> Tensors:
        positional = [self._value(each, names) for each in node.args]
        named = {each.arg: self._value(each.value, names) for each in node.keywords if each.arg}
        match node.func:
            case ast.Name(id=name) if name in self.functions:
                function = self.functions[name]
                return self.call(function, dict(zip(_arguments(function), positional, strict=False)) | named)
            case ast.Attribute(value=ast.Name(id=module), attr=("load" | "store") as name) if module not in names:
                pointer = positional[0] if positional else named.get("pointer", frozenset())
                self._access(name, node, pointer)
                return frozenset()
            case function:
                return self._value(function, names).union(*positional, *named.values())

    def _access(self, name: str, node: ast.Call, pointer: Tensors) -> None:
        for stages, stored in self._loops:
            for tensor in sorted(pointer) if stages >= FEWEST_STAGES else ():
                if name == "store":
                    stored[tensor] = node
                elif tensor in stored:
                    self.moved.append(MovedLoad(node, stored[tensor], tensor, stages))
