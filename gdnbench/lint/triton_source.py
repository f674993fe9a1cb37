"""A Triton source before it runs: functions and constants; values, integers with their bounds; accesses to memory."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gdnbench.lint import span as spans
from gdnbench.lint.settings import LaunchSetting, SourcePlace
from gdnbench.lint.span import Span


@dataclass(frozen=True)
class TritonSource:
    """The functions under `@triton.jit` and constants of a file, and its names for `triton` and `triton.language`."""

    path: Path
    text: str
    functions: dict[str, ast.FunctionDef]
    values: dict[str, Any]
    modules: frozenset[str]

    def place(self, node: ast.expr | ast.stmt) -> SourcePlace:
        """Returns the place where a node begins."""
        line = self.text.splitlines()[node.lineno - 1].encode()
        return SourcePlace(self.path, node.lineno, len(line[: node.col_offset].decode(errors="replace")) + 1)


def read_triton(path: Path, text: str) -> TritonSource:
    """Parses the functions under `@triton.jit` of a file, if any; raises SyntaxError if it is not Python."""
    try:
        tree = ast.parse(text, str(path))
    except ValueError as error:  # for a null byte, before Python 3.11.4
        raise SyntaxError(str(error), (str(path), 1, None, None)) from error
    values: dict[str, Any] = {}
    functions: dict[str, ast.FunctionDef] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(last_name(each) == "jit" for each in node.decorator_list):
            functions[node.name] = node
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            is_literal, value = _literal(node.value)
            if is_literal:
                values[node.targets[0].id] = value
    return TritonSource(path, text, functions, values, _module_names(tree))


def _module_names(tree: ast.Module) -> frozenset[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name for each in node.names if each.name in {"triton", "triton.language"}}
        elif isinstance(node, ast.ImportFrom) and node.module == "triton":
            names |= {each.asname or each.name for each in node.names if each.name == "language"}
    return frozenset(names)


def _literal(node: ast.expr) -> tuple[bool, Any]:
    """Returns whether a node is a literal, or a `tl.constexpr` of one, and its value."""
    if isinstance(node, ast.Call) and last_name(node) == "constexpr" and node.args:
        return _literal(node.args[0])
    try:
        return True, ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return False, None


def last_name(node: ast.expr) -> str:
    """Returns `jit` for `triton.jit`, `jit` and `triton.jit(...)`."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def arguments_of(function: ast.FunctionDef) -> tuple[str, ...]:
    """Returns the names of a function's arguments, in order."""
    given = function.args
    return tuple(each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs))


CONSTANT = "constexpr"

_INTEGER = re.compile(r"([iu])(\d+)")


@dataclass(frozen=True)
class WideOffset:
    """An integer that its type cannot hold: the operation, and the largest value it would have."""

    node: ast.expr
    most: int
    dtype: str


@dataclass(frozen=True)
class TritonValue:
    """A value; its shape is not followed."""

    # Triton's type of an integer, `i32`, for a pointer of its elements; `constexpr` for a constant; empty if unknown
    dtype: str = ""
    span: Span | None = None  # bounds of an integer, or of a pointer's offset in elements
    tensor: str = ""  # the argument that a pointer points into
    by_lane: bool = False  # whether it comes from `tl.arange`
    constant: Any = None  # the value of a `constexpr`
    wide: WideOffset | None = None  # the operation in which it overflowed its type, if it did

    @property
    def is_constant(self) -> bool:
        """Whether the compiler knows the value."""
        return self.dtype == CONSTANT


UNKNOWN = TritonValue()


def constant(value: Any) -> TritonValue:
    """Returns a compile-time constant."""
    whole = isinstance(value, int) and abs(value) < 1 << 62
    return TritonValue(CONSTANT, spans.constant_span(int(value)) if whole else None, constant=value)


def joined(left: TritonValue, right: TritonValue) -> TritonValue:
    """Returns a value that is one or the other, after a branch."""
    if left is right or (left.is_constant and right.is_constant and left.constant == right.constant):
        return left
    return TritonValue(
        dtype=left.dtype if left.dtype == right.dtype and not left.is_constant else "",
        span=spans.either(left.span, right.span),
        tensor=left.tensor if left.tensor == right.tensor else "",
        by_lane=left.by_lane or right.by_lane,
        wide=left.wide or right.wide,
    )


def _promoted(left: TritonValue, right: TritonValue) -> str:
    """Returns the integer type of an operation on both; empty if it is none, or unknown."""
    if left.is_constant or right.is_constant:
        other, known = (right, left) if left.is_constant else (left, right)
        if not _INTEGER.fullmatch(other.dtype) or isinstance(known.constant, float):
            return ""
        is_long = isinstance(known.constant, int) and not -(1 << 31) <= known.constant < 1 << 31
        return "i64" if is_long else other.dtype
    kinds = [(int(found[2]), found[1] == "u") for each in (left, right) if (found := _INTEGER.fullmatch(each.dtype))]
    if len(kinds) < 2:
        return ""
    bits, is_unsigned = max(kinds)
    return f"{'u' if is_unsigned else 'i'}{bits}"


_ON_SPANS: Mapping[type[ast.operator], Callable[[Span | None, Span | None], Span | None]] = {
    ast.Add: spans.add,
    ast.Sub: spans.subtract,
    ast.Mult: spans.multiply,
    ast.FloorDiv: spans.divide,
    ast.Mod: spans.remainder,
}
_ON_CONSTANTS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_LARGEST_POWER = 64


def binary(node: ast.expr, sign: ast.operator, left: TritonValue, right: TritonValue) -> TritonValue:
    """Returns `left sign right`."""
    if left.is_constant and right.is_constant:
        return _of_constants(sign, left, right)
    by_lane = left.by_lane or right.by_lane
    span = _ON_SPANS[type(sign)](left.span, right.span) if type(sign) in _ON_SPANS else None
    wide = left.wide or right.wide
    if left.tensor or right.tensor:
        return replace(left if left.tensor else right, span=span, by_lane=by_lane, wide=wide)
    return _checked(node, TritonValue(_promoted(left, right), span, by_lane=by_lane, wide=wide))


def cast(value: TritonValue, dtype: str) -> TritonValue:
    """Converts the value to another type; overflow before the cast stays recorded."""
    return replace(value, dtype=dtype, constant=None, tensor="")


def _checked(node: ast.expr, value: TritonValue) -> TritonValue:
    whole = _INTEGER.fullmatch(value.dtype)
    if not whole or value.span is None or value.span.fits(int(whole[2]), signed=whole[1] == "i"):
        return value
    low, high = value.span.bounds
    is_large = high >= 1 << (int(whole[2]) - 1)
    wide = value.wide or (WideOffset(node, high, value.dtype) if is_large and low >= -(1 << 31) else None)
    return replace(value, span=None, wide=wide)


def _of_constants(sign: ast.operator, left: TritonValue, right: TritonValue) -> TritonValue:
    if not all(isinstance(each.constant, int | float) for each in (left, right)):
        return UNKNOWN
    if isinstance(sign, ast.Pow | ast.LShift) and not (
        isinstance(right.constant, int) and 0 <= right.constant <= _LARGEST_POWER
    ):
        return UNKNOWN
    try:
        return constant(_ON_CONSTANTS[type(sign)](left.constant, right.constant))
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return UNKNOWN


@dataclass(frozen=True)
class MemoryAccess:
    """A load, a store or an atomic operation; `is_conditional` if it is in a branch that may not be taken."""

    node: ast.Call
    kind: Literal["load", "store", "atomic"]
    pointer: TritonValue
    masked: bool
    is_conditional: bool


@dataclass(frozen=True)
class EventsAtSetting:
    """The accesses of a function at a setting, in source order; none if a `tl.static_assert` refuses it."""

    setting: LaunchSetting
    accesses: tuple[MemoryAccess, ...]
