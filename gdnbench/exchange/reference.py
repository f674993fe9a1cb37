"""An op's float64 oracle as a self-contained text, and launches' sizes as expressions of sizes known at run time.

A declaration's `grid` is Python. Called with sizes that record operations, it gives an expression for a binding. If it
needs such a size's value (`max`, `if`, a division with `/`), it becomes a table with a row for each exported workload.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdnbench.errors import UsageError
from gdnbench.exchange.schema import read_text
from gdnbench.model.declaration import FACTS, Params
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload

_ORACLE = "oracle"


def write_reference(op: Op, folder: Path, order: list[str]) -> str:
    """The oracle as a reference in the outputs' types, of arguments `order`; UsageError if it needs gdnbench."""
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
    if "run" in defined:
        raise UsageError(f"{path} defines run(), which is the reference's own", "call it otherwise")
    oracle = defined[_ORACLE]
    if isinstance(oracle, ast.FunctionDef) and any(each.arg == "workload" for each in oracle.args.args):
        raise UsageError(f"{path}: the oracle takes a workload, and a reference gets none", "it is not exported")
    wanted = _reached(_ORACLE, defined)
    used = [node for node in tree.body if any(defined[name] is node and name in wanted for name in _names(node))]
    for node in used:
        if _imports_gdnbench(node):
            raise UsageError(f"{path}:{node.lineno}: the oracle imports gdnbench", "a Definition's reference is a file")
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    parts = [_text(node, lines) for node in (*future, *used)]
    has_torch = any(isinstance(node, ast.Import) and "torch" in _names(node) for node in used)
    parts[len(future) : len(future)] = [] if has_torch else ["import torch"]
    return "\n\n".join(parts) + "\n"


def _names(node: ast.stmt) -> Iterator[str]:
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
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return "\n".join(lines[first - 1 : node.end_lineno])


class ValueNeededError(Exception):
    """A declaration needs the value of a size that has none yet."""


_Operator = Callable[[Any, Any], "SizeExpression"]


def _operator(sign: str, function: str = "") -> tuple[_Operator, _Operator]:
    """Makes an operator, which in C++ may be a function, and its reflection."""

    def apply(left: Any, right: Any) -> SizeExpression:
        (lp, lc), (rp, rc) = _texts(left), _texts(right)
        return SizeExpression(f"({lp} {sign} {rp})", f"{function}({lc}, {rc})" if function else f"({lc} {sign} {rc})")

    return apply, lambda right, left: apply(left, right)


@dataclass(frozen=True, eq=False)
class SizeExpression:
    """A size known at run time, in Python and as C++ `int64_t`; `floor_div` and `floor_mod` are Python's."""

    python: str
    cpp: str

    __add__, __radd__ = _operator("+")
    __sub__, __rsub__ = _operator("-")
    __mul__, __rmul__ = _operator("*")
    __floordiv__, __rfloordiv__ = _operator("//", "floor_div")
    __mod__, __rmod__ = _operator("%", "floor_mod")

    def __neg__(self) -> SizeExpression:
        return SizeExpression(f"(-{self.python})", f"(-{self.cpp})")

    def _refuse(self, *_others: Any) -> Any:
        raise ValueNeededError(self.python)

    __bool__ = __int__ = __index__ = __float__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __abs__ = __round__ = __iter__ = __hash__ = _refuse


LaunchSize = int | SizeExpression


def _texts(value: Any) -> tuple[str, str]:
    if isinstance(value, SizeExpression):
        return value.python, value.cpp
    if type(value) is int:
        return str(value), f"INT64_C({value})"
    raise ValueNeededError(f"{value!r}")


class _SymbolicWorkload:
    """A workload whose run-time axes are expressions; its lists have no value."""

    def __init__(self, known: Mapping[str, int], unknown: Sequence[str]) -> None:
        self._known, self._unknown = known, unknown

    def __getattr__(self, name: str) -> Any:
        if name in self._unknown:
            return SizeExpression(name, name)
        if name in self._known:
            return self._known[name]
        raise ValueNeededError(name)


def sizes_of(
    function: Callable[[Any, Params], Any],
    params: Params,
    known: Mapping[str, int],
    unknown: Sequence[str],
    workloads: Sequence[Workload],
    named_sizes: Callable[[Workload], Mapping[str, int]],
) -> tuple[LaunchSize, ...]:
    """Returns the results of a declared function, a grid or a block, as numbers or expressions.

    `known` are the constant axes, `unknown` the axes and derived sizes that vary; `workloads` are those to export, for
    a function without an expression, and `named_sizes` gives the axes and derived sizes of one, by name. Raises
    UsageError if the function depends on what no argument of a Solution gives.
    """
    try:
        sizes = _as_tuple(function(_SymbolicWorkload(known, unknown), params))
        for size in sizes:
            _texts(size)
    except ValueNeededError:
        pass
    else:
        return sizes
    rows: dict[tuple[int, ...], tuple[int, ...]] = {}
    for workload in workloads:
        sizes, named = _as_tuple(function(workload, params)), named_sizes(workload)
        if rows.setdefault(tuple(named[name] for name in unknown), sizes) != sizes:
            hint = "no argument of a Solution tells them: with --shape, export workloads that differ in their totals"
            raise UsageError(f"the kernel's launch depends on the lists of {workload}", hint)
    columns = [{key: sizes[place] for key, sizes in rows.items()} for place in range(len(next(iter(rows.values()))))]
    # The first refuses other sizes even where all of these have the same: what others have is not known.
    return tuple(
        next(iter(column.values()))
        if len({*column.values()}) == 1 and (place or not unknown)
        else _column(column, unknown)
        for place, column in enumerate(columns)
    )


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _column(column: Mapping[tuple[int, ...], int], unknown: Sequence[str]) -> LaunchSize:
    python = f"{dict(column)!r}[({', '.join(unknown)},)]"
    cases = "".join(
        f"if ({' && '.join(f'{name} == {size}' for name, size in zip(unknown, key, strict=True))}) return {value}; "
        for key, value in column.items()
    )
    message = "this solution was exported for other sizes"
    return SizeExpression(python, f'[&]() -> int64_t {{ {cases}throw std::runtime_error("{message}"); }}()')


def as_python(size: LaunchSize) -> str:
    """Returns the size in Python."""
    return _texts(size)[0]


def as_cpp(size: LaunchSize) -> str:
    """Returns the size in C++."""
    return _texts(size)[1]
