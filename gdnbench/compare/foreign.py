"""A file of another tool as a source of figures: NVBench's JSON, or CSV with a kernel and a time in each row."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from gdnbench.compare.figure import Source
from gdnbench.compare.foreign_csv import MUST, header_of, read_csv
from gdnbench.compare.foreign_nvbench import read_nvbench
from gdnbench.errors import RunFormatError, UsageError

_GZIP = b"\x1f\x8b"
_UNDERSTOOD = (
    "gdnbench reads NVBench's JSON (write it with --json or --jsonbin; .gz as well), CSV with the columns "
    f"{' and '.join(MUST)}, and the folders of its own runs"
)


def load_foreign(path: Path) -> Source:
    """Reads a file that another tool wrote.

    Args:
        path: NVBench's JSON or a CSV file, gzipped or not. What it holds is told by its first character and its name.

    Raises:
        UsageError: if there is no such file, or it is of neither format.
        RunFormatError: if it is of one and damaged.
    """
    text = _read_text(path)
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".json") or text.lstrip().startswith("{"):
        document = _parse_json(path, text)
        if not (isinstance(document, dict) and isinstance(document.get("benchmarks"), list)):
            raise UsageError(f"{path} is JSON, but not NVBench's: it has no list of benchmarks", _UNDERSTOOD)
        return read_nvbench(path, document)
    columns = header_of(text)
    if "run_id" in columns:
        raise UsageError(f"{path} is a part of a gdnbench run", f"give the run's folder: {path.parent}")
    if name.endswith(".csv") or any(column in columns for column in MUST):
        return read_csv(path, text)
    raise UsageError(f"{path} is neither NVBench's JSON nor CSV with figures", _UNDERSTOOD)


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", _UNDERSTOOD) from error
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise RunFormatError(f"{path} is damaged: {error}", "copy it anew from where it was written") from error
    try:
        return data.decode("utf-8-sig")  # spreadsheets put a byte order mark before CSV
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text: {error}", _UNDERSTOOD) from error


def _parse_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "was the program that wrote it stopped? run it anew, or copy the file anew"
        raise RunFormatError(f"{path} is cut off or is no JSON: {error}", hint) from error
