"""Writes the sources of an entry back: into a new folder of kernels, or over the kernel's own files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.new import write_folder
from gdnbench.codec import SchemaError
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.ledger.entry import LedgerEntry
from gdnbench.ledger.file import MEND, unpack


@dataclass(frozen=True)
class Restored:
    """The files that were written, in `folder`, and what is to be known of the others."""

    folder: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def kept_sources(entry: LedgerEntry, *, opened: bool) -> dict[str, str]:
    """The files as they were last measured, else or if `opened` as the entry was opened; UsageError if none are stored.

    RunFormatError is raised for damaged ones, and for a name that leads out of the folder.
    """
    number = entry.opened.id
    measured = "" if opened or not entry.last else entry.last.sources
    try:
        files = unpack(measured or entry.opened.sources)
    except SchemaError as error:
        raise RunFormatError(f"entry {number}: {error}", MEND) from error
    if not files:
        raise UsageError(f"entry {number} keeps no sources: {entry.opened.kernel} was too large", "see its commit")
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts or {"\\", "\0", ":"} & {*name}:
            raise RunFormatError(f"entry {number}: {name!r} is not a file's name within a folder", MEND)
    return files


def restore_beside(files: Mapping[str, str], root: Path, op_folder: str) -> Restored:
    """Writes all files into a new folder of kernels, headers beside the kernel's; UsageError if it exists."""
    placed = {Path(op_folder) / name: text.encode() for name, text in files.items()}
    write_folder(root, placed, lambda _hidden: None)
    return Restored(root, tuple(placed))


def restore_in_place(files: Mapping[str, str], current: CatalogEntry | None, kernel: str) -> Restored:
    """Writes the files of the kernel's own folder over those that are there now; headers of others are left alone.

    UsageError if the kernel is not there any more, or a file cannot be written.
    """
    if current is None:
        raise UsageError(f"{kernel} is not there any more", "leave --force out: its files go into a new folder")
    folder = current.folder
    prefix = f"{folder.name}/"
    own = {name.removeprefix(prefix): text.encode() for name, text in files.items() if name.startswith(prefix)}
    if not own:
        raise UsageError(f"{kernel} was in another folder than {folder}", "leave --force out")
    there = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for name, path in current.source_files()
        if name.startswith(prefix)
    }
    changed = {name: data for name, data in own.items() if there.get(name) != data}
    for name, data in changed.items():
        _replace(folder / name, data)
    notes = [f"{folder / name} is not of the entry, and was left" for name in sorted(there.keys() - own.keys())]
    now = {name: path for name, path in current.source_files() if not name.startswith(prefix)}
    shared = sorted(name for name in files if not name.startswith(prefix))
    notes += [
        f"{name} is another than it was: other kernels share it, and it was left"
        for name in shared
        if name not in now or now[name].read_bytes() != files[name].encode()
    ]
    return Restored(folder, tuple(map(Path, changed)), tuple(notes))


def _replace(path: Path, data: bytes) -> None:
    """Writes a file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror}", "leave --force out") from error
