"""C2: a barrier of the block that some of its threads do not reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gdnbench.lint.cuda_source import CudaFunction, text_of, walk
from gdnbench.lint.cuda_subject import CudaSubject
from gdnbench.lint.finding import LintRule, SourcePlace

if TYPE_CHECKING:
    from tree_sitter import Node

_BARRIERS = frozenset({"__syncthreads", "__syncthreads_and", "__syncthreads_or", "__syncthreads_count"})
_BRANCHES = {"if_statement": "condition", "while_statement": "condition", "for_statement": "condition",
             "do_statement": "condition", "switch_statement": "condition"}  # fmt: skip


def _check(subject: CudaSubject) -> Iterator[tuple[SourcePlace, str]]:
    functions = (*subject.source.functions, *(each for header in subject.headers for each in header.functions))
    meeting = _BARRIERS | {each.name for each in functions if any(_is_call(n, _BARRIERS) for n in walk(each.body))}
    for function in subject.source.functions:
        by_thread = _by_thread(function)
        left_at: Node | None = None
        for node in walk(function.body):
            if left_at is None and node.type == "return_statement":
                left_at = _deciding(node, function.body, by_thread)
            if _is_call(node, meeting):
                name = text_of(node.child_by_field_name("function") or node)
                branch = _deciding(node, function.body, by_thread)
                if branch is not None:
                    yield subject.source.place(node), f"{name}() stands where line {_line(branch)} lets some threads in"
                elif left_at is not None and left_at.end_byte <= node.start_byte:
                    yield (
                        subject.source.place(node),
                        f"{name}() comes after line {_line(left_at)}, where some threads may have returned",
                    )


def _by_thread(function: CudaFunction) -> set[str]:
    """Returns the names whose value differs between the threads of a block, as far as assignments tell."""
    names = {"threadIdx"}
    for _ in range(2):  # a loop may assign a name below its use
        for node in walk(function.body):
            if node.type in {"init_declarator", "assignment_expression"}:
                target = node.child_by_field_name("declarator") or node.child_by_field_name("left")
                value = node.child_by_field_name("value") or node.child_by_field_name("right")
                if target is not None and value is not None and target.type == "identifier" and _differs(value, names):
                    names.add(text_of(target))
    return names


def _differs(node: Node, by_thread: set[str]) -> bool:
    """Whether an expression contains such a name, except as an argument or index, whose results are unknown."""
    if node.type == "identifier":
        return text_of(node) in by_thread
    if node.type in {"call_expression", "subscript_expression", "lambda_expression"}:
        return False
    return any(_differs(child, by_thread) for child in node.children)


def _deciding(node: Node, body: Node, by_thread: set[str]) -> Node | None:
    """Returns the innermost branch around a node that depends on the thread."""
    child, parent = node, node.parent
    while parent is not None and child != body:
        field = _BRANCHES.get(parent.type)
        condition = parent.child_by_field_name(field) if field else None
        if condition is not None and child != condition and _differs(condition, by_thread):
            return parent
        child, parent = parent, parent.parent
    return None


def _is_call(node: Node, names: frozenset[str] | set[str]) -> bool:
    called = node.child_by_field_name("function") if node.type == "call_expression" else None
    return called is not None and text_of(called).rpartition("::")[2] in names


def _line(node: Node) -> int:
    return node.start_point[0] + 1


DIVERGENT_BARRIER = LintRule(
    code="C2",
    name="divergent-barrier",
    language="cuda",
    bug="a __syncthreads() stands in a branch on threadIdx, or behind a return that only some threads take",
    remedy="let every thread of the block reach it: put the branch around the work, not around the barrier",
    check=_check,
)
