"""`ledger.jsonl`: one event a line, only ever appended to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import Literal, TypedDict, TypeVar

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import MachineError, RunFormatError, UnknownNameError, UsageError
from gdnbench.ledger.entry import SCHEMA, Closed, LedgerEntry, Opened
from gdnbench.ledger.sources import unpack
from gdnbench.origin import is_file
from gdnbench.store.files import read_file

E = TypeVar("E", Opened, Closed)
Entries = dict[int, LedgerEntry]
"""By number, in the order in which they were opened."""

_MEND = "restore that line, or take it out: no line depends on one below it"
_PATIENCE_S = 30.0


class _Head(TypedDict):
    schema: int
    event: Literal["opened", "closed"]


def read_ledger(path: Path) -> Entries:
    """Every entry; none where there is no file yet.

    Raises:
        RunFormatError: with the line's number, if one is damaged or contradicts those above it.
        UnreadableError: if the file is there, and cannot be read.
    """
    if not os.path.lexists(path):
        return {}
    text = read_file(path)
    entries: Entries = {}
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            _take(entries, _decode(line))
        except SchemaError as error:
            raise RunFormatError(f"{path} line {number}: {error}", _MEND) from error
    if text and not text.endswith(b"\n"):
        last = text.count(b"\n") + 1
        raise RunFormatError(f"{path} line {last}: it is cut off, for no line feed ends it", _MEND)
    return entries


def append_event(path: Path, make: Callable[[Entries], E]) -> E:
    """Adds an event, and lets no other process add one between reading what is there and writing.

    Args:
        path: the ledger.
        make: gives the event, of what is in the ledger now; what it raises leaves the ledger as it is.

    Raises:
        RunFormatError: if the ledger is damaged.
        UsageError: if the event has a text that cannot be kept.
        MachineError: if it cannot be written, or another process holds it for long.
    """
    if os.path.lexists(path) and not is_file(path):  # nor is there to be a lock beside a device
        raise MachineError(f"{path} cannot be written: it is no plain file", "choose another file with --ledger")
    read_ledger(path)  # one that cannot be read is told at once: no lock is waited for
    with _locked(path):
        event = make(read_ledger(path))
        _append(path, _line(event))
    return event


def find_entry(entries: Entries, wanted: str, path: Path) -> LedgerEntry:
    """The entry of a number, as typed.

    Raises:
        UnknownNameError: if there is none.
    """
    number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 8 else 0
    if number not in entries:
        there = f"it has 1 to {max(entries)}" if entries else "it has none yet: see gdnbench ledger add --help"
        raise UnknownNameError(f"no entry {wanted} in {path}", there)
    return entries[number]


def _decode(line: bytes) -> Opened | Closed:
    head = decode_json(line, _Head)
    if head["schema"] != SCHEMA:
        raise SchemaError(f"it is of schema {head['schema']}, and this gdnbench reads {SCHEMA}")
    event = decode_json(line, Closed) if head["event"] == "closed" else decode_json(line, Opened)
    unpack(event.sources)
    return event


def _take(entries: Entries, event: Opened | Closed) -> None:
    before = entries.get(event.id)
    if isinstance(event, Opened):
        if before:
            raise SchemaError(f"entry {event.id} is opened a second time")
        if event.after and event.after not in entries:
            raise SchemaError(f"entry {event.id} follows {event.after}, which is not above it")
        if missing := [number for number in event.gates if number not in entries]:
            raise SchemaError(f"entry {event.id} depends on {missing[0]}, which is not above it")
        entries[event.id] = LedgerEntry(event)
        return
    if before is None:
        raise SchemaError(f"entry {event.id} is closed, and was never opened")
    if before.is_decided:
        raise SchemaError(f"entry {event.id} is closed again, and was {before.state} already")
    if len(event.findings) != len(before.opened.expectations):
        many = f"{len(event.findings)} findings for {len(before.opened.expectations)} expectations"
        raise SchemaError(f"entry {event.id} has {many}")
    entries[event.id] = LedgerEntry(before.opened, (*before.closings, event))


def _line(event: Opened | Closed) -> bytes:
    """The event as a line that can be read again.

    Raises:
        UsageError: if a text in it has control characters, is no Unicode or too long.
    """
    try:
        line = json.dumps(asdict(event), allow_nan=False, ensure_ascii=False).encode()
        _decode(line)
    except (SchemaError, UnicodeEncodeError) as error:
        told = str(error) if isinstance(error, SchemaError) else "a text is no Unicode"
        raise UsageError(f"the ledger cannot keep that: {told}", "give text in one line, not too long") from error
    return line + b"\n"


def _append(path: Path, line: bytes) -> None:
    """Adds a line whole, or leaves the file as it was: half a line would make the ledger unreadable."""
    try:
        with path.open("ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            try:
                _write_whole(file, line)
            except BaseException:
                file.truncate(size)  # a disk that is full lets a file be cut
                raise
    except OSError as error:
        raise _unwritable(path, error) from error


def _write_whole(file: FileIO, line: bytes) -> None:
    while line:  # a disk with room for a part takes that part, and only the next call says that it is full
        line = line[file.write(line) :]
    os.fsync(file.fileno())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        lock.acquire(timeout=_PATIENCE_S)
    except Timeout as error:
        raise MachineError(f"another process has held {path} for {_PATIENCE_S:.0f} s", "wait for it to end") from error
    except (OSError, ValueError) as error:  # ValueError: a path without a name
        raise _unwritable(path, error) from error
    try:
        yield
    finally:
        lock.release()


def _unwritable(path: Path, error: Exception) -> MachineError:
    told = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return MachineError(f"{path} cannot be written: {told}", "choose another file with --ledger")
