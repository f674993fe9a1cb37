"""Trees of files as tar streams: what is sent, and what comes back, which is unpacked as if an enemy had packed it."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from gdnbench.errors import MachineError, UsageError

MOST_FILES = 20_000
MOST_BYTES = 4 << 30
MOST_SENT_BYTES = 256 << 20
"""Sources are text: a folder of kernels with more in it is a mistake."""

_CHUNK = 1 << 20
_LEFT_OUT = {"__pycache__", "node_modules"}


def files_under(folder: Path) -> dict[str, Path]:
    """The files of a tree by their path in it, in order; hidden ones and byte code are left out, links followed.

    Raises:
        UsageError: if it is too much to send, which no folder of sources is.
        MachineError: if it cannot be read.
    """
    found: dict[str, Path] = {}
    size = 0
    try:
        for path in _walk(folder, frozenset({folder.resolve()})):
            found[path.relative_to(folder).as_posix()] = path
            size += path.stat().st_size
            if len(found) > MOST_FILES or size > MOST_SENT_BYTES:
                raise UsageError(
                    f"{folder} has more than {MOST_FILES:,} files or {MOST_SENT_BYTES >> 20} MiB to send",
                    "keep what is not a kernel's source elsewhere",
                )
    except OSError as error:
        raise MachineError(f"{error.filename or folder} cannot be read: {error.strerror}", "check its owner") from error
    return dict(sorted(found.items()))


def _walk(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _LEFT_OUT or path.suffix == ".pyc":
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and (real := path.resolve()) not in above:  # a link to a folder above would never end
            yield from _walk(path, above | {real})


def hash_of(files: Mapping[str, Path]) -> str:
    """SHA-256 of the files' paths and contents, shortened."""
    digest = hashlib.sha256()
    for name, path in files.items():
        content = path.read_bytes()
        digest.update(f"{len(os.fsencode(name))} {len(content)} ".encode() + os.fsencode(name) + content)
    return digest.hexdigest()[:24]


def pack(files: Mapping[str, Path], stream: IO[bytes]) -> None:
    """Writes files as a compressed tar: contents and names, and nothing of owners, times or links."""
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=3) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in files.items():
            with path.open("rb") as content:
                member = tarfile.TarInfo(name)
                member.size, member.mode = path.stat().st_size, 0o644
                archive.addfile(member, content)


class Limits:
    """How much may still be unpacked.

    Args:
        files: how many files and folders.
        size_bytes: how much in all of them.
    """

    def __init__(self, files: int = MOST_FILES, size_bytes: int = MOST_BYTES) -> None:
        self._files = files
        self._bytes = size_bytes

    def count(self, member: tarfile.TarInfo) -> None:
        """Takes a member into account.

        Raises:
            UsageError: if it is one too many, or too large.
        """
        self._files -= 1
        self._bytes -= max(0, member.size)
        if self._files < 0:
            raise _refused(member, "there are too many files")
        if self._bytes < 0:
            raise _refused(member, "there is too much in it")


def unpack(stream: IO[bytes], folder: Path, limits: Limits | None = None) -> None:
    """Unpacks a compressed tar into an empty folder: ordinary files and folders, all of them inside.

    Raises:
        UsageError: for an absolute path, `..`, a link, a device, or more than the limits; what is there by then stays.
        MachineError: for a stream that is damaged or cut off, or a disk that is full.
    """
    left = limits or Limits()
    try:
        with tarfile.open(fileobj=stream, mode="r|gz") as archive:
            for member in archive:
                left.count(member)
                _unpack_member(archive, member, folder)
        while stream.read(_CHUNK):  # what sends it would otherwise be killed for writing on
            pass
    except (tarfile.TarError, EOFError) as error:
        raise MachineError(f"what came back is damaged or cut off: {error}", "fetch it again") from error
    except OSError as error:
        raise MachineError(f"what came back cannot be written: {error.strerror or error}", "make room") from error


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    path = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise _refused(member, "it is neither a file nor a folder")
    if path.is_absolute() or ".." in path.parts or "\0" in member.name or "\\" in member.name:
        raise _refused(member, "it would lie elsewhere")
    if filtered := getattr(tarfile, "data_filter", None):  # Python 3.11.4 and later
        try:
            filtered(member, str(folder))
        except tarfile.FilterError as error:
            raise _refused(member, str(error)) from error
    target = folder / path
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None
    with target.open("xb") as file:
        while chunk := content.read(_CHUNK):
            file.write(chunk)


def _refused(member: tarfile.TarInfo, why: str) -> UsageError:
    return UsageError(f"what came back has {member.name[:200]!r}, which is refused: {why}", "is the target yours?")
