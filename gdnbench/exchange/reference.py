"""An op's float64 oracle as a self-contained text: what `oracle` needs of `numerics.py`, and a function `run`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from gdnbench.errors import UsageError
from gdnbench.exchange.parse import read_text
from gdnbench.model.op import Op
from gdnbench.model.tensor import FACTS

_ORACLE = "oracle"
_TAKEN = ("run",)


def write_reference(op: Op, folder: Path, order: list[str]) -> str:
    """Returns the reference of a Definition: the oracle's results in the outputs' own types.

    `order` has the arguments of `run`, inputs and scalars by name. Raises UsageError if the oracle needs gdnbench
    itself, or a name of its own is `run`.
    """
    path = folder / op.numerics
    oracle = standing_alone(read_text(path), path)
    tensors = ", ".join(f'"{spec.name}": {spec.name}' for spec in op.inputs)
    scalars = ", ".join(f'"{name}": float({name})' for name in op.scalars)
    outputs = ", ".join(f'outputs["{spec.name}"].to(torch.{FACTS[spec.settled].torch})' for spec in op.outputs)
    single = "," if len(op.outputs) == 1 else ""
    return f"""{oracle}

@torch.no_grad()
def run({", ".join(order)}):
    outputs = {_ORACLE}({{{tensors}}}, {{{scalars}}})
    return ({outputs}{single})
"""


def standing_alone(source: str, path: Path) -> str:
    """Returns the parts of a module that its `oracle` uses, in order; raises UsageError if they import gdnbench."""
    tree, lines = ast.parse(source), source.splitlines()
    defined = {name: node for node in tree.body for name in _names(node)}
    if _ORACLE not in defined:
        raise UsageError(f"{path} defines no {_ORACLE}()", "see CONTRIBUTING, Add an op")
    if any(name in defined for name in _TAKEN):
        raise UsageError(f"{path} defines run(), which is the reference's own", "call it otherwise")
    oracle = defined[_ORACLE]
    if isinstance(oracle, ast.FunctionDef) and any(each.arg == "workload" for each in oracle.args.args):
        raise UsageError(f"{path}: the oracle takes a workload, which a reference is not told", "it is not exported")
    wanted = _reached(_ORACLE, defined)
    kept = [node for node in tree.body if any(defined[name] is node and name in wanted for name in _names(node))]
    for node in kept:
        if _imports_gdnbench(node):
            raise UsageError(f"{path}:{node.lineno}: the oracle imports gdnbench", "a reference stands alone")
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    parts = [_text(node, lines) for node in (*future, *kept)]
    has_torch = any(isinstance(node, ast.Import) and "torch" in _names(node) for node in kept)
    parts[len(future) : len(future)] = [] if has_torch else ["import torch"]
    return "\n\n".join(parts) + "\n"


def _names(node: ast.stmt) -> Iterator[str]:
    """Yields the names that a statement of a module binds."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom() if getattr(node, "module", "") != "__future__":
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)
        case ast.Assign():
            yield from (each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _reached(first: str, defined: Mapping[str, ast.stmt]) -> set[str]:
    wanted, waiting = {first}, [first]
    while waiting:
        for node in ast.walk(defined[waiting.pop()]):
            if isinstance(node, ast.Name) and node.id in defined and node.id not in wanted:
                wanted.add(node.id)
                waiting.append(node.id)
    return wanted


def _imports_gdnbench(node: ast.stmt) -> bool:
    modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
    return any((module or "").partition(".")[0] == "gdnbench" for module in modules)


def _text(node: ast.stmt, lines: list[str]) -> str:
    """Returns the statement with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return "\n".join(lines[first - 1 : node.end_lineno])
