"""Follows the expressions of a Triton function: what is known of each value, and which memory is accessed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from gdnbench.lint import span as spans
from gdnbench.lint.settings import LaunchSetting
from gdnbench.lint.span import Span, span_between
from gdnbench.lint.triton_source import (
    UNKNOWN,
    MemoryAccess,
    TritonSource,
    TritonValue,
    arguments_of,
    binary,
    cast,
    constant,
    joined,
)

Scope = dict[str, TritonValue]

_DTYPES = {
    f"{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)
}

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right, ast.NotIn: lambda left, right: left not in right,
}  # fmt: skip
_SAME = frozenset({"multiple_of", "max_contiguous", "max_constancy", "trans", "reshape", "view", "broadcast_to"})
"""Functions whose result has the operand's elements."""


class SettingRefused(Exception):  # noqa: N818 - no error of anybody's: the kernel says where it works
    """A `tl.static_assert` that does not hold."""


class Expressions:
    """Evaluates expressions and records accesses; `is_conditional` while the code may not be reached."""

    def __init__(self, source: TritonSource, setting: LaunchSetting, programs: tuple[Span, Span, Span] | None) -> None:
        self._source, self._setting, self._programs = source, setting, programs
        self.accesses: list[MemoryAccess] = []
        self.is_conditional = False

    def call(self, function: ast.FunctionDef, arguments: Scope) -> TritonValue:
        """Returns the value that a function of the source returns."""
        raise NotImplementedError

    def values(self, node: ast.expr, scope: Scope) -> TritonValue | tuple[TritonValue, ...]:
        """Evaluates an expression as `value` does; a tuple into its parts."""
        if isinstance(node, ast.Tuple):
            return tuple(self.value(each, scope) for each in node.elts)
        return self.value(node, scope)

    def value(self, node: ast.expr, scope: Scope) -> TritonValue:  # noqa: PLR0911 - a case a kind of node
        """Returns what is known of an expression's value."""
        match node:
            case ast.Constant(value=value):
                return constant(value)
            case ast.Name(id=name):
                return self._named(name, scope)
            case ast.BinOp(left=left, op=sign, right=right):
                return binary(node, sign, self.value(left, scope), self.value(right, scope))
            case ast.UnaryOp():
                return self._unary(node, scope)
            case ast.Compare() | ast.BoolOp():
                return self._condition(node, scope)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                chosen = self.value(test, scope)
                if chosen.is_constant:
                    return self.value(body if chosen.constant else orelse, scope)
                return joined(self.value(body, scope), self.value(orelse, scope))
            case ast.Subscript(value=value, slice=index):
                return self._indexed(self.value(value, scope), index)
            case ast.Attribute(value=value, attr=name):
                return self._attribute(value, name, scope)
            case ast.Call():
                return self._call(node, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = [self.value(each, scope) for each in parts]
                return constant(tuple(each.constant for each in values)) if _all_constant(values) else UNKNOWN
            case _:
                return UNKNOWN

    def called(self, node: ast.Call) -> str:
        """Returns the called function of `triton`, `triton.language` or Python; "" for any other."""
        match node.func:
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return name if module in self._source.modules else ""
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=module)), attr=name):
                return name if module in self._source.modules else ""
            case ast.Name(id=name):
                return name if name in {"range", "min", "max"} else ""
            case _:
                return ""

    def _named(self, name: str, scope: Scope) -> TritonValue:
        if name in scope:
            return scope[name]
        return constant(self._source.values[name]) if name in self._source.values else UNKNOWN

    def _unary(self, node: ast.UnaryOp, scope: Scope) -> TritonValue:
        value = self.value(node.operand, scope)
        if value.is_constant and isinstance(node.op, ast.Not):
            return constant(not value.constant)
        if isinstance(node.op, ast.USub):
            if value.is_constant:
                return constant(-value.constant) if isinstance(value.constant, int | float) else UNKNOWN
            return replace(value, span=spans.negate(value.span), tensor="")
        return replace(value, dtype="", span=None, tensor="", constant=None, wide=None)

    def _condition(self, node: ast.Compare | ast.BoolOp, scope: Scope) -> TritonValue:
        parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else node.values
        operands = [self.value(each, scope) for each in parts]
        if _all_constant(operands):
            return _of_constants(node, [each.constant for each in operands])
        return TritonValue("i1", by_lane=any(each.by_lane for each in operands))

    def _indexed(self, value: TritonValue, index: ast.expr) -> TritonValue:
        if value.is_constant and isinstance(value.constant, tuple):
            try:
                return constant(value.constant[ast.literal_eval(index)])
            except (ValueError, IndexError, TypeError):
                return UNKNOWN
        return UNKNOWN if value.is_constant else value

    def _attribute(self, owner: ast.expr, name: str, scope: Scope) -> TritonValue:
        if isinstance(owner, ast.Name) and owner.id in self._source.modules:
            return constant(_DTYPES[name]) if name in _DTYPES else UNKNOWN
        value = self.value(owner, scope)
        return value if name == "T" and not value.is_constant else UNKNOWN

    def _call(self, node: ast.Call, scope: Scope) -> TritonValue:
        arguments = [self.value(each, scope) for each in node.args if not isinstance(each, ast.Starred)]
        named = {each.arg: self.value(each.value, scope) for each in node.keywords if each.arg}
        if isinstance(node.func, ast.Name) and node.func.id in self._source.functions:
            function = self._source.functions[node.func.id]
            return self.call(function, {**dict(zip(arguments_of(function), arguments, strict=False)), **named})
        name = self.called(node)
        if not name and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name not in {"to", "cast", "sum", "max", "min", "reshape", "view", "trans"}:
                self.value(node.func.value, scope)
                return UNKNOWN
            arguments = [self.value(node.func.value, scope), *arguments]
        return self._builtin(name, node, arguments, named)

    def _builtin(self, name: str, node: ast.Call, arguments: list[TritonValue], named: Scope) -> TritonValue:  # noqa: PLR0911
        first = arguments[0] if arguments else named.get("input", named.get("pointer", UNKNOWN))
        rest = arguments[1:]
        if name in {"load", "store"} or name.startswith("atomic_"):
            return self._access(name, node, first, rest, named)
        match name:
            case "program_id" | "num_programs":
                return self._program(name, named.get("axis", first))
            case "arange":
                return _lanes(first, rest[0] if rest else named.get("end", UNKNOWN))
            case "to" | "cast":
                wanted = rest[0] if rest else named.get("dtype", UNKNOWN)
                return cast(first, wanted.constant if isinstance(wanted.constant, str) else "")
            case "cdiv" | "minimum" | "maximum" if rest:
                return _of_two(name, node, first, rest[0])
            case "min" | "max" if rest and isinstance(node.func, ast.Name):
                return _of_two(name, node, first, rest[0])
            case "where" if len(rest) == 2:
                return _chosen(first, rest[0], rest[1])
            case "static_assert":
                if first.is_constant and not first.constant:
                    raise SettingRefused
        return first if name in _SAME and not first.is_constant else UNKNOWN

    def _access(
        self, name: str, node: ast.Call, pointer: TritonValue, rest: list[TritonValue], named: Scope
    ) -> TritonValue:
        at = {"load": 0, "store": 1}.get(name, 2 if name == "atomic_cas" else 1)
        mask = rest[at] if len(rest) > at else named.get("mask")
        masked = ("boundary_check" in named) or (mask is not None and not (mask.is_constant and mask.constant is None))
        kind: Literal["load", "store", "atomic"] = (
            "load" if name == "load" else "store" if name == "store" else "atomic"
        )
        self.accesses.append(MemoryAccess(node, kind, pointer, masked, self.is_conditional))
        return TritonValue(pointer.dtype if pointer.tensor else "")

    def _program(self, name: str, axis: TritonValue) -> TritonValue:
        place = axis.constant if axis.is_constant and axis.constant in {0, 1, 2} else None
        span = None
        if self._programs and self._setting.grid and place is not None:
            grid = (*self._setting.grid, 1, 1)
            span = self._programs[place] if name == "program_id" else spans.constant_span(grid[place])
        return TritonValue("i32", span)


def _all_constant(values: list[TritonValue]) -> bool:
    return all(each.is_constant for each in values)


def _of_constants(node: ast.Compare | ast.BoolOp, values: list[Any]) -> TritonValue:
    if isinstance(node, ast.BoolOp):
        return constant(all(values) if isinstance(node.op, ast.And) else any(values))
    try:
        steps = zip(node.ops, values[:-1], values[1:], strict=True)
        return constant(all(_COMPARISONS[type(sign)](left, right) for sign, left, right in steps))
    except (KeyError, TypeError):
        return UNKNOWN


def _lanes(start: TritonValue, end: TritonValue) -> TritonValue:
    if isinstance(start.constant, int) and isinstance(end.constant, int) and end.constant > start.constant:
        return TritonValue("i32", span_between(start.constant, end.constant - 1), by_lane=True)
    return TritonValue("i32", by_lane=True)


def _of_two(name: str, node: ast.Call, left: TritonValue, right: TritonValue) -> TritonValue:
    if isinstance(left.constant, int) and isinstance(right.constant, int):
        if name == "cdiv":
            return constant(-(-left.constant // right.constant)) if right.constant else UNKNOWN
        return constant((min if name.startswith("min") else max)(left.constant, right.constant))
    if name == "cdiv":
        one = constant(1)
        raised = binary(node, ast.Sub(), binary(node, ast.Add(), left, right), one)
        return binary(node, ast.FloorDiv(), raised, right)
    chosen = joined(left, right)
    span = (spans.minimum if name.startswith("min") else spans.maximum)(left.span, right.span)
    dtype = left.dtype if right.is_constant else right.dtype if left.is_constant else chosen.dtype
    return TritonValue(dtype, span, by_lane=chosen.by_lane, wide=chosen.wide)


def _chosen(test: TritonValue, left: TritonValue, right: TritonValue) -> TritonValue:
    either = joined(left, right)
    dtype = left.dtype if right.is_constant else right.dtype if left.is_constant else either.dtype
    return replace(either, dtype=dtype, by_lane=test.by_lane or either.by_lane)
