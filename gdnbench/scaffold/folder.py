"""A kernel's folder: where a new one goes, and how it is written, whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gdnbench.catalog.entry import Entry
from gdnbench.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent.parent
_OUTSIDE = re.compile(rb'\b__file__\b|#\s*include\s*"\.\./')


def choose_root(source: Entry, roots: Iterable[Path], to: Path | None) -> Path:
    """The folder of kernels that a copy of `source` goes to.

    That is `to` if given; else the root that holds `source`; else the first of the others; else `kernels/` here.
    A root inside an installed package is passed over, and so is one that cannot be written.

    Raises:
        UsageError: if `to` cannot hold kernels.
    """
    if to is None:
        beside = source.folder.parent.parent
        own = sorted((root for root in roots if not root.is_relative_to(_PACKAGE)), key=lambda root: root != beside)
        return next((root for root in own if _is_writable(root)), Path.cwd() / "kernels")
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is not a folder", "--to takes a folder of kernels, as `kernels/` is")
    if (to / "op.py").is_file():
        raise UsageError(f"{to} holds the kernels of one op", f"--to takes the folder above it: --to {to.parent}")
    return to


def op_folder_in(root: Path, source: Entry) -> Path:
    """The folder in `root` for the kernels of `source`'s op; it need not exist."""
    known = (source.folder.parent, source.op_folder)
    return next((folder for folder in known if folder.parent == root), root / source.op.name)


def _is_writable(folder: Path) -> bool:
    """Whether it, or the nearest folder above it that exists, can be written."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


def read_folder(folder: Path) -> dict[Path, bytes]:
    """The files of a folder by their paths in it, without Python's cache."""
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {name: (folder / name).read_bytes() for name in names if "__pycache__" not in name.parts}


def references_outside(files: Mapping[Path, bytes]) -> list[str]:
    """The lines that refer to what is outside the folder, and may be missing elsewhere: `kernel.py:27`."""
    lines = ((name, number, line) for name, data in files.items() for number, line in enumerate(data.split(b"\n"), 1))
    return [f"{name}:{number}" for name, number, line in lines if _OUTSIDE.search(line)]


def write_folder(folder: Path, files: Mapping[Path, bytes], check: Callable[[Path], None]) -> None:
    """Makes a folder, hidden beside its place until it has passed the check; where anything fails, nothing is left.

    Args:
        folder: where; nothing may be there.
        files: what it is to hold, by path in it.
        check: called with the hidden folder, whose name begins with a dot, which the catalog passes over.

    Raises:
        UsageError: if something is there, or the place cannot be written; and whatever `check` raises.
    """
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists", "choose another name, or remove it first")
    missing = [parent for parent in folder.parents if not parent.exists()]
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        hidden.mkdir(parents=True)
        for name, data in files.items():
            (hidden / name).parent.mkdir(parents=True, exist_ok=True)
            (hidden / name).write_bytes(data)
        check(hidden)
        shutil.rmtree(hidden / "__pycache__", ignore_errors=True)
        hidden.rename(folder)
    except BaseException as error:
        shutil.rmtree(hidden, ignore_errors=True)
        for parent in missing:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            hint = "name a folder that is yours: --to DIR"
            raise UsageError(f"cannot write {folder}: {error.strerror}", hint) from error
        raise
