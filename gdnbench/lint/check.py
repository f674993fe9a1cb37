"""Applies the rule to the Triton sources of kernels, and drops findings that a comment silences.

Rule T10: a load in a loop of several stages follows a store to the same tensor, and Triton may issue it before. Neither
the compiler tells it, which looks for no such dependence, nor the interpreter, which goes by the source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import select_variants
from gdnbench.errors import BuildError, ExitCode
from gdnbench.model.kernel import TritonKernel
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone, ignore

CODE = "T10"
REMEDY = "keep the value in registers, or take num_stages from that loop"


@dataclass(frozen=True, order=True)
class SourcePlace:
    """A place in a source; line and column, in characters, from 1."""

    path: Path
    line: int
    column: int


@dataclass(frozen=True)
class LintFinding:
    """A mistake, by the rule's code `T10`, in the kernel in which it was found first."""

    place: SourcePlace
    code: str
    message: str
    remedy: str
    kernel: str


@dataclass(frozen=True)
class LintResult:
    """The findings in some kernels' sources, by file, line and column; comments silence `silenced` more.

    `unread` of the `kernels` are not in Triton.
    """

    findings: tuple[LintFinding, ...]
    silenced: int
    kernels: tuple[str, ...]
    files: tuple[Path, ...]
    unread: int = 0

    @property
    def exit_code(self) -> ExitCode:
        """1 if there is a finding."""
        return ExitCode.REGRESSION if self.findings else ExitCode.OK


def lint_kernels(catalog: Catalog, ops: Sequence[str], wanted: str, observer: Observer = ignore) -> LintResult:
    """Looks for the mistake in the Triton sources of kernels; `wanted` is as `select_variants` takes it.

    A dispatcher is read as the kernels that it picks. Raises UnknownNameError for an unknown kernel; BuildError if a
    source cannot be read, is not Python, or nests expressions too deeply.
    """
    entries = {entry.kernel.name: entry for op in ops for entry in _resolved(catalog, op, wanted)}
    findings: dict[SourcePlace, LintFinding] = {}
    texts: dict[Path, str] = {}
    observer(PhaseBegun("read", len(entries)))
    for name, entry in entries.items():
        observer(StepChanged(name))
        if isinstance(entry.kernel, TritonKernel):
            texts[entry.source] = _text_of(entry)
            for finding in _findings(entry, entry.kernel, texts[entry.source]):
                findings.setdefault(finding.place, finding)
        observer(UnitDone())
    reported: list[LintFinding] = []
    for path, text in texts.items():
        reported += apply_comments(text, [each for each in findings.values() if each.place.path == path])
    reported.sort(key=lambda each: each.place)
    unread = sum(not isinstance(entry.kernel, TritonKernel) for entry in entries.values())
    return LintResult(tuple(reported), len(findings) - len(reported), tuple(entries), tuple(texts), unread)


def _resolved(catalog: Catalog, op: str, wanted: str) -> Iterator[CatalogEntry]:
    for variant in select_variants(catalog, op, wanted):
        entry = catalog.entries[variant.kernel]
        picks: Iterable[str] = (pick.kernel for pick in entry.dispatch.rows) if entry.dispatch else [variant.kernel]
        yield from (catalog.entries[name] for name in picks)


def _text_of(entry: CatalogEntry) -> str:
    try:
        return entry.source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{entry.source} cannot be read: {error}", "see `source` in variant.py") from error


def _findings(entry: CatalogEntry, kernel: TritonKernel, text: str) -> Iterator[LintFinding]:
    path, lines = entry.source, text.splitlines()
    tensors = [spec.name for spec in (*entry.op.tensors, *kernel.scratch)]
    constants = {name: param.choices for name, param in kernel.params.items()}
    try:
        tree = ast.parse(text, str(path))
        for moved in find_moved_loads(tree, [launch.entry for launch in kernel.launches], tensors, constants):
            before = lines[moved.load.lineno - 1].encode()[: moved.load.col_offset].decode(errors="replace")
            message = (
                f"the load of {moved.tensor} follows its store in line {moved.store.lineno} of a loop of "
                f"num_stages={moved.stages}: it may be issued before that store"
            )
            place = SourcePlace(path, moved.load.lineno, len(before) + 1)
            yield LintFinding(place, CODE, message, REMEDY, kernel.name)
    except (SyntaxError, ValueError) as error:  # ValueError: for a null byte, before Python 3.11.4
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise BuildError(f"{path}{line}: {error}", "it is not Python as it stands") from error
    except RecursionError as error:
        message = f"{path}: an expression in it is nested too deeply to be read"
        raise BuildError(message, "split it into several") from error


_COMMENT = re.compile(r"#\s*gdnbench:\s*ignore\[\s*([A-Z]\d+(?:\s*,\s*[A-Z]\d+)*)\s*\][ \t]*(.*)")


def apply_comments(text: str, findings: list[LintFinding]) -> list[LintFinding]:
    """Returns the findings of a file that no comment silences; a comment needs a reason."""
    lines = text.splitlines()
    remaining: list[LintFinding] = []
    for finding in findings:
        comment = _COMMENT.search(lines[finding.place.line - 1])
        if comment is None or finding.code not in re.split(r"\s*,\s*", comment[1]):
            remaining.append(finding)
        elif not re.search(r"\w", comment[2]):
            remedy = f"say why behind ignore[{comment[1]}]: without a reason it does nothing"
            remaining.append(replace(finding, remedy=remedy))
    return remaining


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
