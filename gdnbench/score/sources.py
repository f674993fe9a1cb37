"""Notices that a kernel's sources have changed, however an editor saves them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import label_parts
from gdnbench.catalog.select import find_broken
from gdnbench.errors import UnknownNameError

Snapshot = dict[Path, tuple[int, int]]
"""Size and time of the last change, in nanoseconds, by file."""


class WatchedSources:
    """The files that a kernel's numbers may depend on: its folder's, and what lies directly in its op's.

    Args:
        folder: the kernel's.
        op_folder: its op's.
    """

    def __init__(self, folder: Path, op_folder: Path) -> None:
        self._folder = folder
        self._op_folder = op_folder
        self._seen = self._snapshot()
        self._digest = self._read()

    @property
    def folder(self) -> Path:
        """The kernel's."""
        return self._folder

    def has_changed(self) -> bool:
        """Whether the contents are others than when this last said so; a file that is only touched is not.

        A file that is being written is noticed again when it is whole.
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
        return sorted(path for path in (*own, *self._op_folder.glob("*")) if path.is_file())

    def _snapshot(self) -> Snapshot:
        found: Snapshot = {}
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:  # an editor replaces it at this moment
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
    """The sources of a kernel that loads, or of one whose declaration does not.

    Raises:
        UnknownNameError: if there is neither.
    """
    name, _ = label_parts(label)
    if entry := catalog.owner(name):
        return WatchedSources(entry.folder, entry.op_folder)
    if broken := find_broken(catalog, name):
        return WatchedSources(broken.folder, broken.folder.parent)
    raise UnknownNameError(f"there is no kernel {name}", "`gdnbench list` shows every kernel")
