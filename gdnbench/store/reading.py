"""Reads stored files: what the machine refuses is told from what is damaged."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TypeVar

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import RunFormatError, UnreadableError

T = TypeVar("T")

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
