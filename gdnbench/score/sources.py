"""Detects changes of a kernel's sources, however an editor saves them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import include_path, label_parts
from gdnbench.catalog.select import find_broken
from gdnbench.errors import UnknownNameError

Snapshot = dict[Path, tuple[int, int]]
"""Size in bytes and time of the last change in nanoseconds, by file."""


class WatchedSources:
    """The files that a kernel's numbers may depend on: its folder's, those directly in its op's, and shared headers."""

    def __init__(self, folder: Path, op_folder: Path) -> None:
        self._folder = folder
        self._op_folder = op_folder
        self._seen = self._snapshot()
        self._digest = self._read()

    @property
    def folder(self) -> Path:
        """The kernel's folder."""
        return self._folder

    def has_changed(self) -> bool:
        """Whether contents changed since the last call; touching a file is no change.

        A half-written file counts as a change again when it is complete.
        """
        now = self._snapshot()
        if now == self._seen:
            return False
        self._seen = now
        digest, before = self._read(), self._digest
        self._digest = digest
        return digest != before

    def _files(self) -> list[Path]:
        own = (path for path in self._folder.rglob("*") if "__pycache__" not in path.parts)
        _, _, *shared = include_path(self._folder, self._op_folder)
        headers = (path for folder in shared for path in folder.rglob("*"))
        return sorted(path for path in (*own, *self._op_folder.glob("*"), *headers) if path.is_file())

    def _snapshot(self) -> Snapshot:
        found: Snapshot = {}
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:  # an editor is replacing the file
                continue
            found[path] = (stat.st_size, stat.st_mtime_ns)
        return found

    def _read(self) -> str:
        digest = hashlib.sha256()
        for path in self._files():
            try:
                digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
            except OSError:
                continue
        return digest.hexdigest()


def sources_of(catalog: Catalog, label: str) -> WatchedSources:
    """Returns the sources of a kernel, even if its declaration does not load; raises UnknownNameError for any other."""
    name, _ = label_parts(label)
    if entry := catalog.owner(name):
        return WatchedSources(entry.folder, entry.op_folder)
    if broken := find_broken(catalog, name):
        return WatchedSources(broken.folder, broken.folder.parent)
    raise UnknownNameError(f"there is no kernel {name}", "`gdnbench list` shows every kernel")
