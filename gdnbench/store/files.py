"""Reads and writes stored files, JSON documents and CSV tables, and a run's folder, hidden while it is measured.

A file that is there only as `NAME.gz` is unpacked as it is read: so the repository keeps the rounds of its evidence.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import Any, TypeVar

from gdnbench.codec import SchemaError, convert_cells, decode_json, unpack
from gdnbench.errors import MachineError, RunFormatError, ShapeError, UnreadableError, UsageError
from gdnbench.origin import is_file

T = TypeVar("T")
Row = dict[str, Any]

LONGEST_CELL = 2**30  # characters; a compiler may say more than the 128 KiB that Python's csv takes otherwise
MEASUREMENTS = "measurements.csv"
DAMAGED = "the run is damaged: restore it, or measure anew"


def read_file(path: Path) -> bytes:
    """A stored file's bytes; RunFormatError if it is missing or damaged, UnreadableError if it cannot be read."""
    packed = _packed(path)
    try:
        return _unpacked(packed) if is_file(packed) and not os.path.lexists(path) else path.read_bytes()
    except FileNotFoundError as error:
        raise RunFormatError(f"{path} is missing", "is this the folder of a gdnbench run?") from error
    except OSError as error:
        raise unreadable(path, error) from error


def is_stored(path: Path) -> bool:
    """Whether `read_file` finds something there."""
    return path.exists() or is_file(_packed(path))


def _packed(path: Path) -> Path:
    return Path(f"{path}.gz")


def _unpacked(path: Path) -> bytes:
    try:
        return unpack(path.read_bytes())
    except ValueError as error:
        raise RunFormatError(f"{path} cannot be unpacked: {error}", DAMAGED) from error


def unreadable(path: Path, error: OSError) -> UnreadableError:
    """The error for a file or folder that the machine does not hand over."""
    return UnreadableError(f"{path} cannot be read: {error.strerror or error}", f"see ls -ld {quote(str(path))}")


def read_document(path: Path, schema: type[T]) -> T:
    """A stored JSON file as its schema has it."""
    return decode_file(path, read_file(path), schema)


def decode_file(path: Path, text: bytes, schema: type[T]) -> T:
    """The text of a stored JSON file as its schema has it."""
    try:
        return decode_json(text, schema)
    except SchemaError as error:
        raise RunFormatError(f"{path}: {error}", DAMAGED) from error


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yields the path of a temporary file, which then replaces a file in a single step."""
    temporary = path.with_name(f"{path.name}.new")
    yield temporary
    temporary.replace(path)


def write_document(path: Path, document: Mapping[str, Any], indent: int = 2) -> None:
    """Writes a JSON file in one step; numbers have to be finite."""
    with replaced(path) as temporary:
        temporary.write_text(json.dumps(document, indent=indent, allow_nan=False, default=str) + "\n")


def field_names(kind: type) -> list[str]:
    """The names of a dataclass's fields: the columns of its table."""
    return [each.name for each in fields(kind)]


def write_dataclasses(path: Path, kind: type, rows: Sequence[Any]) -> None:
    """Writes rows of one dataclass as CSV, a column for each field."""
    write_table(path, [vars(row) for row in rows], field_names(kind))


def read_dataclasses(path: Path, kind: type[T]) -> list[T]:
    """The rows of a CSV file as a dataclass, with all of its columns; empty if there is no such file."""
    if not path.exists():
        return []
    return read_rows(path, field_names(kind), lambda cells: convert_cells(cells, kind))


def write_table(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Writes rows as CSV in one step; floats with six significant digits, missing values empty."""
    import numpy as np
    import pandas as pd

    # Without the conversion a whole number in a column with gaps is written as 8.0. It casts to see whether it may, and
    # an infinite bound of an interval is no reason for a warning.
    with np.errstate(invalid="ignore"):
        frame = pd.DataFrame(list(rows), columns=list(columns)).convert_dtypes()
    # A lone carriage return, as of a compiler's progress bar, would end the row: Python's csv does not quote it.
    frame = frame.replace(r"\r\n?", "\n", regex=True)
    with replaced(path) as temporary:
        frame.to_csv(temporary, index=False, float_format="%.6g")


def read_table(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV file as text; pandas would take seven times as long, and verbs read every run there is."""
    (_, header), *lines = _lines(path)
    missing = [column for column in columns if column not in header]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        lacking = f"{path} lacks the column {', '.join(missing[:3])}{more}"
        raise RunFormatError(lacking, "was it written by this gdnbench?")
    if twice := [column for column, count in Counter(header).items() if count > 1]:
        raise RunFormatError(f"{path} has the column {twice[0]} twice", DAMAGED)
    for number, (_, cells) in enumerate(lines, start=2):
        if len(cells) != len(header):
            many = f"has {len(cells)} cells of {len(header)}" if len(cells) > len(header) else "is cut off"
            raise RunFormatError(f"{path} line {number} {many}", DAMAGED)
    return [dict(zip(header, cells, strict=True)) for _, cells in lines]


def quick_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with their lines, of each the cells that are not empty; none is checked for its length."""
    (_, header), *lines = _lines(path)
    for line, cells in lines:
        yield line, {name: text for name, text in zip(header, cells, strict=False) if name and text}


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The header and the rows of a CSV file, each with the line that it ends on; empty lines are passed over."""
    content = read_file(path)
    if not content.endswith(b"\n"):
        raise RunFormatError(f"{path} is cut off", DAMAGED)
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        return [(reader.line_num, cells) for cells in reader if cells] or [(0, [])]
    except (csv.Error, UnicodeDecodeError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", DAMAGED) from error
    finally:
        csv.field_size_limit(before)


def read_rows(path: Path, columns: Iterable[str], of: Callable[[dict[str, str]], T]) -> list[T]:
    """The rows of a CSV file, made of cells by `of`, which raises ValueError or ShapeError where they are wrong."""
    rows = []
    for line, cells in enumerate(read_table(path, columns), start=2):
        try:
            rows.append(of(cells))
        except (ValueError, ShapeError) as error:
            raise RunFormatError(f"{path} line {line}, {error}", DAMAGED) from error
    return rows


MOST_LABEL = 80  # characters; file systems take 255 for the whole name
PARTIAL = re.compile(r"\.(?P<run_id>.+)\.partial")
JOURNAL = "journal.jsonl"


def run_id_of(now: datetime, gpu: str, op: str, label: str) -> str:
    """The run's name: `<UTC yyyymmdd-hhmmss>-<gpu>-<op>[-label]`, with the label reduced to `[A-Za-z0-9._-]`."""
    tail = re.sub(r"[^A-Za-z0-9._-]+", "-", label)[:MOST_LABEL].strip("-.")
    return f"{now:%Y%m%d-%H%M%S}-{gpu}-{op}" + (f"-{tail}" if tail else "")


@dataclass(frozen=True)
class RunFolder:
    """A run's folder while it is being filled: `path` is hidden, `.<run-id>.partial`."""

    run_id: str
    path: Path

    @classmethod
    def create(cls, results: Path, run_id: str) -> RunFolder:
        """Claims a name; a second run of the same second gets `-2`. MachineError if the folder cannot be written."""
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
        """Takes up a run that was stopped: a finished folder is hidden again. UsageError if it is being measured."""
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
    """Locks a run for this process until the process ends; the lock on a folder survives its renaming."""
    if lock_folder(path) is None:
        raise UsageError(f"{path} is being measured by another process", "wait for it to end")


def lock_folder(path: Path) -> int | None:
    """Locks a folder and returns the file descriptor that holds the lock, or None if another process has it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class Journal:
    """Appends lines and hands each to the operating system at once."""

    def __init__(self, folder: Path) -> None:
        path = folder / JOURNAL
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
    path = folder / JOURNAL
    if path.is_file():
        with path.open(encoding="utf-8") as lines:
            yield from (line.rstrip("\n") for line in lines if line.endswith("\n"))


def drop_journal(folder: Path) -> None:
    """Removes the journal of a run that is whole; its samples are in `samples.parquet`."""
    (folder / JOURNAL).unlink(missing_ok=True)
