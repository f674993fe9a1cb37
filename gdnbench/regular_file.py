"""Opens stored files: regular ones of a bounded size, and nothing else.

A file that was copied, fetched or unpacked may be a link to a device that never ends, or a pipe that nobody writes to.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 28
"""Of a stored file: the largest that verbs wrote, the samples of a long sweep, have a tenth of that."""

MOST_SOURCE_BYTES = 1 << 24
"""Of a file that people write: sources, declarations, tables."""

_CHUNK = 1 << 20


class NotRegularError(OSError):
    """What is there is a folder, a device, a pipe or a socket."""


class TooLargeError(OSError):
    """A file holds more than any file of its kind."""


def check_regular(path: Path, most_bytes: int = MOST_BYTES) -> None:
    """Refuses what is no regular file, or a larger one, before anything opens it: a pipe waits for who writes to it.

    Raises:
        NotRegularError: for a folder, a device, a pipe or a socket, or a link to one.
        TooLargeError: if it has more than `most_bytes`.
        OSError: if it is not there, or may not be looked up.
        ValueError: if no file can have the name.
    """
    _check(os.stat(path), path, most_bytes)  # noqa: PTH116 - Path.stat of a name with a null byte says less


def read_regular(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file, no more than `most_bytes` of which are ever held.

    Raises:
        OSError: as `check_regular`, and if it cannot be read.
        ValueError: as `check_regular`.
    """
    check_regular(path, most_bytes)
    # It may have been replaced since; some files of the kernel's are regular, and reading them would wait.
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
    """The text of a regular file in UTF-8, its lines ended by line feeds.

    Raises:
        OSError: as `read_regular`.
        ValueError: as `read_regular`; a UnicodeDecodeError if it is not UTF-8.
    """
    return io.StringIO(read_regular(path, most_bytes).decode("utf-8"), newline=None).read()


def unpack(content: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """What gzip packed; of more than `most_bytes`, so many and one.

    Raises:
        ValueError: if it is damaged or cut off.
    """
    import gzip  # on demand, like zlib: most verbs read nothing packed
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            return packed.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error


def _check(found: os.stat_result, path: Path, most_bytes: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise NotRegularError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise NotRegularError(errno.EINVAL, "it is a device, a pipe or a socket, and no file", str(path))
    if found.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: Path, most_bytes: int) -> TooLargeError:
    told = f"{most_bytes >> 20} MiB" if most_bytes >> 20 else f"{most_bytes:,} bytes"
    return TooLargeError(errno.EFBIG, f"it holds more than {told}, which no such file does", str(path))
