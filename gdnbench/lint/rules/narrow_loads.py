"""C1: a loop that loads 2 bytes at a time from consecutive addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gdnbench.lint.cuda_source import names_in, text_of, walk
from gdnbench.lint.cuda_subject import CudaSubject
from gdnbench.lint.finding import LintRule, SourcePlace

if TYPE_CHECKING:
    from tree_sitter import Node

_TWO_BYTES = frozenset({"__nv_bfloat16", "__half", "half", "nv_bfloat16", "__nv_half"})
_FEWEST = 4  # elements of 2 bytes, which make a load of 8 bytes


def _check(subject: CudaSubject) -> Iterator[tuple[SourcePlace, str]]:
    for function in subject.source.functions:
        narrow = {each.name for each in function.parameters if each.is_pointer and each.type_name in _TWO_BYTES}
        for loop in walk(function.body) if narrow else ():
            counter = _counter_of(loop)
            body = loop.child_by_field_name("body")
            if counter and body is not None:
                for node in walk(body):
                    name = _loaded(node, narrow)
                    if name and _steps_by_one(node, counter):
                        yield (
                            subject.source.place(node),
                            f"each thread loads {name} 2 bytes at a time, from one address after the other along "
                            f"{counter}",
                        )


def _counter_of(loop: Node) -> str:
    """Returns the variable that a loop counts up by one; empty for a loop of fewer than `_FEWEST` known steps."""
    if loop.type != "for_statement":
        return ""
    update, condition = loop.child_by_field_name("update"), loop.child_by_field_name("condition")
    if update is None or condition is None or update.type != "update_expression" or "++" not in text_of(update):
        return ""
    argument = update.child_by_field_name("argument")
    bound = condition.child_by_field_name("right")
    is_short = bound is not None and text_of(bound).isdigit() and int(text_of(bound)) < _FEWEST
    return text_of(argument) if argument is not None and not is_short else ""


def _loaded(node: Node, narrow: set[str]) -> str:
    """Returns the parameter that a subscript reads; "" for anything else, and for a write."""
    if node.type != "subscript_expression":
        return ""
    owner, parent = node.child_by_field_name("argument"), node.parent
    is_written = (
        parent is not None and parent.type == "assignment_expression" and parent.child_by_field_name("left") == node
    )
    is_address = parent is not None and parent.type == "pointer_expression"
    name = text_of(owner) if owner is not None else ""
    return name if name in narrow and not is_written and not is_address else ""


def _steps_by_one(subscript: Node, counter: str) -> bool:
    indices = subscript.child_by_field_name("indices")
    inner = indices.named_children[0] if indices is not None and indices.named_child_count == 1 else None
    return inner is not None and _coefficient(inner, counter) == 1


def _coefficient(node: Node, counter: str) -> int | None:
    """Returns the growth of a sum for each step of the counter, or None if unclear."""
    if node.type == "parenthesized_expression":
        return _coefficient(node.named_children[0], counter)
    if node.type == "identifier" and text_of(node) == counter:
        return 1
    if counter not in names_in(node):
        return 0
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = node.child_by_field_name("operator")
    if node.type != "binary_expression" or left is None or right is None or sign is None:
        return None
    parts = _coefficient(left, counter), _coefficient(right, counter)
    if parts[0] is None or parts[1] is None or text_of(sign) not in {"+", "-"}:
        return None
    return parts[0] + parts[1] if text_of(sign) == "+" else parts[0] - parts[1]


NARROW_LOADS = LintRule(
    code="C1",
    name="narrow-loads",
    language="cuda",
    bug="a loop of a thread loads bf16 or fp16 elements one by one from neighbouring addresses",
    remedy="load 8 or 16 bytes at once, as reinterpret_cast<const uint2*> or uint4, where the start is aligned",
    check=_check,
)
