"""Trees of files as tar streams: what is sent, and what comes back, which is unpacked as if an enemy had packed it."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Self, cast

from gdnbench.errors import MachineError, UsageError

MOST_FILES = 20_000
MOST_BYTES = 4 << 30
MOST_SENT_BYTES = 256 << 20
"""Sources are text: a folder of kernels with more in it is a mistake."""

MOST_HEADER_BYTES = 64 << 10
"""Of one member's headers, with the padding beside them; a name has 4 KiB at most."""

MOST_DEEP = 64
"""Folders in one another: what removes them again calls itself once for each."""

_CHUNK = 1 << 20
_DAMAGE = (
    *(tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError),
    *(ValueError, ArithmeticError, LookupError, RecursionError),  # of numbers and names that tarfile takes apart
)
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


class _Bounded:
    """The unpacked stream of an archive, which gives no more than it is allowed to: a header can claim any length."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._packed = gzip.GzipFile(fileobj=stream, mode="rb")
        self._allowed = 0

    def allow(self, size_bytes: int) -> None:
        """So much may be read from here on, and a header of the next member."""
        self._allowed = size_bytes + MOST_HEADER_BYTES

    def read(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            UsageError: if it would be more than is allowed.
        """
        found = self._packed.read(min(size, _CHUNK))
        self._allowed -= len(found)
        if self._allowed < 0:
            raise UsageError("what came back is refused: there is too much in a header", "is the target yours?")
        return found

    def drain(self) -> None:
        """Reads to the end, where the checksum stands; nothing but zeros belongs there.

        Raises:
            UsageError: if there is more than a tar is padded with.
        """
        self.allow(0)
        while self.read(_CHUNK):
            pass


class _Member(tarfile.TarInfo):
    """A member of an archive in which a header that is none is not the end of it, as tarfile takes it."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """The next member.

        Raises:
            TarError: if there is none, or it is damaged.
        """
        try:
            return super().fromtarfile(archive)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(error)) from error


def unpack(stream: IO[bytes], folder: Path, limits: Limits | None = None) -> None:
    """Unpacks a compressed tar into an empty folder: ordinary files and folders, all of them inside.

    Raises:
        UsageError: for an absolute path, `..`, a link, a device, or more than the limits; what is there by then stays.
        MachineError: for a stream that is damaged or cut off, or a disk that is full.
    """
    left = limits or Limits()
    bounded = _Bounded(stream)
    bounded.allow(0)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                left.count(member)
                bounded.allow(member.size)
                _unpack_member(archive, member, folder)
                bounded.allow(0)
        bounded.drain()  # what sends it would otherwise be killed for writing on
    except _DAMAGE as error:
        raise MachineError(f"what came back is damaged or cut off: {error}", "fetch it again") from error
    except OSError as error:
        raise MachineError(f"what came back cannot be written: {error.strerror or error}", "make room") from error


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    path = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise _refused(member, "it is neither a file nor a folder")
    if path.is_absolute() or ".." in path.parts or "\0" in member.name or "\\" in member.name:
        raise _refused(member, "it would lie elsewhere")
    if len(path.parts) > MOST_DEEP:
        raise _refused(member, "it lies too deep")
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
