"""Writes the folder of a new op: a small one that is right, in torch, Triton and CUDA C++, to be made one's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, default_roots, load_catalog, own_roots
from gdnbench.catalog.new_kernel import checked_root, read_folder, write_folder
from gdnbench.errors import DeclarationError, UsageError
from gdnbench.model.declaration import EVERY, check_name

_TEMPLATE = Path(__file__).resolve().parent / "template"
_NAME_THERE = re.compile(rb"\bexample\b")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class NewOp:
    """An op in the folder of kernels `root`; `files` lie in its own folder."""

    name: str
    root: Path
    folder: Path
    files: tuple[Path, ...]


def make_op(name: str, to: Path | None = None) -> NewOp:
    """Writes an op of this name with a kernel of each language, all of which verify.

    It goes into `to`, else the project's first folder of kernels, else `kernels/` here.
    Raises UsageError for an invalid or taken name, or a place that cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not an op's name", "lower-case letters, digits, single dashes, as in rms-norm")
    try:
        check_name(name if name == EVERY else f"{name}-triton")  # its longest
    except DeclarationError as error:
        raise UsageError(error.message, error.hint) from error
    root = checked_root(to.expanduser().resolve()) if to else next(iter(own_roots()), Path.cwd() / "kernels")
    files = {path: _NAME_THERE.sub(name.encode(), data) for path, data in read_folder(_TEMPLATE).items()}
    kernels = [path.parent for path in files if path.name == "variant.py"]
    _check_free(load_catalog((*default_roots(), root)), name, kernels)
    write_folder(root / name, files, lambda _hidden: None)
    return NewOp(name, root, root / name, tuple(files))


def _check_free(catalog: Catalog, name: str, kernels: Iterable[Path]) -> None:
    if folder := catalog.op_folders.get(name):
        raise UsageError(f"{name} exists already: an op in {folder}", "choose another name")
    for each in (name, *(f"{name}-{kernel}" for kernel in kernels)):
        if owner := catalog.owner(each):
            raise UsageError(f"{each} exists already: a kernel in {owner.folder}", "choose another name")
