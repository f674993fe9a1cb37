"""Loads `op.py` and `variant.py` files, each into a module of its own.

A suite that is too long for `op.py` is a CSV file beside it, a row for each workload. Columns are the op's axes, lists
(`28672+4096`, `8x1024`) and aliases, `weight` (1 where there is none) and `name`; others are passed over.

A dispatcher's table says which kernel, with which params, at which workload of which GPU:

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

import csv
import io
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from gdnbench.catalog.declaration import check_fields, check_inside, place_of, run_declaration
from gdnbench.catalog.entry import Broken, CatalogEntry, Dispatch, Pick
from gdnbench.errors import DeclarationError, GdnbenchError, ParamError, ShapeError
from gdnbench.model.kernel import DispatchKernel, Kernel
from gdnbench.model.op import Op
from gdnbench.model.sequences import HOW_TO_SAY, why_not_compared
from gdnbench.model.status import NEED_SEQUENCES
from gdnbench.model.workload import Shape, Workload

T = TypeVar("T")
_WEIGHT, _NAME = "weight", "name"
_SOURCE, _KERNEL = "source", "kernel"  # of a row of a dispatcher's table, beside the params


@dataclass(frozen=True)
class LoadedOp:
    """An op and the folder that declares it."""

    op: Op
    folder: Path


def load_op(folder: Path) -> LoadedOp | Broken:
    """Loads `folder/op.py`."""
    try:
        op = with_stored_suites(_declared_op(folder), folder)
    except DeclarationError as error:
        return Broken(folder.name, folder, error.message)
    return LoadedOp(op, folder)


def _declared_op(folder: Path) -> Op:
    op = _declared(_run_file(folder / "op.py"), "op", Op)
    check_fields(op)
    check_inside(op.numerics, "numerics")
    if op.macro_prefix and not op.macro_prefix.isidentifier():
        raise DeclarationError(f"macro_prefix: {op.macro_prefix!r} begins no name of a macro, as GDN_ does")
    for name, declared in op.suites.items():
        if isinstance(declared, str):
            check_inside(declared, f"suites: {name}")
    return op


def load_kernel(folder: Path, op: LoadedOp) -> CatalogEntry | Broken:
    """Loads `folder/variant.py` as a kernel of `op`."""
    try:
        module = _run_file(folder / "variant.py")
        kernel = _declared(module, "kernel", Kernel)
        check_fields(kernel)
        check_inside(kernel.source, "source", below=1)
        if not os.path.lexists(folder / kernel.source):
            raise DeclarationError(f"variant.py names the source {kernel.source}, which is not in {folder}")
        _check_against(kernel, op.op)
        kernel = _named_by_revision(kernel, folder.parent.parent / REVISION_MARK)
    except DeclarationError as error:
        return Broken(f"{op.op.name}/{folder.name}", folder, error.message)
    idea = (module.__doc__ or "").strip().partition("\n")[0]
    return CatalogEntry(kernel, op.op, folder, op.folder, idea)


REVISION_MARK = "gdnbench-revision"
"""A file in a folder of kernels of a git revision: its kernels' names end with what it holds, `0a1b2c3d`."""


def _named_by_revision(kernel: Kernel, mark: Path) -> Kernel:
    if kernel.floor or not os.path.lexists(mark):
        return kernel
    try:
        return kernel.at_revision(mark.read_text(encoding="utf-8").strip())
    except (OSError, ValueError) as error:
        raise DeclarationError(f"{mark} cannot be read: {error}") from error


def _check_against(kernel: Kernel, op: Op) -> None:
    entries = [kernel.entry, *(each.entry for each in getattr(kernel, "launches", ()))]
    if strange := [entry for entry in entries if entry and not entry.isidentifier()]:
        raise DeclarationError(f"entry: {strange[0]!r} is not the name of a function")
    taken = {*op.workloads.names, *op.derived, *op.scalars, *(tensor.name for tensor in op.tensors)}
    if both := sorted(taken & kernel.params.keys()):
        raise DeclarationError(f"param {', '.join(both)}: {op.name} has an axis, tensor or scalar of this name")
    for shape in kernel.by_shape:
        try:
            op.workload(shape)
        except ShapeError as error:
            raise DeclarationError(f"by_shape {shape}: {error.message}; {error.hint}") from error
    untold = [kind for kind in kernel.invariant if kind in NEED_SEQUENCES]
    if untold and (reason := why_not_compared(op)):
        raise DeclarationError(f"invariant: it claims {', '.join(untold)}, and {reason}: {HOW_TO_SAY}")
    inputs, outputs = ({spec.name: spec for spec in specs} for specs in (op.inputs, op.outputs))
    if unknown := [name for name in kernel.strided if name not in inputs | outputs or name in kernel.in_place.values()]:
        raise DeclarationError(f"strided: the kernel is given no tensor {unknown[0]}")
    for target, source in kernel.in_place.items():
        if target not in outputs:
            raise DeclarationError(f"in_place: {target} is not an output of {op.name}")
        if source not in inputs:
            raise DeclarationError(f"in_place: {target} starts from {source}, which is not an input of {op.name}")
        output, start = outputs[target], inputs[source]
        if (output.dims, output.dtype) != (start.dims, start.dtype):
            raise DeclarationError(f"in_place: {target} and {source} differ in sizes or element type")


_FileState = tuple[int, ...] | None
"""The state by which a change of a file is detected; None if it cannot be read."""

_RUN: dict[Path, tuple[_FileState, ModuleType]] = {}
_COMPLETED: dict[Path, tuple[Op, list[_FileState], Op]] = {}


def _state_of(path: Path) -> _FileState:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


def _known_module(path: Path) -> ModuleType | None:
    known = _RUN.get(path)
    return known[1] if known and known[0] and known[0] == _state_of(path) else None


def _run_file(path: Path) -> ModuleType:
    if (module := _known_module(path)) is not None:
        return module
    state = _state_of(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DeclarationError(f"{path.name} cannot be read: {error.strerror}") from error
    try:
        _RUN[path] = state, run_declaration(path, content)
    except GdnbenchError as error:
        raise DeclarationError(f"{place_of(error, path)}: {error.message} {error.hint}".strip()) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise DeclarationError(f"{place_of(error, path)}: {type(error).__name__}: {error}") from error
    return _RUN[path][1]


def _declared(module: ModuleType, name: str, kind: type[T]) -> T:
    value = getattr(module, name, None)
    if not isinstance(value, kind):
        raise DeclarationError(f"{Path(str(module.__file__)).name} must set `{name}` to a gdnbench {kind.__name__}")
    return value


def with_stored_suites(op: Op, folder: Path) -> Op:
    """The op with each suite that names a file read from it; DeclarationError with file and line if that fails."""
    stored = {name: folder / declared for name, declared in op.suites.items() if isinstance(declared, str)}
    if not stored:
        return op
    states = [_state_of(path) for path in stored.values()]
    known = _COMPLETED.get(folder)
    if known and known[0] is op and known[1] == states:
        return known[2]
    complete = replace(op, suites={**op.suites, **{name: _read_suite(path, op) for name, path in stored.items()}})
    _COMPLETED[folder] = op, states, complete
    return complete


def _read_suite(path: Path, op: Op) -> dict[Shape, float]:
    weights: dict[Shape, float] = {}
    try:
        table = io.StringIO(path.read_bytes().decode("utf-8"), newline="")
        for line, row in enumerate(csv.DictReader(table, strict=True), start=2):
            where = f"{path.name} line {line}"
            shape, weight = _shape(row, op, where), (row.get(_WEIGHT) or "1").strip()
            if shape in weights:
                raise DeclarationError(f"{where}: duplicate workload")
            try:
                weights[shape] = float(weight)
            except ValueError as error:
                raise DeclarationError(f"{where}: the weight {weight} is not a number") from error
    except (OSError, ValueError, csv.Error) as error:
        raise DeclarationError(f"{path.name}: {error}") from error
    if not weights:
        raise DeclarationError(f"{path.name} has no workloads")
    return weights


def _shape(row: dict[str, str], op: Op, where: str) -> Shape:
    known = {*op.workloads.names, *(alias.name for alias in op.workloads.aliases)}
    cells = {name: text.strip() for name, text in row.items() if name in known and text and text.strip()}
    if not cells:
        raise DeclarationError(f"{where}: no size; columns are {', '.join(sorted(known))} and {_WEIGHT}")
    try:
        sizes: dict[str, Any] = {}
        for name, text in cells.items():
            sizes |= op.workloads.parse(f"{name}={text}")[0][0]
        op.workload(sizes)
        return Shape("" if _NAME in known else (row.get(_NAME) or "").strip(), **sizes)
    except GdnbenchError as error:
        raise DeclarationError(f"{where}: {error.message}") from error


def read_dispatch(path: Path, op: Op, kernels: Mapping[str, Kernel]) -> Dispatch:
    """Reads a dispatcher's table, which picks `kernels` by name; DeclarationError if it is invalid."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DeclarationError(f"{path.name}: {error}") from error
    picks: dict[str, dict[Workload, Pick]] = {}
    for gpu, tables in document.items():
        table = _table(tables, f"{path.name} [{gpu}]")
        has_rows = any(isinstance(value, dict) and _KERNEL in value for value in table.values())
        for series, rows in ({"": table} if has_rows else table).items():
            where = f"{path.name} [{gpu}.{series}]" if series else f"{path.name} [{gpu}]"
            picks.setdefault(gpu, {}).update(_rows(rows, series, where, op, kernels))
    if not picks or not all(picks.values()):
        example = op.default
        where = f"[h200.{example.series}]" if example.series else "[h200]"
        raise DeclarationError(f"{path.name} has no rows, such as {example.x_slug} below {where}")
    return Dispatch(picks)


def _rows(rows: Any, series: str, where: str, op: Op, kernels: Mapping[str, Kernel]) -> dict[Workload, Pick]:
    table = dict(_table(rows, where))
    source = table.pop(_SOURCE, "")
    picks = {}
    for name, row in table.items():
        at = f"{where} {name}"
        try:
            workload = op.checked(op.workloads.read(f"{name}-{series}"))
        except GdnbenchError as error:
            raise DeclarationError(f"{at}: {error.message}; a row is named as {op.default.slug}") from error
        picks[workload] = _pick({_SOURCE: source, **_table(row, at)}, at, kernels)
    return picks


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
