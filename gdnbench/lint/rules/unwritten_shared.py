"""C3: shared memory that is read before it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gdnbench.lint.cuda_source import text_of, walk
from gdnbench.lint.cuda_subject import CudaSubject
from gdnbench.lint.finding import LintRule, SourcePlace

if TYPE_CHECKING:
    from tree_sitter import Node


def _check(subject: CudaSubject) -> Iterator[tuple[SourcePlace, str]]:
    for function in subject.source.functions:
        if not function.is_understood:
            continue
        declared: dict[str, Node] = {}
        settled: set[str] = set()
        for node in walk(function.body):
            if node.type == "declaration" and _is_shared(node):
                declared |= dict.fromkeys(_declared(node), node)
            elif node.type == "identifier" and text_of(node) in declared.keys() - settled:
                name = text_of(node)
                if node.start_byte < declared[name].end_byte:
                    continue
                settled.add(name)
                if _is_plain_read(node) and not _is_guarded(node, function.body):
                    yield subject.source.place(node), f"{name} is read here, and nothing has written it yet"


def _is_shared(declaration: Node) -> bool:
    written = text_of(declaration)
    return "__shared__" in written and "extern" not in written


def _declared(declaration: Node) -> list[str]:
    found = []
    for child in declaration.children_by_field_name("declarator"):
        names = [text_of(each) for each in walk(child) if each.type == "identifier"]
        found += names[:1]
    return found


def _is_plain_read(name: Node) -> bool:
    """Whether an element is read through the array's own name: no assignment to it, no address of it, no argument."""
    node, parent = name, name.parent
    is_element = False
    while parent is not None and parent.type in {"subscript_expression", "field_expression"}:
        if parent.child_by_field_name("argument") != node:
            return False  # the name is in an index
        is_element = is_element or parent.type == "subscript_expression"
        node, parent = parent, parent.parent
    if parent is None or not is_element:
        return False
    if parent.type == "assignment_expression" and parent.child_by_field_name("left") == node:
        sign = parent.child_by_field_name("operator")
        return sign is not None and text_of(sign) != "="
    if parent.type == "binary_expression":
        return True
    return parent.type in {"init_declarator", "assignment_expression"} and not _makes_pointer(parent)


def _makes_pointer(parent: Node) -> bool:
    """Whether the declared variable may be a pointer or a reference into the array."""
    declarator = parent.child_by_field_name("declarator")
    whole = parent.parent
    is_auto = whole is not None and "auto" in text_of(whole).split()
    return is_auto or (declarator is not None and declarator.type in {"pointer_declarator", "reference_declarator"})


def _is_guarded(node: Node, body: Node) -> bool:
    """Whether a node is in a branch within a loop, which the first iteration may skip."""
    branch = loop = False
    parent = node.parent
    while parent is not None and parent != body:
        branch = branch or parent.type in {"if_statement", "conditional_expression", "switch_statement"}
        loop = loop or parent.type in {"for_statement", "while_statement", "do_statement"}
        parent = parent.parent
    return branch and loop


UNWRITTEN_SHARED = LintRule(
    code="C3",
    name="unwritten-shared",
    language="cuda",
    bug="an element of shared memory is read before the function writes the array or passes it on",
    remedy="write it first, and put __syncthreads() between the writing and the reading",
    check=_check,
)
