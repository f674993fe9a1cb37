"""A dispatcher's table: which kernel, with which params, at which shape of which GPU.

```toml
[h200.qk4_v8]                # a GPU's short name and a head layout
source = "20260102-030405-h200-decode-sweep"      # the run that says so
B1 = { kernel = "decode-triton", BV = 16, WARPS = 16 }
B8 = { kernel = "decode-v6", WARPS = 8, source = "20260102-040506-h200-decode" }
```

A param that a row leaves out has its kernel's default. A shape without a row takes that of the nearest one, by the
number of heads in the batch; a GPU without rows takes those of the table's first GPU.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdnbench.errors import DeclarationError, ParamError, ShapeError
from gdnbench.model import DispatchKernel, Kernel, Params, Shape, nearest_shape

_HEADS = re.compile(r"qk(\d+)_v(\d+)")
_ROW = re.compile(r"B(\d+)")
_SOURCE, _KERNEL = "source", "kernel"


@dataclass(frozen=True)
class Pick:
    """What a table says of one shape.

    Attributes:
        kernel: the kernel's name.
        params: every param's value.
        source: id of the run that found it the best.
    """

    kernel: str
    params: Params
    source: str


@dataclass(frozen=True)
class Dispatch:
    """A table that was read.

    Attributes:
        picks: by GPU's short name, then by shape; at least one.
    """

    picks: Mapping[str, Mapping[Shape, Pick]]

    @property
    def rows(self) -> tuple[Pick, ...]:
        """What it picks, in the order of the table."""
        return tuple(pick for rows in self.picks.values() for pick in rows.values())

    @property
    def first_gpu(self) -> str:
        """The GPU that stands in for one without rows."""
        return next(iter(self.picks))

    def pick(self, shape: Shape, gpu: str = "") -> Pick:
        """The row for a shape.

        Args:
            shape: the workload.
            gpu: the GPU's short name; empty for none in particular.
        """
        rows = self.picks.get(gpu) or self.picks[self.first_gpu]
        return rows[nearest_shape(rows, shape)]


def read_dispatch(path: Path, kernels: Mapping[str, Kernel]) -> Dispatch:
    """Reads a table.

    Args:
        path: the TOML file.
        kernels: those that it may pick, by name: the ones of its op.

    Raises:
        DeclarationError: if it is no such table, or names what does not exist or is a dispatcher itself.
    """
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DeclarationError(f"{path.name}: {error}") from error
    picks: dict[str, dict[Shape, Pick]] = {}
    for gpu, layouts in document.items():
        for heads, rows in _table(layouts, f"{path.name} [{gpu}]").items():
            picks.setdefault(gpu, {}).update(_rows(rows, heads, f"{path.name} [{gpu}.{heads}]", kernels))
    if not picks or not all(picks.values()):
        raise DeclarationError(f"{path.name} has no rows, such as B1 below [h200.qk4_v8]")
    return Dispatch(picks)


def _rows(rows: Any, heads: str, where: str, kernels: Mapping[str, Kernel]) -> dict[Shape, Pick]:
    found = _HEADS.fullmatch(heads)
    if not found:
        raise DeclarationError(f"{where}: {heads} is no head layout, such as qk4_v8")
    table = dict(_table(rows, where))
    source = table.pop(_SOURCE, "")
    return {
        _shape(name, found, where): _pick(
            {_SOURCE: source, **_table(row, f"{where} {name}")}, f"{where} {name}", kernels
        )
        for name, row in table.items()
    }


def _shape(name: str, heads: re.Match[str], where: str) -> Shape:
    batch = _ROW.fullmatch(name)
    if not batch:
        raise DeclarationError(f"{where}: {name} is no batch size, such as B8")
    try:
        return Shape(B=int(batch[1]), HQ=int(heads[1]), HV=int(heads[2]))
    except ShapeError as error:
        raise DeclarationError(f"{where} {name}: {error.message}") from error


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
