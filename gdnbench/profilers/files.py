"""Reads the files of profilers whole, up to a size that none of them reaches."""

from __future__ import annotations

import gzip
import io
import stat
import zlib
from pathlib import Path

from gdnbench.errors import ReportFormatError

MOST_BYTES = 1 << 29  # a trace of as many warps as `gdnbench proton` takes is 100 MB, unpacked
_GZIP = b"\x1f\x8b"


def check_file(path: Path, hint: str) -> None:
    """Refuses what is no file: a folder, or a pipe, which would be waited for.

    Args:
        path: the file.
        hint: what to do where it is none.

    Raises:
        ReportFormatError: if it is none, or is not there.
    """
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError as error:
        raise ReportFormatError(f"{path}: there is no such file", hint) from error
    except (OSError, ValueError) as error:  # a path may hold a null byte
        raise ReportFormatError(f"{path} cannot be read: {error}", hint) from error
    if not is_file:
        raise ReportFormatError(f"{path} is no file", hint)


def read_content(path: Path, hint: str) -> bytes:
    """The content of a file, unpacked where it is gzipped.

    Args:
        path: the file.
        hint: what to do where it cannot be read.

    Raises:
        ReportFormatError: if it is not there, is no file, cannot be read, is cut off or holds more than `MOST_BYTES`.
    """
    check_file(path, hint)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if content.startswith(_GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                content = packed.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ReportFormatError(f"{path} cannot be read: {error}", hint) from error
    if len(content) > MOST_BYTES:
        raise ReportFormatError(f"{path} holds more than {MOST_BYTES >> 20} MiB, which no profile does", hint)
    return content


def read_text(path: Path, hint: str) -> str:
    """The same as text.

    Raises:
        ReportFormatError: as `read_content`, and if it is not UTF-8.
    """
    try:
        return read_content(path, hint).decode()
    except UnicodeDecodeError as error:
        raise ReportFormatError(f"{path} cannot be read: {error}", hint) from error
