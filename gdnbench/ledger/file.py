"""`ledger.jsonl`: one event a line, only ever appended to, with the text of the kernel's files, which it gives back."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from difflib import unified_diff
from pathlib import Path, PurePosixPath
from typing import Literal, TypedDict, TypeVar

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.new import write_folder
from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import MachineError, RunFormatError, UnknownNameError, UsageError
from gdnbench.ledger.entry import SCHEMAS, Closed, LedgerEntry, Opened
from gdnbench.origin import is_file
from gdnbench.store.files import read_file

LARGEST_BYTES = 2**24  # of all files together, as text; a damaged or hostile entry must not fill the memory

Files = Mapping[str, str]
"""Texts by path: `v10/kernel.cu` in the kernel's folder, `gdn.cuh` of another header, as it is included."""


def read_sources(entry: CatalogEntry) -> dict[str, str]:
    """The files of the kernel's source hash; one that is not text, or cannot be read, is left out."""
    files = {}
    for name, path in entry.source_files():
        with suppress(OSError, UnicodeDecodeError):
            files[name] = path.read_bytes().decode()
    return files


def pack(files: Files) -> str:
    """The files as text of one line: JSON, deflated, in base64; empty if they are too large to be stored."""
    text = json.dumps(dict(files)).encode()
    return base64.b64encode(zlib.compress(text, 9)).decode() if len(text) <= LARGEST_BYTES else ""


def unpack(packed: str) -> dict[str, str]:
    """The inverse of `pack`; no files for an empty text, SchemaError for a damaged one."""
    if not packed:
        return {}
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(base64.b64decode(packed, validate=True), LARGEST_BYTES)
    except (zlib.error, ValueError) as error:
        raise SchemaError(f"sources: {error}") from error
    if not inflate.eof:
        raise SchemaError("sources: cut off, or larger than any that was stored")
    return decode_json(text, dict[str, str])


def difference(before: Files, after: Files, *, name: str) -> list[str]:
    """Lines of a unified diff of the files when the entry was opened and at another time, whose name is `name`."""
    lines: list[str] = []
    for path in sorted({*before, *after}):
        old, new = (files.get(path, "").splitlines() for files in (before, after))
        lines += unified_diff(old, new, f"then/{path}", f"{name}/{path}", lineterm="")
    return lines


@dataclass(frozen=True)
class Change:
    """A difference of sources: lines of a unified diff, and what qualifies it, or why there is none."""

    lines: tuple[str, ...] = ()
    note: str = ""


def change_of(entry: LedgerEntry, current: CatalogEntry | None) -> Change:
    """The changes since an entry was opened; `current` is its kernel as it is now, None if it is gone.

    RunFormatError is raised for sources that are damaged.
    """
    kernel = entry.opened.kernel
    try:
        before = unpack(entry.opened.sources)
        measured = unpack(entry.last.sources) if entry.last else {}
    except SchemaError as error:
        raise RunFormatError(f"entry {entry.opened.id}: {error}", MEND) from error
    now = read_sources(current) if current else {}
    if not before:
        return Change(note=f"no difference can be shown: {kernel} was too large to be stored")
    if measured:
        lines = difference(before, measured, name="measured")
        if not lines:
            return Change(note=f"{kernel} was measured as it was when the entry was opened")
        changed_since = f"{kernel} has changed since it was measured" if now and now != measured else ""
        return Change(tuple(lines), note=changed_since)
    if not now:
        return Change(note=f"no difference can be shown: {kernel} is not there any more")
    lines = difference(before, now, name="now")
    return Change(tuple(lines), note="" if lines else f"{kernel} is as it was when the entry was opened")


E = TypeVar("E", Opened, Closed)
Entries = dict[int, LedgerEntry]  # by number, in the order in which they were opened

MEND = "restore that line, or take it out: no line depends on one below it"
_LOCK_TIMEOUT_S = 30.0


class _Head(TypedDict):
    schema: int
    event: Literal["opened", "closed"]


def read_ledger(path: Path) -> Entries:
    """Every entry; none without a file. RunFormatError names the line that is damaged or contradicts others."""
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
            raise RunFormatError(f"{path} line {number}: {error}", MEND) from error
    if text and not text.endswith(b"\n"):
        last = text.count(b"\n") + 1
        raise RunFormatError(f"{path} line {last}: it is cut off, for no line feed ends it", MEND)
    return entries


def append_event(path: Path, make: Callable[[Entries], E]) -> E:
    """Adds what `make` returns for the present entries, while no other process may; leaves the ledger if it raises."""
    if os.path.lexists(path) and not is_file(path):  # nor is there to be a lock beside a device
        raise MachineError(f"{path} cannot be written: it is not a plain file", "choose another file with --ledger")
    read_ledger(path)  # one that cannot be read is told at once: no lock is waited for
    with _locked(path):
        entries = read_ledger(path)
        event = make(entries)
        line = _line(event)  # refuses what no ledger can keep
        same = [number for number, each in entries.items() if event.sources and each.opened.sources == event.sources]
        _append(path, _line(replace(event, sources=f"={same[0]}")) if same else line)
    return event


def find_entry(entries: Entries, wanted: str, path: Path) -> LedgerEntry:
    """The entry of a number, as typed; UnknownNameError if there is none."""
    number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 8 else 0
    if number not in entries:
        hint = f"it has 1 to {max(entries)}" if entries else "it has none yet: see gdnbench ledger add --help"
        raise UnknownNameError(f"no entry {wanted} in {path}", hint)
    return entries[number]


def _decode(line: bytes) -> Opened | Closed:
    head = decode_json(line, _Head)
    if head["schema"] not in SCHEMAS:
        raise SchemaError(f"it is of schema {head['schema']}, and this gdnbench reads {SCHEMAS[0]} to {SCHEMAS[-1]}")
    return decode_json(line, Closed) if head["event"] == "closed" else decode_json(line, Opened)


def _with_sources(entries: Entries, event: E) -> E:
    """The event with its sources, which may stand with an entry above it."""
    if not event.sources.startswith("="):
        return event
    has = next((each for number, each in entries.items() if event.sources == f"={number}"), None)
    if has is None:
        raise SchemaError(f"entry {event.id} has the sources of entry {event.sources[1:]!r}, which is not above it")
    return replace(event, sources=has.opened.sources)


def _take(entries: Entries, event: Opened | Closed) -> None:
    before = entries.get(event.id)
    if isinstance(event, Opened):
        if before:
            raise SchemaError(f"entry {event.id} is opened a second time")
        if event.after and event.after not in entries:
            raise SchemaError(f"entry {event.id} follows {event.after}, which is not above it")
        entries[event.id] = LedgerEntry(_with_sources(entries, event))
        return
    if before is None:
        raise SchemaError(f"entry {event.id} is closed, and was never opened")
    if before.is_decided:
        raise SchemaError(f"entry {event.id} is closed again, and was {before.state} already")
    if len(event.findings) != len(before.opened.expectations):
        many = f"{len(event.findings)} findings for {len(before.opened.expectations)} expectations"
        raise SchemaError(f"entry {event.id} has {many}")
    entries[event.id] = LedgerEntry(before.opened, (*before.closings, _with_sources(entries, event)))


def _line(event: Opened | Closed) -> bytes:
    try:
        line = json.dumps(asdict(event), allow_nan=False, ensure_ascii=False).encode()
        packed = _decode(line).sources
        unpack("" if packed.startswith("=") else packed)
    except (SchemaError, UnicodeEncodeError) as error:
        reason = str(error) if isinstance(error, SchemaError) else "a text is not Unicode"
        raise UsageError(f"the ledger cannot keep that: {reason}", "give text in one line, not too long") from error
    return line + b"\n"


def _append(path: Path, line: bytes) -> None:
    try:
        with path.open("ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            try:
                while line:  # a disk with room for a part takes that part, and the next call says that it is full
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(size)  # half a line would make the ledger unreadable
                raise
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        lock.acquire(timeout=_LOCK_TIMEOUT_S)
    except Timeout as error:
        raise MachineError(
            f"another process has held {path} for {_LOCK_TIMEOUT_S:.0f} s", "wait for it to end"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a path without a name
        raise _unwritable(path, error) from error
    try:
        yield
    finally:
        lock.release()


def _unwritable(path: Path, error: Exception) -> MachineError:
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return MachineError(f"{path} cannot be written: {reason}", "choose another file with --ledger")


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
