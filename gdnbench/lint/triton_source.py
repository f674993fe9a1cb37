"""A Triton source parsed by Python's `ast`: its functions and constants."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdnbench.lint.finding import SourcePlace


@dataclass(frozen=True)
class TritonFunction:
    """A function under `@triton.jit`."""

    node: ast.FunctionDef

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of its arguments, in order."""
        given = self.node.args
        return tuple(each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs))


@dataclass(frozen=True)
class TritonSource:
    """A file of Triton functions and module constants, by name, and its names for `triton` and `triton.language`."""

    path: Path
    text: str
    functions: dict[str, TritonFunction]
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
    functions: dict[str, TritonFunction] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(last_name(each) == "jit" for each in node.decorator_list):
            functions[node.name] = TritonFunction(node)
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
