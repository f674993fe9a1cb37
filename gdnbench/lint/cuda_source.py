"""The input of the rules for CUDA: a source parsed by tree-sitter, with the launches of one variant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import BuildError
from gdnbench.lint.settings import LaunchSetting, SourcePlace, settings_of
from gdnbench.model.case import Variant
from gdnbench.model.kernel import CudaKernel
from gdnbench.regular_file import MOST_SOURCE_BYTES, read_regular_text

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_ATTRIBUTE = re.compile(r"\b(?:__align__|__launch_bounds__|__cluster_dims__|alignas)\s*\(")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?[ \t]*((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[^\n]*", re.MULTILINE)


@dataclass(frozen=True)
class CudaParameter:
    """A parameter of a function; `type_name` is without qualifiers, pointers and references: `float`."""

    name: str
    type_name: str
    is_pointer: bool


@dataclass(frozen=True)
class CudaFunction:
    """A function with a body; `is_understood` if the parser knows all of it."""

    name: str
    is_kernel: bool
    parameters: tuple[CudaParameter, ...]
    body: Node
    is_understood: bool


@dataclass(frozen=True)
class CudaSource:
    """A `.cu` or `.cuh` file as a syntax tree, with the macros without arguments of it and the headers beside it."""

    path: Path
    text: str
    macros: dict[str, str]
    root: Node

    @cached_property
    def functions(self) -> tuple[CudaFunction, ...]:
        """The functions in file order."""
        return tuple(
            found for node in walk(self.root) if node.type == "function_definition" if (found := self._function(node))
        )

    @cached_property
    def definitions(self) -> dict[str, list[Node]]:
        """The nodes of the functions' definitions, by name."""
        found: dict[str, list[Node]] = {}
        for node in walk(self.root):
            if node.type == "function_definition":
                found.setdefault(text_of(field(field(node, "declarator"), "declarator")), []).append(node)
        return found

    @cached_property
    def constants(self) -> tuple[Node, ...]:
        """The declarations of constants outside of functions."""
        bodies = [(each.body.start_byte, each.body.end_byte) for each in self.functions]
        return tuple(
            node
            for node in walk(self.root)
            if node.type == "declaration"
            and text_of(node).startswith(("constexpr", "static constexpr", "const "))
            and not any(begin <= node.start_byte < end for begin, end in bodies)
        )

    def place(self, node: Node) -> SourcePlace:
        """Returns the place where a node begins."""
        row, column = node.start_point
        line = self.text.splitlines()[row].encode()
        return SourcePlace(self.path, row + 1, len(line[:column].decode(errors="replace")) + 1)

    def _function(self, node: Node) -> CudaFunction | None:
        declarator, body = field(node, "declarator"), field(node, "body")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = field(declarator, "declarator")
        parameters = field(declarator, "parameters")
        if declarator is None or body is None or parameters is None:
            return None
        before = (node.text or b"")[: declarator.start_byte - node.start_byte]
        return CudaFunction(
            name=text_of(field(declarator, "declarator")),
            is_kernel=b"__global__" in before,
            parameters=tuple(self._parameters(parameters)),
            body=body,
            is_understood=not node.has_error,
        )

    def _parameters(self, listed: Node) -> Iterator[CudaParameter]:
        for node in listed.named_children:
            if node.type not in {"parameter_declaration", "optional_parameter_declaration"}:
                continue
            declarator = field(node, "declarator")
            written = text_of(node)
            if declarator is None and written in self.macros:
                yield from self._of_macro(self.macros[written])
            elif declarator is not None:
                yield _parameter(node, declarator)

    def _of_macro(self, body: str) -> Iterator[CudaParameter]:
        tree = _parser().parse(f"void f({body});".encode())
        for node in walk(tree.root_node):
            declarator = field(node, "declarator")
            if node.type == "parameter_declaration" and declarator is not None:
                yield _parameter(node, declarator)


def read_cuda(path: Path, text: str, macros: dict[str, str]) -> CudaSource:
    """Parses a file; `macros` are those of the headers that it includes."""
    known = {**macros, **macros_of(text)}
    tree = _parser().parse(_without_attributes(text, known).encode())
    return CudaSource(path, text, known, tree.root_node)


def macros_of(text: str) -> dict[str, str]:
    """Returns the macros without arguments that a text defines, each on one line."""
    defines = _DEFINE.finditer(text)
    return {each[1]: re.sub(r"\\\n|\s+//.*", " ", each[3]).strip() for each in defines if each[2] is None}


def walk(node: Node) -> Iterator[Node]:
    """Yields a node and all nodes below it, in source order."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.children)


def text_of(node: Node | None) -> str:
    """Returns the source text of a node; "" for None."""
    return (node.text or b"").decode(errors="replace") if node is not None else ""


def field(node: Node | None, name: str) -> Node | None:
    """Returns the child in a field of the grammar, or None if there is none."""
    return node.child_by_field_name(name) if node is not None else None


def _parameter(node: Node, declarator: Node) -> CudaParameter:
    identifiers = [text_of(each) for each in walk(declarator) if each.type == "identifier"]
    return CudaParameter(
        name=identifiers[-1] if identifiers else "",
        type_name=text_of(field(node, "type")),
        is_pointer=declarator.type == "pointer_declarator",
    )


def _without_attributes(text: str, macros: dict[str, str]) -> str:
    """Blanks out what the grammar does not know: alignments, launch bounds, pragmas."""
    spans = [each.span() for each in _PRAGMA.finditer(text)]
    spans += [(found.start(), _closing(text, found.end() - 1)) for found in _ATTRIBUTE.finditer(text)]
    attributes = [name for name, body in macros.items() if not body or body.startswith("__")]
    if attributes:
        word = re.compile(rf"\b(?:{'|'.join(map(re.escape, attributes))})\b(?!\s*\()")
        directive = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
        lines = [each.span() for each in directive.finditer(text)]
        spans += [each.span() for each in word.finditer(text) if not any(a <= each.start() < b for a, b in lines)]
    characters = list(text)
    for begin, end in spans:
        for place in range(begin, end):
            if characters[place] != "\n":
                characters[place] = " " * len(characters[place].encode())
    return "".join(characters)


def _closing(text: str, opening: int) -> int:
    """Returns the offset after the bracket that closes the one at `opening`; the end of the text if none does."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


@cache
def _parser() -> Parser:
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


@dataclass(frozen=True)
class CudaSubject:
    """A source, the settings of each launched function, and the headers beside it, whose constants it uses."""

    source: CudaSource
    settings: dict[str, tuple[LaunchSetting, ...]]
    label: str
    headers: tuple[CudaSource, ...] = ()


def read_cuda_subjects(entry: CatalogEntry, variant: Variant) -> Iterator[CudaSubject]:
    """Yields the kernel's source, then each header that it includes, without the compiler's; raises BuildError."""
    paths = (entry.source, *(path for _, path in entry.headers()))
    texts = {path: read_source(path) for path in paths}
    macros: dict[str, str] = {}
    for text in texts.values():
        macros |= macros_of(text)
    own, *headers = (read_cuda(path, text, macros) for path, text in texts.items())
    launches = entry.kernel.launches if isinstance(entry.kernel, CudaKernel) else ()
    settings = {
        launch.entry: tuple(_with_prefix(entry, setting) for setting in settings_of(entry, variant, launch))
        for launch in launches
    }
    yield CudaSubject(own, settings, variant.label, tuple(headers))
    for header in headers:
        yield CudaSubject(header, {}, variant.label)


def read_source(path: Path) -> str:
    """Returns a source's text; raises BuildError if it cannot be read."""
    try:
        return read_regular_text(path, MOST_SOURCE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{path} cannot be read: {error}", "see `source` in variant.py") from error


def _with_prefix(entry: CatalogEntry, setting: LaunchSetting) -> LaunchSetting:
    axes = {axis.name for axis in entry.op.workloads.axes}
    prefix = entry.op.macro_prefix
    named = {f"{prefix}{name}" if name in axes else name: value for name, value in setting.constants.items()}
    return replace(setting, constants=named)
