"""Which tensors a Triton function loads from and stores to, followed through the names that it gives to pointers."""

from __future__ import annotations

import ast

from gdnbench.lint.triton_source import TritonFunction


def updated_in_place(function: TritonFunction) -> tuple[str, ...]:
    """The pointer arguments that a function both loads from and stores to, or changes by an atomic operation."""
    bases = _bases(function)
    loaded: set[str] = set()
    stored: set[str] = set()
    for node in ast.walk(function.node):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        base = _base(node.args[0], bases)
        if name == "load" or name.startswith("atomic_"):
            loaded |= base
        if name == "store" or name.startswith("atomic_"):
            stored |= base
    return tuple(name for name in function.arguments if name in loaded & stored)


def _bases(function: TritonFunction) -> dict[str, frozenset[str]]:
    """The arguments that each name may point into."""
    bases = {name: frozenset({name}) for name in function.arguments if name not in function.constants}
    for _ in range(2):  # a pointer that a loop moves on is assigned after it is used
        for node in ast.walk(function.node):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                bases[name] = bases.get(name, frozenset()) | _base(node.value, bases)
    return bases


def _base(node: ast.expr, bases: dict[str, frozenset[str]]) -> frozenset[str]:
    """What an address is computed from: the leftmost name of a sum."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        node = node.left
    while isinstance(node, ast.Subscript):
        node = node.value
    return bases.get(node.id, frozenset()) if isinstance(node, ast.Name) else frozenset()
