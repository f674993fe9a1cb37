"""Writes a new folder whole or not at all: hidden while it is made, renamed when it has passed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gdnbench.errors import UsageError


def read_folder(folder: Path) -> dict[Path, bytes]:
    """The files of a folder by their paths in it; what Python cached is left out."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder): path for path in paths}
    return {name: path.read_bytes() for name, path in files.items() if "__pycache__" not in name.parts}


def write_folder(folder: Path, files: Mapping[Path, bytes], check: Callable[[Path], None]) -> None:
    """Makes a folder.

    Args:
        folder: where; nothing may be there.
        files: what it is to hold, by path in it.
        check: called with the folder while it is still hidden, beside its place; raises to have it removed.

    Raises:
        UsageError: if something is there, or the place cannot be written.
    """
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists", "choose another name, or remove it first")
    try:
        with _parents(folder), _hidden_sibling(folder) as made:
            for name, data in files.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_bytes(data)
            check(made)
            shutil.rmtree(made / "__pycache__", ignore_errors=True)
            made.rename(folder)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "name a folder that is yours: --to DIR") from error


@contextmanager
def _parents(folder: Path) -> Iterator[None]:
    """The folders above it, made where they are missing; those go again if the work fails."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for parent in missing:
            with suppress(OSError):
                parent.rmdir()
        raise


@contextmanager
def _hidden_sibling(folder: Path) -> Iterator[Path]:
    """An empty folder whose name begins with a dot, which the catalog passes over; gone afterwards if still there."""
    path = folder.parent / f".{folder.name}.{os.getpid()}.partial"
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
