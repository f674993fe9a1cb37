"""Evaluates a CUDA kernel statement by statement at one setting, and records offsets that overflow their type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gdnbench.lint import span as spans
from gdnbench.lint.cuda_number import POINTER, UNKNOWN_NUMBER, CudaNumber, combined, literal, of_type
from gdnbench.lint.cuda_source import CudaFunction, CudaSource, read_cuda, text_of, walk
from gdnbench.lint.span import Span, constant_span, program_spans, span_between

if TYPE_CHECKING:
    from tree_sitter import Node

    from gdnbench.lint.settings import LaunchSetting

Names = dict[str, CudaNumber]

_AXES = "xyz"


@dataclass(frozen=True)
class NarrowOffset:
    """An offset that overflows its type and is used for an address: the operation, and the largest value it had."""

    node: Node
    most: int


def narrow_offsets(
    source: CudaSource, headers: tuple[CudaSource, ...], function: CudaFunction, setting: LaunchSetting
) -> list[NarrowOffset]:
    """Returns the offsets of a kernel that overflow at a setting, in source order."""
    follower = _Follower(source, setting)
    names: Names = {}
    for file in (*headers, source):
        follower.declare_constants(file, names)
    for parameter in function.parameters:
        names[parameter.name] = follower.parameter(parameter.name, parameter.type_name, is_pointer=parameter.is_pointer)
    follower.follow(function.body, names)
    return follower.found


def constant_value(
    source: CudaSource, headers: tuple[CudaSource, ...], text: str, setting: LaunchSetting
) -> int | None:
    """Returns the integer value of an expression of constants, or None if it is unknown."""
    follower = _Follower(source, setting)
    names: Names = {}
    for file in (*headers, source):
        follower.declare_constants(file, names)
    span = follower.expression(text, names).span
    return span.value if span else None


class _Follower:
    def __init__(self, source: CudaSource, setting: LaunchSetting) -> None:
        self._source, self._setting = source, setting
        self._blocks = program_spans(setting.grid or (1,))
        self.found: list[NarrowOffset] = []
        self._expanding: set[str] = set()
        self._constants: Names = {}
        self._members: dict[str, list[CudaNumber]] = {}  # of variables whose braces give each member

    def declare_constants(self, source: CudaSource, names: Names) -> None:
        """Records the file-wide constants of a file, including those in namespaces."""
        for node in source.constants:
            self._declare(node, names)
        self._constants = dict(names)

    def parameter(self, name: str, type_name: str, *, is_pointer: bool) -> CudaNumber:
        """Returns what is known of a kernel's parameter: the value of an axis."""
        if is_pointer:
            return POINTER
        value = self._setting.sizes.get(name)
        node = self._source.root
        return of_type(CudaNumber(64, True, constant_span(value[0]) if value else None), type_name, node)

    def follow(self, node: Node, names: Names) -> None:
        match node.type:
            case "declaration":
                self._declare(node, names)
            case "for_statement":
                self._loop(node, names)
            case "while_statement" | "do_statement":
                self._forget_assigned(node, names)
                self._children(node, names)
            case "if_statement":
                self._value_of(node, "condition", names)
                branches = [node.child_by_field_name(name) for name in ("consequence", "alternative")]
                for branch in filter(None, branches):
                    self.follow(branch, names)
                    self._forget_assigned(branch, names)
            case "expression_statement" | "return_statement" | "condition_clause":
                for child in node.named_children:
                    self.value(child, names)
            case "comment" | "preproc_include" | "preproc_def":
                pass
            case _:
                self._children(node, names)

    def _children(self, node: Node, names: Names) -> None:
        for child in node.named_children:
            if child.type.endswith("_expression") or child.type == "init_declarator":
                self.value(child, names)
            else:
                self.follow(child, names)

    def _declare(self, node: Node, names: Names) -> None:
        type_node = node.child_by_field_name("type")
        type_name = text_of(type_node) if type_node is not None else ""
        for declarator in node.children_by_field_name("declarator"):
            inner, value = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("value")
            if declarator.type != "init_declarator" or inner is None or value is None:
                for each in walk(declarator):
                    if each.type == "identifier":
                        names[text_of(each)] = POINTER if declarator.type == "array_declarator" else UNKNOWN_NUMBER
                        break
                continue
            found = self.value(value, names)
            if value.type == "initializer_list":
                self._members[text_of(inner)] = [self.value(each, names) for each in value.named_children]
            if inner.type == "identifier":
                names[text_of(inner)] = of_type(found, type_name, value) if not found.is_pointer else found
            elif inner.type == "pointer_declarator":
                names[text_of(inner).lstrip("* ").split()[-1]] = POINTER

    def _loop(self, node: Node, names: Names) -> None:
        start = node.child_by_field_name("initializer")
        if start is not None:
            self.follow(start, names)
        counter = self._counter(node, names)
        self._forget_assigned(node.child_by_field_name("body") or node, names)
        self._forget_assigned(node.child_by_field_name("update") or node, names)
        if counter:
            names[counter[0]] = counter[1]
        body = node.child_by_field_name("body")
        if body is not None:
            self.follow(body, names)

    def _counter(self, node: Node, names: Names) -> tuple[str, CudaNumber] | None:
        """Returns a loop's variable that counts up to a bound, with its bounds."""
        condition, update = node.child_by_field_name("condition"), node.child_by_field_name("update")
        left = condition.child_by_field_name("left") if condition is not None else None
        if condition is None or update is None or left is None or left.type != "identifier":
            return None
        known, sign = names.get(text_of(left)), condition.child_by_field_name("operator")
        counts_up = "++" in text_of(update) or "+=" in text_of(update)
        if known is None or sign is None or text_of(sign) not in {"<", "<="} or not counts_up:
            return None
        end = self._value_of(condition, "right", names).span
        if text_of(sign) == "<":
            end = spans.subtract(end, constant_span(1))
        if known.span is None or end is None:
            return text_of(left), replace(known, span=None)
        most = spans.maximum(known.span, end)
        return text_of(left), replace(known, span=Span(known.span.least + 0 * end.most, most.most)) if most else known

    def _forget_assigned(self, node: Node, names: Names) -> None:
        for each in walk(node):
            target = None
            if each.type == "assignment_expression":
                target = each.child_by_field_name("left")
            elif each.type == "update_expression":
                target = each.child_by_field_name("argument")
            name = text_of(target) if target is not None else ""
            if name in names:
                names[name] = replace(names[name], span=None)

    def _value_of(self, node: Node, field: str, names: Names) -> CudaNumber:
        child = node.child_by_field_name(field)
        return self.value(child, names) if child is not None else UNKNOWN_NUMBER

    def value(self, node: Node, names: Names) -> CudaNumber:  # noqa: PLR0911, PLR0912
        """Returns what is known of an expression's value; records offsets that overflow on their way to an address."""
        match node.type:
            case "number_literal":
                return literal(text_of(node))
            case "identifier":
                return self._named(text_of(node), names)
            case "qualified_identifier":
                return self._named(text_of(node).rpartition("::")[2], names)
            case "parenthesized_expression" | "condition_clause":
                return self.value(node.named_children[0], names) if node.named_children else UNKNOWN_NUMBER
            case "field_expression":
                return self._built_in(text_of(node))
            case "binary_expression":
                sign = node.child_by_field_name("operator")
                left, right = self._value_of(node, "left", names), self._value_of(node, "right", names)
                if left.is_pointer or right.is_pointer:
                    self._note(left, right)
                    return POINTER
                return combined(text_of(sign) if sign is not None else "", left, right, node)
            case "subscript_expression":
                owner = self._value_of(node, "argument", names)
                indices = node.child_by_field_name("indices")
                for index in indices.named_children if indices is not None else ():
                    self._note(owner, self.value(index, names))
                return UNKNOWN_NUMBER
            case "call_expression":
                return self._called(node, names)
            case "cast_expression":
                kind = node.child_by_field_name("type")
                return self._cast(self._value_of(node, "value", names), text_of(kind) if kind is not None else "", node)
            case "assignment_expression":
                return self._assigned(node, names)
            case "conditional_expression":
                self._value_of(node, "condition", names)
                one, other = self._value_of(node, "consequence", names), self._value_of(node, "alternative", names)
                return replace(combined("+", one, other, node), span=spans.either(one.span, other.span), wide=None)
            case _:
                for child in node.named_children:
                    self.value(child, names)
                return UNKNOWN_NUMBER

    def _named(self, name: str, names: Names) -> CudaNumber:
        if name in names:
            return names[name]
        value = self._setting.constants.get(name)
        if isinstance(value, int):
            return CudaNumber(32, True, constant_span(value))
        text = self._source.macros.get(name)
        if not text or name in self._expanding:
            return UNKNOWN_NUMBER
        self._expanding.add(name)
        try:
            return self.expression(text, names)
        finally:
            self._expanding.discard(name)

    def expression(self, text: str, names: Names) -> CudaNumber:
        """Returns what is known of the value of an expression given as text."""
        tree = read_cuda(self._source.path, f"auto expression = {text};", {})
        declared: Names = dict(names)
        for node in tree.root.named_children[:1]:
            self._declare(node, declared)
        return declared.get("expression", UNKNOWN_NUMBER)

    def _built_in(self, text: str) -> CudaNumber:
        owner, _, axis = text.partition(".")
        if axis not in {"x", "y", "z"}:
            return UNKNOWN_NUMBER
        place, threads = _AXES.index(axis), self._setting.threads if axis == "x" else 1
        grid = (*(self._setting.grid or (1,)), 1, 1)
        found: dict[str, Span] = {
            "blockIdx": self._blocks[place],
            "gridDim": constant_span(grid[place]),
            "threadIdx": span_between(0, max(threads, 1) - 1),
            "blockDim": constant_span(max(threads, 1)),
        }
        return CudaNumber(32, False, found[owner]) if owner in found else UNKNOWN_NUMBER

    def _called(self, node: Node, names: Names) -> CudaNumber:
        called, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        given = [self.value(each, names) for each in arguments.named_children] if arguments is not None else []
        written = text_of(called) if called is not None else ""
        cast, bracket, kind = written.partition("<")
        if cast in {"static_cast", "reinterpret_cast"} and bracket and len(given) == 1:
            return self._cast(given[0], kind.rstrip(">"), node)
        owner, _, name = written.rpartition(".")
        return self._returned(name, self._members.get(owner, []), given)

    @cached_property
    def _functions(self) -> list[Node]:
        return [each for each in walk(self._source.root) if each.type == "function_definition"]

    def _returned(self, name: str, members: list[CudaNumber], given: list[CudaNumber]) -> CudaNumber:
        """What a function of this file returns that does nothing else, where no other has its name."""
        named = [each for each in self._functions if _name(each) == name]
        returned = _only_return(named[0]) if len(named) == 1 else None
        if returned is None or name in self._expanding:
            return UNKNOWN_NUMBER
        owner = named[0].parent
        fields = owner.named_children if owner is not None and owner.type == "field_declaration_list" else []
        known = dict(self._constants)
        for kind, values in (("field_declaration", members), ("parameter_declaration", given)):
            nodes = fields if kind == "field_declaration" else list(walk(named[0]))
            for node, value in zip((each for each in nodes if each.type == kind), values, strict=False):
                declarator, typed = node.child_by_field_name("declarator"), node.child_by_field_name("type")
                if declarator is not None and typed is not None:
                    known[text_of(declarator)] = value if value.is_pointer else of_type(value, text_of(typed), node)
        self._expanding.add(name)
        try:
            found = self.value(returned, known)
        finally:
            self._expanding.discard(name)
        typed = named[0].child_by_field_name("type")
        return found if found.is_pointer or typed is None else of_type(found, text_of(typed), returned)

    def _cast(self, value: CudaNumber, kind: str, node: Node) -> CudaNumber:
        if "*" in kind:
            self._note(value)
            return POINTER
        return of_type(value, kind, node)

    def _assigned(self, node: Node, names: Names) -> CudaNumber:
        value = self._value_of(node, "right", names)
        target, sign = node.child_by_field_name("left"), node.child_by_field_name("operator")
        if target is None or target.type != "identifier":
            if target is not None:
                self.value(target, names)
            return value
        name = text_of(target)
        known = names.get(name, UNKNOWN_NUMBER)
        if sign is not None and text_of(sign) != "=":
            value = combined(text_of(sign)[:-1], known, value, node)
        names[name] = replace(value, bits=known.bits, signed=known.signed, is_pointer=known.is_pointer)
        return names[name]

    def _note(self, *parts: CudaNumber) -> None:
        """Records offsets of an address that overflowed."""
        if not any(each.is_pointer for each in parts):
            return
        for each in parts:
            if each.wide is not None:
                self.found.append(NarrowOffset(*each.wide))


def _name(function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    found = declarator.child_by_field_name("declarator") if declarator is not None else None
    return text_of(found) if found is not None else ""


def _only_return(function: Node) -> Node | None:
    """What a function returns, where that is all that it does."""
    body = function.child_by_field_name("body")
    statements = [each for each in body.named_children if each.type != "comment"] if body is not None else []
    if len(statements) != 1 or statements[0].type != "return_statement" or not statements[0].named_children:
        return None
    return statements[0].named_children[0]
