"""A run's folder: hidden while it is measured, with a journal in it, and renamed when it is whole."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType

from gdnbench.errors import MachineError, UsageError
from gdnbench.regular_file import check_regular, read_regular

MOST_LABEL = 80  # characters; file systems take 255 for the whole name
PARTIAL = re.compile(r"\.(?P<run_id>.+)\.partial")
JOURNAL = "journal.jsonl"
MOST_JOURNAL_BYTES = 1 << 32
"""It has every sample of a run as text."""


def run_id_of(now: datetime, gpu: str, op: str, label: str) -> str:
    """The run's name: `<UTC yyyymmdd-hhmmss>-<gpu>-<op>[-label]`, with the label reduced to `[A-Za-z0-9._-]`."""
    tail = re.sub(r"[^A-Za-z0-9._-]+", "-", label)[:MOST_LABEL].strip("-.")
    return f"{now:%Y%m%d-%H%M%S}-{gpu}-{op}" + (f"-{tail}" if tail else "")


@dataclass(frozen=True)
class RunFolder:
    """A run's folder while it is being filled.

    Attributes:
        run_id: the run's name.
        path: the hidden folder, `.<run-id>.partial`.
    """

    run_id: str
    path: Path

    @classmethod
    def create(cls, results: Path, run_id: str) -> RunFolder:
        """Claims a name; a second run of the same second gets `-2`.

        Raises:
            MachineError: if the results folder cannot be written.
        """
        for number in range(1, 1000):
            name = run_id if number == 1 else f"{run_id}-{number}"
            path = results / f".{name}.partial"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise MachineError(f"cannot write to {results}: {error}", "choose another folder with --out") from error
            if not (results / name).exists():
                _hold(path)
                return cls(name, path)
            path.rmdir()
        raise MachineError(f"{results} holds a thousand runs named {run_id}", "choose another folder with --out")

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """Takes up a run that was stopped: a finished folder is hidden again until it is whole.

        Raises:
            UsageError: if another process is measuring it.
        """
        _hold(path)
        hidden = PARTIAL.fullmatch(path.name)
        if hidden:
            return cls(hidden["run_id"], path)
        target = path.with_name(f".{path.name}.partial")
        path.rename(target)
        return cls(path.name, target)

    def finish(self) -> Path:
        """Gives the folder its name; from now on others see it."""
        target = self.path.with_name(self.run_id)
        self.path.rename(target)
        return target


def _hold(path: Path) -> None:
    """Locks a run for this process until the process ends; the lock on a folder survives its renaming.

    Raises:
        UsageError: if another process holds it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(f"{path} is being measured by another process", "wait for it to end") from error


class Journal:
    """Appends lines and hands each to the operating system at once."""

    def __init__(self, folder: Path) -> None:
        path = folder / JOURNAL
        if path.is_file():  # a last line that a kill cut off would swallow the next one
            os.truncate(path, read_regular(path, MOST_JOURNAL_BYTES).rfind(b"\n") + 1)
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
    path = folder / JOURNAL
    if path.is_file():
        check_regular(path, MOST_JOURNAL_BYTES)
        with path.open(encoding="utf-8") as lines:
            yield from (line.rstrip("\n") for line in lines if line.endswith("\n"))


def drop_journal(folder: Path) -> None:
    """Removes the journal of a run that is whole; its samples are in `samples.parquet`."""
    (folder / JOURNAL).unlink(missing_ok=True)
