"""The kernels that a CUDA source defines, with their parameters, as tree-sitter parses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_ATTRIBUTE = re.compile(r"\b(?:__align__|__launch_bounds__|__cluster_dims__|alignas)\s*\(")
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[^\n]*", re.MULTILINE)


@dataclass(frozen=True)
class CudaParameter:
    """A parameter of a kernel."""

    name: str
    is_pointer: bool


def read_kernels(text: str) -> dict[str, tuple[CudaParameter, ...]]:
    """The parameters of each function under `__global__` with a body, by its name."""
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    root = Parser(Language(tree_sitter_cuda.language())).parse(_without_attributes(text).encode()).root_node
    kernels = {}
    for node in _walk(root):
        declarator = _field(node, "declarator") if node.type == "function_definition" else None
        while declarator is not None and declarator.type != "function_declarator":
            declarator = _field(declarator, "declarator")
        parameters = _field(declarator, "parameters")
        if declarator is None or parameters is None:
            continue
        if b"__global__" in (node.text or b"")[: declarator.start_byte - node.start_byte]:
            kernels[_text(_field(declarator, "declarator"))] = tuple(_parameters(parameters))
    return kernels


def _parameters(listed: Node) -> Iterator[CudaParameter]:
    for node in listed.named_children:
        declarator = _field(node, "declarator")
        if declarator is not None and node.type in {"parameter_declaration", "optional_parameter_declaration"}:
            identifiers = [_text(each) for each in _walk(declarator) if each.type == "identifier"]
            name = identifiers[-1] if identifiers else ""
            yield CudaParameter(name, is_pointer=declarator.type == "pointer_declarator")


def _walk(node: Node) -> Iterator[Node]:
    """Yields a node and all nodes below it, in source order."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.children)


def _text(node: Node | None) -> str:
    return (node.text or b"").decode(errors="replace") if node is not None else ""


def _field(node: Node | None, name: str) -> Node | None:
    return node.child_by_field_name(name) if node is not None else None


def _without_attributes(text: str) -> str:
    """Leaves out what the grammar does not know: alignments, launch bounds, pragmas."""
    text = _PRAGMA.sub("", text)
    while found := _ATTRIBUTE.search(text):
        text = text[: found.start()] + text[_closing(text, found.end() - 1) :]
    return text


def _closing(text: str, opening: int) -> int:
    """Returns the offset after the bracket that closes the one at `opening`; the end of the text if none does."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)
