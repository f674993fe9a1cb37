"""Opens stored files: only regular ones of a bounded size.

A file that was copied, fetched or unpacked may be a link to an endless device, or a pipe without a writer.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 28
"""Size limit of a stored file: the largest that verbs wrote, the samples of a long sweep, have a tenth of it."""

MOST_SOURCE_BYTES = 1 << 24
"""Of a file that people write: sources, declarations, tables."""

_CHUNK = 1 << 20


class NotRegularError(OSError):
    """The path is a folder, a device, a pipe or a socket."""


class TooLargeError(OSError):
    """A file holds more than any file of its kind."""


def check_regular(path: Path | str, most_bytes: int = MOST_BYTES) -> None:
    """Checks type and size of a file without opening it: opening a pipe would wait for a writer.

    Raises NotRegularError for a folder, device, pipe or socket, or a link to one; TooLargeError above `most_bytes`;
    other OSErrors if it is missing or may not be looked up; ValueError for an impossible file name.
    """
    _check(os.stat(path), path, most_bytes)  # noqa: PTH116 - Path.stat of a name with a null byte says less


def read_regular(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Returns the bytes of a regular file, never holding more than `most_bytes`; raises as `check_regular` does."""
    check_regular(path, most_bytes)
    # It may have been replaced since the check; and reading some regular files of the kernel would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(os.fstat(descriptor), path, most_bytes)
        content = bytearray()
        while chunk := os.read(descriptor, _CHUNK):
            content += chunk
            if len(content) > most_bytes:
                raise _too_large(path, most_bytes)
    finally:
        os.close(descriptor)
    return bytes(content)


def read_regular_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Returns the UTF-8 text of a regular file with line feeds; raises as `read_regular`, and UnicodeDecodeError."""
    return io.StringIO(read_regular(path, most_bytes).decode("utf-8"), newline=None).read()


def unpack(content: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """What gzip packed; of more than `most_bytes`, so many and one. Raises ValueError if it is damaged or cut off."""
    import gzip  # on demand, like zlib: most verbs read nothing packed
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            return packed.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error


def _check(found: os.stat_result, path: Path | str, most_bytes: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise NotRegularError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise NotRegularError(errno.EINVAL, "it is a device, a pipe or a socket, and no file", str(path))
    if found.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: Path | str, most_bytes: int) -> TooLargeError:
    limit = f"{most_bytes >> 20} MiB" if most_bytes >> 20 else f"{most_bytes:,} bytes"
    return TooLargeError(errno.EFBIG, f"it holds more than {limit}, which no such file does", str(path))
