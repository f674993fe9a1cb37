"""C1: a loop that loads 2 bytes at a time from consecutive addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdnbench.lint.cuda_source import CudaSubject, field, names_in, text_of, walk
from gdnbench.lint.finding import Places, lint_rule

if TYPE_CHECKING:
    from tree_sitter import Node

_TWO_BYTES = frozenset({"__nv_bfloat16", "__half", "half", "nv_bfloat16", "__nv_half"})
_FEWEST = 4  # elements of 2 bytes, which make a load of 8 bytes


@lint_rule(
    "C1",
    "narrow-loads",
    remedy="load 8 or 16 bytes at once, as reinterpret_cast<const uint2*> or uint4, where the start is aligned",
)
def narrow_loads(subject: CudaSubject) -> Places:
    """A loop of a thread loads bf16 or fp16 elements one by one from neighbouring addresses."""
    for function in subject.source.functions:
        narrow = {each.name for each in function.parameters if each.is_pointer and each.type_name in _TWO_BYTES}
        for loop in walk(function.body) if narrow else ():
            counter = _counter_of(loop)
            body = field(loop, "body")
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
    update, condition = field(loop, "update"), field(loop, "condition")
    if update is None or condition is None or update.type != "update_expression" or "++" not in text_of(update):
        return ""
    bound = text_of(field(condition, "right"))
    is_short = bound.isdigit() and int(bound) < _FEWEST
    return "" if is_short else text_of(field(update, "argument"))


def _loaded(node: Node, narrow: set[str]) -> str:
    """Returns the parameter that a subscript reads; "" for anything else, and for a write."""
    if node.type != "subscript_expression":
        return ""
    name, parent = text_of(field(node, "argument")), node.parent
    kind = parent.type if parent is not None else ""
    is_written = kind == "assignment_expression" and field(parent, "left") == node
    return name if name in narrow and not is_written and kind != "pointer_expression" else ""


def _steps_by_one(subscript: Node, counter: str) -> bool:
    indices = field(subscript, "indices")
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
    left, right = field(node, "left"), field(node, "right")
    sign = text_of(field(node, "operator"))
    if node.type != "binary_expression" or left is None or right is None:
        return None
    parts = _coefficient(left, counter), _coefficient(right, counter)
    if parts[0] is None or parts[1] is None or sign not in {"+", "-"}:
        return None
    return parts[0] + parts[1] if sign == "+" else parts[0] - parts[1]
