"""C4: a pointer of a kernel that is only read, and is not declared so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdnbench.lint.cuda_source import CudaFunction, CudaSubject, field, text_of, walk
from gdnbench.lint.finding import Places, lint_rule

if TYPE_CHECKING:
    from tree_sitter import Node


@lint_rule(
    "C4",
    "plain-pointer",
    remedy="declare it const T *__restrict__: loads may then go through the read-only path and past stores",
)
def plain_pointer(subject: CudaSubject) -> Places:
    """A pointer parameter of a kernel is only read, and is not const __restrict__."""
    for function in subject.source.functions:
        if not function.is_kernel or not function.is_understood:
            continue
        for parameter in function.parameters:
            if not parameter.is_pointer or parameter.place is None or (parameter.is_const and parameter.is_restrict):
                continue
            if _is_only_read(function, parameter.name):
                has = {"const": parameter.is_const, "__restrict__": parameter.is_restrict}
                lacking = [word for word, is_there in has.items() if not is_there]
                yield parameter.place, f"{parameter.name} is only read, and its parameter lacks {' and '.join(lacking)}"


def _is_only_read(function: CudaFunction, name: str) -> bool:
    """Whether every use is an element read through the parameter's own name, and there is one."""
    uses = [node for node in walk(function.body) if node.type == "identifier" and text_of(node) == name]
    return bool(uses) and all(_reads_element(node) for node in uses)


def _reads_element(name: Node) -> bool:
    parent = name.parent
    if parent is None or parent.type != "subscript_expression" or field(parent, "argument") != name:
        return False
    outer = parent.parent
    if outer is None or outer.type in {"update_expression", "pointer_expression", "return_statement"}:
        return False
    is_written = outer.type == "assignment_expression" and field(outer, "left") == parent
    is_argument = outer.type == "argument_list" and not _is_conversion(outer)
    return not is_written and not is_argument and outer.type != "field_expression"


def _is_conversion(arguments: Node) -> bool:
    """Whether the call certainly takes its argument by value: a conversion between number types."""
    return text_of(field(arguments.parent, "function")).startswith(("__bfloat16", "__half2", "__float2"))
