"""Reads and writes stored files: JSON documents and CSV tables.

A file that the machine refuses to hand over (`UnreadableError`) is told from one that is damaged (`RunFormatError`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import RunFormatError, ShapeError, UnreadableError

T = TypeVar("T")
Row = dict[str, Any]

DAMAGED = "the run is damaged: restore it, or measure anew"


def read_file(path: Path) -> bytes:
    """A stored file's bytes.

    Raises:
        RunFormatError: if there is no such file.
        UnreadableError: if there is, and it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise RunFormatError(f"{path} is missing", "is this the folder of a gdnbench run?") from error
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> UnreadableError:
    """A file or folder that is there, and that the machine does not hand over."""
    return UnreadableError(f"{path} cannot be read: {error.strerror or error}", f"see ls -ld {quote(str(path))}")


def read_document(path: Path, schema: type[T]) -> T:
    """A stored JSON file as its schema has it.

    Raises:
        RunFormatError: naming file and field, if it is missing or does not fit.
        UnreadableError: if it is there, and cannot be read.
    """
    return decode_file(path, read_file(path), schema)


def decode_file(path: Path, text: bytes, schema: type[T]) -> T:
    """The text of a stored JSON file as its schema has it.

    Raises:
        RunFormatError: naming file and field, if it does not fit.
    """
    try:
        return decode_json(text, schema)
    except SchemaError as error:
        raise RunFormatError(f"{path}: {error}", DAMAGED) from error


def write_table(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Writes rows as CSV in one step; floats with six significant digits, missing values empty."""
    import numpy as np
    import pandas as pd

    temporary = path.with_name(path.name + ".new")
    # Without the conversion a whole number in a column with gaps is written as 8.0. It casts to see whether it may, and
    # an infinite bound of an interval is no reason for a warning.
    with np.errstate(invalid="ignore"):
        frame = pd.DataFrame(list(rows), columns=list(columns)).convert_dtypes()
    # A lone carriage return, as of a compiler's progress bar, would end the row: Python's csv does not quote it.
    frame = frame.replace(r"\r\n?", "\n", regex=True)
    frame.to_csv(temporary, index=False, float_format="%.6g")
    temporary.replace(path)


def read_table(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV file as text.

    Raises:
        RunFormatError: if it is missing, no text, lacks one of `columns`, or was cut off.
        UnreadableError: if it is there, and cannot be read.
    """
    import pandas as pd

    content = read_file(path)
    if not content.endswith(b"\n"):
        raise RunFormatError(f"{path} is cut off", DAMAGED)
    try:
        frame = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False, na_filter=False)
    except (OSError, ValueError, OverflowError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", DAMAGED) from error
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        lacking = f"{path} lacks the column {', '.join(missing[:3])}{more}"
        raise RunFormatError(lacking, "was it written by this gdnbench?")
    rows = [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
    for line, row in enumerate(rows, start=2):
        if not all(isinstance(value, str) for value in row.values()):
            raise RunFormatError(f"{path} line {line} is cut off", DAMAGED)
    return rows


def quick_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with their lines, of each the cells that are not empty; without pandas, for quick verbs.

    Raises:
        RunFormatError: if it is missing, no text, or was cut off.
        UnreadableError: if it is there, and cannot be read.
    """
    content = read_file(path)
    if not content.endswith(b"\n"):
        raise RunFormatError(f"{path} is cut off", DAMAGED)
    try:
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
        for cells in rows:
            yield rows.line_num, {name: text for name, text in cells.items() if name and isinstance(text, str) and text}
    except (csv.Error, UnicodeDecodeError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", DAMAGED) from error


def read_rows(path: Path, columns: Iterable[str], of: Callable[[dict[str, str]], T]) -> list[T]:
    """The rows of a CSV file, each made by `of` of its cells; it raises ValueError or ShapeError where they do not fit.

    Raises:
        RunFormatError: naming file, line and field; and as `read_table`.
        UnreadableError: as `read_table`.
    """
    rows = []
    for line, cells in enumerate(read_table(path, columns), start=2):
        try:
            rows.append(of(cells))
        except (ValueError, ShapeError) as error:
            raise RunFormatError(f"{path} line {line}, {error}", DAMAGED) from error
    return rows
