"""An index of stored runs: the answers that verbs computed from each, so that none is computed twice.

It is kept in the cache folder, a SQLite file for each folder of runs, and not beside the runs, which may be committed,
or lie where nobody may write. An answer counts for as long as the files that it was read from have the size, the times
and the inode that they had. An index by other code of gdnbench, or one that is damaged, is deleted; where one cannot be
read or written, runs are read without it. Of a damaged run the index keeps the error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import quote

import msgspec

from gdnbench.errors import RunFormatError, UnreadableError
from gdnbench.origin import index_folder
from gdnbench.store.files import DAMAGED

T = TypeVar("T")

SCHEMA = 1
FEWEST_RUNS = 16  # fewer are read as quickly as an index is, and leave none behind

_PACKAGE = Path(__file__).parents[1]
_BATCH = 200  # answers that are written at once: a read that is interrupted loses no more
_LOCK_TIMEOUT_S = 2.0  # while another process writes
_UNUSED_S = 60 * 86_400.0
_FOLDER = "\0"  # stands for the run's folder in what was wrong with it: it may be called in several ways
_TABLE = """CREATE TABLE answers (
    question TEXT, run TEXT, stamp TEXT, answer BLOB, damage TEXT, PRIMARY KEY (question, run)
) WITHOUT ROWID"""
_Answer = tuple[str, bytes, str]
"""The stamp of what was read, the answer, and what was wrong with the run instead of one."""


def stamp_of(folder: Path, names: Sequence[str]) -> str:
    """The state of a run's files when they were read, to detect changes."""
    return "|".join(_stamp(f"{folder}/{name}") or _stamp(f"{folder}/{name}.gz") for name in names)


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path for each of thousands of files takes longer than the call
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


class RunIndex:
    """The index of a folder of runs, `results`; answers on others than `runs` are dropped. `save` writes new ones."""

    def __init__(self, results: Path, runs: Sequence[Path]) -> None:
        digest = hashlib.sha256(os.fsencode(results.resolve())).hexdigest()[:16]
        self._path = index_folder() / f"{digest}.sqlite" if len(runs) >= FEWEST_RUNS else None
        self._runs = {run.name for run in runs}
        self._known: dict[str, dict[str, _Answer]] = {}
        self._new: list[tuple[str, str, str, bytes, str]] = []
        self._has_others = False

    def answer(self, question: str, folder: Path, stamp: str, schema: type[T], read: Callable[[Path], T]) -> T:
        """What `read` returns for a run's folder, or returned before; RunFormatError if the run is damaged.

        `question` is all that the answer depends on besides files and the code of gdnbench, `stamp` that of the files
        that `read` reads, taken before.
        """
        known = self._answers(question).get(folder.name)
        if known and known[0] == stamp:
            if known[2]:
                raise RunFormatError(known[2].replace(_FOLDER, str(folder)), DAMAGED)
            with contextlib.suppress(msgspec.DecodeError):
                return cast("T", _decoder(cast("Hashable", schema)).decode(known[1]))
        try:
            answer = read(folder)
        except UnreadableError:  # of the machine, not of the run
            raise
        except RunFormatError as error:
            self._add(question, folder, (stamp, b"", error.message.replace(str(folder), _FOLDER)))
            raise
        self._add(question, folder, (stamp, msgspec.msgpack.encode(answer), ""))
        return answer

    def _add(self, question: str, folder: Path, answer: _Answer) -> None:
        self._answers(question)[folder.name] = answer
        self._new.append((question, folder.name, *answer))
        if len(self._new) >= _BATCH:
            self.save()

    def _answers(self, question: str) -> dict[str, _Answer]:
        if question not in self._known:
            self._known[question] = self._read(question) if self._path else {}
            self._has_others |= not self._known[question].keys() <= self._runs
        return self._known[question]

    def _read(self, question: str) -> dict[str, _Answer]:
        answers: dict[str, _Answer] = {}

        def read(file: sqlite3.Connection) -> None:
            if _version(file) == _own_version():
                rows = file.execute("SELECT run, stamp, answer, damage FROM answers WHERE question = ?", (question,))
                answers.update({run: (stamp, answer, damage) for run, stamp, answer, damage in rows})

        self._with_file("ro", read)
        return answers

    def save(self) -> None:
        """Writes what was added, and forgets runs that are gone; does nothing where that cannot be."""
        new, self._new = self._new, []
        if self._path and (new or self._has_others):
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
            self._with_file("rwc", lambda file: self._write(file, new))

    def _write(self, file: sqlite3.Connection, new: Sequence[tuple[str, str, str, bytes, str]]) -> None:
        file.execute("PRAGMA synchronous = OFF")  # one that a power failure damages is made again
        file.execute("BEGIN IMMEDIATE")
        if _version(file) != _own_version():
            _remove_unused(index_folder())
            file.execute("DROP TABLE IF EXISTS answers")
            file.execute(_TABLE)
            file.execute(f"PRAGMA user_version = {_own_version()}")
        if self._has_others:
            gone = "DELETE FROM answers WHERE run NOT IN (SELECT value FROM json_each(?))"
            file.execute(gone, (json.dumps(sorted(self._runs)),))
            self._has_others = False
        file.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", new)
        file.execute("COMMIT")

    def _with_file(self, mode: str, work: Callable[[sqlite3.Connection], None]) -> None:
        """Does something with the file, or nothing where it cannot be done; a damaged file is removed."""
        assert self._path
        address = f"file:{quote(str(self._path))}?mode={mode}"
        try:
            file = sqlite3.connect(address, timeout=_LOCK_TIMEOUT_S, isolation_level=None, uri=True)
            with contextlib.closing(file):
                work(file)
        except sqlite3.OperationalError:  # it is not there, may not be written, or another process writes
            return
        except (sqlite3.DatabaseError, UnicodeError, TypeError):
            for name in (self._path.name, f"{self._path.name}-journal"):
                with contextlib.suppress(OSError):
                    self._path.with_name(name).unlink()


@cache
def _decoder(schema: Hashable) -> msgspec.msgpack.Decoder[object]:
    return msgspec.msgpack.Decoder(schema)


def _version(file: sqlite3.Connection) -> int:
    return int(file.execute("PRAGMA user_version").fetchone()[0])


@cache
def _own_version() -> int:
    """Of the schema and of the code that answers: a number of 31 bits, never 0, which a new file has."""
    state = [str(SCHEMA)]
    for path, folders, names in os.walk(_PACKAGE):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        state += [f"{name} {_stamp(f'{path}/{name}')}" for name in sorted(names) if name.endswith(".py")]
    return zlib.crc32("\n".join(state).encode()) & 0x7FFFFFFF or 1


def _remove_unused(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for each in folder.iterdir():
            if time.time() - each.stat().st_mtime > _UNUSED_S:
                each.unlink()
