"""A CUDA source parsed by tree-sitter: its functions, their parameters, macros and file-wide constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.lint.finding import SourcePlace

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_ATTRIBUTE = re.compile(r"\b(?:__align__|__launch_bounds__|__cluster_dims__|alignas)\s*\(")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?[ \t]*((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[^\n]*", re.MULTILINE)


@dataclass(frozen=True)
class CudaParameter:
    """A parameter of a function; `type_name` is without qualifiers, pointers and references: `float`.

    `is_const` holds for it or what it points to; `place` is None if a macro of another file declares it.
    """

    name: str
    type_name: str
    is_pointer: bool
    is_const: bool
    is_restrict: bool
    place: SourcePlace | None


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
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator")
        parameters = declarator.child_by_field_name("parameters") if declarator else None
        if declarator is None or body is None or parameters is None:
            return None
        before = self.root.text[node.start_byte : declarator.start_byte] if self.root.text else b""
        name = declarator.child_by_field_name("declarator")
        return CudaFunction(
            name=text_of(name) if name else "",
            is_kernel=b"__global__" in before,
            parameters=tuple(self._parameters(parameters)),
            body=body,
            is_understood=not node.has_error,
        )

    def _parameters(self, listed: Node) -> Iterator[CudaParameter]:
        for node in listed.named_children:
            if node.type not in {"parameter_declaration", "optional_parameter_declaration"}:
                continue
            declarator = node.child_by_field_name("declarator")
            written = text_of(node)
            if declarator is None and written in self.macros:
                yield from self._of_macro(self.macros[written])
            elif declarator is not None:
                yield _parameter(node, declarator, self.place(node))

    def _of_macro(self, body: str) -> Iterator[CudaParameter]:
        tree = _parser().parse(f"void f({body});".encode())
        for node in walk(tree.root_node):
            declarator = node.child_by_field_name("declarator")
            if node.type == "parameter_declaration" and declarator is not None:
                yield _parameter(node, declarator, None)


def read_cuda(path: Path, text: str, macros: dict[str, str]) -> CudaSource:
    """Parses a file; `macros` are those of the headers that it includes."""
    known = {**macros, **macros_of(text)}
    tree = _parser().parse(_without_attributes(text, known).encode())
    return CudaSource(path, text, known, tree.root_node)


def macros_of(text: str) -> dict[str, str]:
    """Returns the macros without arguments that a text defines, each on one line."""
    found = _DEFINE.finditer(text)
    return {each[1]: re.sub(r"\\\n|\s+//.*", " ", each[3]).strip() for each in found if each[2] is None}


def walk(node: Node) -> Iterator[Node]:
    """Yields a node and all nodes below it, in source order."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(found.children)


def text_of(node: Node) -> str:
    """Returns the source text of a node."""
    return (node.text or b"").decode(errors="replace")


def names_in(node: Node) -> set[str]:
    """Returns the identifiers in a node."""
    return {text_of(each) for each in walk(node) if each.type == "identifier"}


def _parameter(node: Node, declarator: Node, place: SourcePlace | None) -> CudaParameter:
    written, type_node = text_of(node), node.child_by_field_name("type")
    identifiers = [text_of(each) for each in walk(declarator) if each.type == "identifier"]
    return CudaParameter(
        name=identifiers[-1] if identifiers else "",
        type_name=text_of(type_node) if type_node else "",
        is_pointer=declarator.type == "pointer_declarator",
        is_const="const" in re.split(r"\W+", written.partition("*")[0]),
        is_restrict="__restrict__" in written or "__restrict" in written,
        place=place,
    )


def _without_attributes(text: str, macros: dict[str, str]) -> str:
    """Blanks out what the grammar does not know: alignments, launch bounds, pragmas."""
    spans = [each.span() for each in _PRAGMA.finditer(text)]
    spans += [(found.start(), closing(text, found.end() - 1)) for found in _ATTRIBUTE.finditer(text)]
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


def closing(text: str, opening: int) -> int:
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
