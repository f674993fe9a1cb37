"""The running record of a run: one line an event, so that a killed run loses nothing that was measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

NAME = "journal.jsonl"


class Journal:
    """Appends lines and hands each to the operating system at once."""

    def __init__(self, folder: Path) -> None:
        path = folder / NAME
        if path.is_file():  # a last line that a kill cut off would swallow the next one
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, line: str) -> None:
        """Adds one line."""
        self._file.write(line + "\n")


def read_journal(folder: Path) -> Iterator[str]:
    """The lines of a journal, without a last one that was cut off; nothing where there is no journal."""
    path = folder / NAME
    if path.is_file():
        with path.open(encoding="utf-8") as lines:
            yield from (line.rstrip("\n") for line in lines if line.endswith("\n"))


def drop_journal(folder: Path) -> None:
    """Removes the journal of a run that is whole; its samples are in `samples.parquet`."""
    (folder / NAME).unlink(missing_ok=True)
