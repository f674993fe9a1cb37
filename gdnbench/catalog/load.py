"""Loads `op.py` and `variant.py` files, each into a module of its own."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from gdnbench.catalog.entry import Broken, Entry
from gdnbench.errors import DeclarationError, GdnbenchError
from gdnbench.model import Kernel, Op
from gdnbench.places import is_file
from gdnbench.raised import raised_at

T = TypeVar("T")


@dataclass(frozen=True)
class LoadedOp:
    """An op and the folder that declares it."""

    op: Op
    folder: Path


def load_op(folder: Path) -> LoadedOp | Broken:
    """Loads `folder/op.py`."""
    try:
        op = _declared(_run_file(folder / "op.py"), "op", Op)
    except DeclarationError as error:
        return Broken(folder.name, folder, error.message)
    return LoadedOp(op, folder)


def load_kernel(folder: Path, op: LoadedOp) -> Entry | Broken:
    """Loads `folder/variant.py` as a kernel of `op`."""
    try:
        module = _run_file(folder / "variant.py")
        kernel = _declared(module, "kernel", Kernel)
        if not is_file(folder / kernel.source):
            raise DeclarationError(f"variant.py names the source {kernel.source}, which is not in {folder}")
        _check_in_place(kernel, op.op)
    except DeclarationError as error:
        return Broken(f"{op.op.name}/{folder.name}", folder, error.message)
    idea = (module.__doc__ or "").strip().partition("\n")[0]
    return Entry(kernel, op.op, folder, op.folder, idea)


def _check_in_place(kernel: Kernel, op: Op) -> None:
    """What is updated in place is an output that can hold the input it starts from."""
    for target, source in kernel.in_place.items():
        output = next((spec for spec in op.outputs if spec.name == target), None)
        start = next((spec for spec in op.inputs if spec.name == source), None)
        if output is None:
            raise DeclarationError(f"in_place: {target} is no output of {op.name}")
        if start is None:
            raise DeclarationError(f"in_place: {target} starts from {source}, which is no input of {op.name}")
        if (output.dims, output.dtype) != (start.dims, start.dtype):
            raise DeclarationError(f"in_place: {target} and {source} differ in sizes or element type")


def _run_file(path: Path) -> ModuleType:
    name = f"gdnbench_catalog_{path.parent.parent.name}_{path.parent.name}_{path.stem}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DeclarationError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        with redirect_stdout(sys.stderr):  # standard output is for our own data
            spec.loader.exec_module(module)
    except GdnbenchError as error:
        raise DeclarationError(f"{_place(error, path)}: {error.message} {error.hint}".strip()) from error
    except (Exception, SystemExit) as error:
        raise DeclarationError(f"{_place(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _place(error: BaseException, path: Path) -> str:
    """File and line of the failure in the declaration itself, not in what it called."""
    at = raised_at(error, path)
    return f"{path.name}:{at[1]}" if at else path.name


def _declared(module: ModuleType, name: str, kind: type[T]) -> T:
    value = getattr(module, name, None)
    if not isinstance(value, kind):
        raise DeclarationError(f"{Path(str(module.__file__)).name} must set `{name}` to a gdnbench {kind.__name__}")
    return value
