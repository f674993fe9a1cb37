"""Where a new kernel goes: a root that is the user's own, beside the kernel it is made from where that can be."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gdnbench.catalog import Entry
from gdnbench.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent.parent


def choose_root(source: Entry, roots: Iterable[Path], to: Path | None) -> Path:
    """The folder of kernels that a copy of `source` goes to.

    That is `to` if given; else the root that holds `source`; else the first of the others; else `kernels/` here.
    What a package installation holds is nobody's own, and what cannot be written is passed over.

    Raises:
        UsageError: if `to` cannot hold kernels.
    """
    if to is not None:
        return _checked(to)
    beside = root_of(source)
    own = sorted((root for root in roots if not root.is_relative_to(_PACKAGE)), key=lambda root: root != beside)
    return next((root for root in own if _is_writable(root)), Path.cwd() / "kernels")


def root_of(entry: Entry) -> Path:
    """The root that a kernel was found in."""
    return entry.folder.parent.parent


def op_folder_in(root: Path, source: Entry) -> Path:
    """The folder in `root` for the kernels of `source`'s op; it need not exist."""
    known = (source.folder.parent, source.op_folder)
    return next((folder for folder in known if folder.parent == root), root / source.op.name)


def _checked(to: Path) -> Path:
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is not a folder", "--to takes a folder of kernels, as `kernels/` is")
    if (to / "op.py").is_file():
        raise UsageError(f"{to} holds the kernels of one op", f"--to takes the folder above it: --to {to.parent}")
    return to


def _is_writable(folder: Path) -> bool:
    """Whether it, or the nearest folder above it that exists, can be written."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)
