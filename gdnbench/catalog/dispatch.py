"""A dispatcher's table: which kernel, with which params, at which shape of which GPU.

```toml
[h200.qk4_v8]                # a GPU's short name and a series: a workload's name without its first axis
source = "20260102-030405-h200-decode-sweep"      # the run that says so
B1 = { kernel = "decode-triton", BV = 16, WARPS = 16 }
B8 = { kernel = "decode-v6", WARPS = 8, source = "20260102-040506-h200-decode" }
```

A param that a row leaves out has its kernel's default. A workload without a row takes that of the nearest one, by
size; a GPU without rows takes those of the table's first GPU. Workloads of an op with a single axis are one series,
which has no name: their table is `[h200]`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gdnbench.catalog.entry import Dispatch, Pick
from gdnbench.errors import DeclarationError, GdnbenchError, ParamError
from gdnbench.model.kernel import DispatchKernel, Kernel
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload

_SOURCE, _KERNEL = "source", "kernel"


def read_dispatch(path: Path, op: Op, kernels: Mapping[str, Kernel]) -> Dispatch:
    """Reads a table.

    Args:
        path: the TOML file.
        op: the op, whose workloads it names.
        kernels: those that it may pick, by name: the ones of its op.

    Raises:
        DeclarationError: if it is no such table, or names what does not exist or is a dispatcher itself.
    """
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DeclarationError(f"{path.name}: {error}") from error
    picks: dict[str, dict[Workload, Pick]] = {}
    for gpu, tables in document.items():
        table = _table(tables, f"{path.name} [{gpu}]")
        for series, rows in ({"": table} if _has_rows(table) else table).items():
            where = f"{path.name} [{gpu}.{series}]" if series else f"{path.name} [{gpu}]"
            picks.setdefault(gpu, {}).update(_rows(rows, series, where, op, kernels))
    if not picks or not all(picks.values()):
        example = op.default
        where = f"[h200.{example.series}]" if example.series else "[h200]"
        raise DeclarationError(f"{path.name} has no rows, such as {example.x_slug} below {where}")
    return Dispatch(picks)


def _has_rows(table: Mapping[str, Any]) -> bool:
    """Whether rows stand in it, rather than tables of series."""
    return any(isinstance(value, dict) and _KERNEL in value for value in table.values())


def _rows(rows: Any, series: str, where: str, op: Op, kernels: Mapping[str, Kernel]) -> dict[Workload, Pick]:
    table = dict(_table(rows, where))
    source = table.pop(_SOURCE, "")
    return {
        _workload(f"{name}-{series}", f"{where} {name}", op): _pick(
            {_SOURCE: source, **_table(row, f"{where} {name}")}, f"{where} {name}", kernels
        )
        for name, row in table.items()
    }


def _workload(slug: str, where: str, op: Op) -> Workload:
    try:
        return op.checked(op.workloads.read(slug))
    except GdnbenchError as error:
        raise DeclarationError(f"{where}: {error.message}; a row is named as {op.default.slug}") from error


def _pick(row: dict[str, Any], where: str, kernels: Mapping[str, Kernel]) -> Pick:
    name, source = (str(row.pop(key, "")) for key in (_KERNEL, _SOURCE))
    if not source:
        raise DeclarationError(f"{where}: no source, the run that it comes from")
    if name not in kernels:
        raise DeclarationError(f"{where}: there is no kernel {name}")
    if isinstance(kernels[name], DispatchKernel):
        raise DeclarationError(f"{where}: {name} picks kernels itself")
    try:
        return Pick(name, kernels[name].resolve(row), source)
    except ParamError as error:
        raise DeclarationError(f"{where}: {error.message}; {error.hint}") from error


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DeclarationError(f"{where}: not a table")
    return value
