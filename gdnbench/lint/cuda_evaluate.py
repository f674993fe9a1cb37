"""Evaluates a CUDA kernel statement by statement at one setting, and records offsets that overflow their type.

Integers have C's types and rules, and bounds in each block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gdnbench.lint import span as spans
from gdnbench.lint.cuda_source import CudaFunction, CudaSource, field, read_cuda, text_of, walk
from gdnbench.lint.span import Span, constant_span, program_spans, span_between

if TYPE_CHECKING:
    from tree_sitter import Node

    from gdnbench.lint.settings import LaunchSetting


@dataclass(frozen=True)
class CudaNumber:
    """A number, or a pointer."""

    bits: int = 0  # of its type; 0 if unknown or not an integer
    signed: bool = True
    span: Span | None = None  # bounds; None if unknown, and for a pointer
    is_pointer: bool = False
    # The operation in which it overflowed its type, and the value reached; else None
    wide: tuple[Node, int] | None = None


UNKNOWN_NUMBER = CudaNumber()
POINTER = CudaNumber(is_pointer=True)

_TYPES: Mapping[str, tuple[int, bool]] = {
    "int": (32, True), "int32_t": (32, True), "signed": (32, True), "short": (32, True), "char": (32, True),
    "unsigned": (32, False), "uint32_t": (32, False), "unsigned int": (32, False), "uint": (32, False),
    "bool": (32, True), "size_t": (64, False), "uint64_t": (64, False), "unsigned long long": (64, False),
    "unsigned long": (64, False), "long long": (64, True), "int64_t": (64, True), "long": (64, True),
    "ptrdiff_t": (64, True), "std::size_t": (64, False),
}  # fmt: skip

_OPERATIONS: Mapping[str, Callable[[Span | None, Span | None], Span | None]] = {
    "+": spans.add,
    "-": spans.subtract,
    "*": spans.multiply,
    "/": spans.divide,
    "%": spans.remainder,
}


def literal(text: str) -> CudaNumber:
    """Parses a literal: `128`, `0x20`, `1ull`."""
    found = re.fullmatch(r"(0[xX][0-9a-fA-F']+|[0-9][0-9']*)([uUlLzZ]*)", text)
    if not found:
        return UNKNOWN_NUMBER
    value, suffix = int(found[1].replace("'", ""), 0 if found[1][:2].lower() == "0x" else 10), found[2].lower()
    if value >= 1 << 62:
        return UNKNOWN_NUMBER
    bits = 64 if "l" in suffix or "z" in suffix or value >= 1 << 31 else 32
    return CudaNumber(bits, "u" not in suffix, spans.constant_span(value))


def of_type(number: CudaNumber, type_name: str, node: Node) -> CudaNumber:
    """Converts a number to a declared or returned type; unknown if that is not an integer type; keeps pointers."""
    if number.is_pointer:
        return number
    bare = re.sub(r"\b(const|constexpr|static|volatile|mutable)\b", "", type_name).strip()
    if bare == "auto":
        return number
    bits, signed = _TYPES.get(re.sub(r"\s+", " ", bare), (0, True))
    if not bits:
        return CudaNumber(wide=number.wide)
    return _checked(replace(number, bits=bits, signed=signed, is_pointer=False), node)


def combined(sign: str, left: CudaNumber, right: CudaNumber, node: Node) -> CudaNumber:
    """Returns `left sign right` by C's usual conversions; a pointer and an offset give a pointer."""
    wide = left.wide or right.wide
    if left.is_pointer or right.is_pointer:
        return CudaNumber(is_pointer=True, wide=wide)
    if not (left.bits and right.bits):
        return CudaNumber(wide=wide)
    bits = max(left.bits, right.bits)
    signed = all(each.signed for each in (left, right) if each.bits == bits)
    span = _OPERATIONS[sign](left.span, right.span) if sign in _OPERATIONS else None
    return _checked(CudaNumber(bits, signed, span, wide=wide), node)


def _checked(number: CudaNumber, node: Node) -> CudaNumber:
    if number.span is None or number.span.fits(number.bits, signed=number.signed):
        return number
    low, high = number.span.bounds
    grew = low >= 0 and number.bits == 32
    return replace(number, span=None, wide=number.wide or ((node, high) if grew else None))


Names = dict[str, CudaNumber]
NarrowOffset = tuple["Node", int]
"""The operation in which an offset that is used for an address overflows its type, and the largest value it had."""


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
    return follower.narrow


class _Follower:
    def __init__(self, source: CudaSource, setting: LaunchSetting) -> None:
        self._source, self._setting = source, setting
        self._blocks = program_spans(setting.grid or (1,))
        self.narrow: list[NarrowOffset] = []
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
                branches = [field(node, name) for name in ("consequence", "alternative")]
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
        type_name = text_of(field(node, "type"))
        for declarator in node.children_by_field_name("declarator"):
            inner, value = field(declarator, "declarator"), field(declarator, "value")
            if declarator.type != "init_declarator" or inner is None or value is None:
                for each in walk(declarator):
                    if each.type == "identifier":
                        names[text_of(each)] = POINTER if declarator.type == "array_declarator" else UNKNOWN_NUMBER
                        break
                continue
            number = self.value(value, names)
            if value.type == "initializer_list":
                self._members[text_of(inner)] = [self.value(each, names) for each in value.named_children]
            if inner.type == "identifier":
                names[text_of(inner)] = of_type(number, type_name, value)
            elif inner.type == "pointer_declarator":
                names[text_of(inner).lstrip("* ").split()[-1]] = POINTER

    def _loop(self, node: Node, names: Names) -> None:
        start, body = field(node, "initializer"), field(node, "body")
        if start is not None:
            self.follow(start, names)
        counter = self._counter(node, names)
        self._forget_assigned(body or node, names)
        self._forget_assigned(field(node, "update") or node, names)
        if counter:
            names[counter[0]] = counter[1]
        if body is not None:
            self.follow(body, names)

    def _counter(self, node: Node, names: Names) -> tuple[str, CudaNumber] | None:
        """Returns a loop's variable that counts up to a bound, with its bounds."""
        condition, update = field(node, "condition"), text_of(field(node, "update"))
        left, sign = field(condition, "left"), text_of(field(condition, "operator"))
        first = names.get(text_of(left)) if left is not None and left.type == "identifier" else None
        if condition is None or first is None or sign not in {"<", "<="} or not ("++" in update or "+=" in update):
            return None
        end = self._value_of(condition, "right", names).span
        if sign == "<":
            end = spans.subtract(end, constant_span(1))
        most = spans.maximum(first.span, end)
        if first.span is None or end is None or most is None:
            return text_of(left), replace(first, span=None)
        return text_of(left), replace(first, span=Span(first.span.least + 0 * end.most, most.most))

    def _forget_assigned(self, node: Node, names: Names) -> None:
        targets = {"assignment_expression": "left", "update_expression": "argument"}
        for each in walk(node):
            name = text_of(field(each, targets[each.type])) if each.type in targets else ""
            if name in names:
                names[name] = replace(names[name], span=None)

    def _value_of(self, node: Node, name: str, names: Names) -> CudaNumber:
        child = field(node, name)
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
                left, right = self._value_of(node, "left", names), self._value_of(node, "right", names)
                if left.is_pointer or right.is_pointer:
                    self._note(left, right)
                    return POINTER
                return combined(text_of(field(node, "operator")), left, right, node)
            case "subscript_expression":
                owner = self._value_of(node, "argument", names)
                indices = field(node, "indices")
                for index in indices.named_children if indices is not None else ():
                    self._note(owner, self.value(index, names))
                return UNKNOWN_NUMBER
            case "call_expression":
                return self._called(node, names)
            case "cast_expression":
                return self._cast(self._value_of(node, "value", names), text_of(field(node, "type")), node)
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
        place, threads = "xyz".index(axis), self._setting.threads if axis == "x" else 1
        grid = (*(self._setting.grid or (1,)), 1, 1)
        found: dict[str, Span] = {
            "blockIdx": self._blocks[place],
            "gridDim": constant_span(grid[place]),
            "threadIdx": span_between(0, max(threads, 1) - 1),
            "blockDim": constant_span(max(threads, 1)),
        }
        return CudaNumber(32, False, found[owner]) if owner in found else UNKNOWN_NUMBER

    def _called(self, node: Node, names: Names) -> CudaNumber:
        called, listed = text_of(field(node, "function")), field(node, "arguments")
        arguments = [self.value(each, names) for each in listed.named_children] if listed is not None else []
        cast, bracket, kind = called.partition("<")
        if cast in {"static_cast", "reinterpret_cast"} and bracket and len(arguments) == 1:
            return self._cast(arguments[0], kind.rstrip(">"), node)
        owner, _, name = called.rpartition(".")
        return self._returned(name, self._members.get(owner, []), arguments)

    def _returned(self, name: str, members: list[CudaNumber], arguments: list[CudaNumber]) -> CudaNumber:
        """Returns what a function of this file returns, if it does nothing else, and no other has its name."""
        named = self._source.definitions.get(name, [])
        returned = _only_return(named[0]) if len(named) == 1 else None
        if returned is None or name in self._expanding:
            return UNKNOWN_NUMBER
        owner = named[0].parent
        fields = owner.named_children if owner is not None and owner.type == "field_declaration_list" else []
        scope = dict(self._constants)
        for kind, values in (("field_declaration", members), ("parameter_declaration", arguments)):
            nodes = fields if kind == "field_declaration" else list(walk(named[0]))
            for node, value in zip((each for each in nodes if each.type == kind), values, strict=False):
                scope[text_of(field(node, "declarator"))] = of_type(value, text_of(field(node, "type")), node)
        self._expanding.add(name)
        try:
            number = self.value(returned, scope)
        finally:
            self._expanding.discard(name)
        return of_type(number, text_of(field(named[0], "type")), returned)

    def _cast(self, value: CudaNumber, kind: str, node: Node) -> CudaNumber:
        if "*" in kind:
            self._note(value)
            return POINTER
        return of_type(replace(value, is_pointer=False), kind, node)

    def _assigned(self, node: Node, names: Names) -> CudaNumber:
        value = self._value_of(node, "right", names)
        target, sign = field(node, "left"), text_of(field(node, "operator"))
        if target is None or target.type != "identifier":
            if target is not None:
                self.value(target, names)
            return value
        name = text_of(target)
        known = names.get(name, UNKNOWN_NUMBER)
        if sign != "=":
            value = combined(sign[:-1], known, value, node)
        names[name] = replace(value, bits=known.bits, signed=known.signed, is_pointer=known.is_pointer)
        return names[name]

    def _note(self, *parts: CudaNumber) -> None:
        if not any(each.is_pointer for each in parts):
            return
        for each in parts:
            if each.wide is not None:
                self.narrow.append(each.wide)


def _only_return(function: Node) -> Node | None:
    body = field(function, "body")
    statements = [each for each in body.named_children if each.type != "comment"] if body is not None else []
    if len(statements) != 1 or statements[0].type != "return_statement" or not statements[0].named_children:
        return None
    return statements[0].named_children[0]
