"""Trees of files between here and a target, as compressed tar streams.

What comes back is unpacked as if an enemy had packed it, beside its place, and moved there in one step each.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from subprocess import PIPE
from typing import IO, Self, cast

from gdnbench.errors import LeftOutWarning, MachineError, RunFormatError, UsageError
from gdnbench.origin import CALIBRATIONS, PROFILES, RESULTS
from gdnbench.process.command import kill
from gdnbench.remote.host import Host, last_line, shell
from gdnbench.remote.job import run_id
from gdnbench.render.console import without_controls
from gdnbench.store.files import PARTIAL
from gdnbench.store.info import INFO, read_info
from gdnbench.verb_table import VERBS
from gdnbench.wording import first_of

MOST_FILES = 20_000
MOST_BYTES = 4 << 30
MOST_SENT_BYTES = 256 << 20
"""Sources are text: a folder of kernels with more in it is a mistake."""

MOST_HEADER_BYTES = 64 << 10
"""Size limit of one member's headers with their padding; a name has 4 KiB at most."""

MOST_DEEP = 64
"""Limit of nested folders: what removes them calls itself once for each."""

_CHUNK = 1 << 20
_DAMAGE = (
    *(tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError),
    *(ValueError, ArithmeticError, LookupError, RecursionError),  # of numbers and names that tarfile takes apart
)
_LEFT_OUT = {"__pycache__", "node_modules"}
_RUN_ID = re.compile(r"\d{8}-\d{6}-")
_SEND = 'cd "$1" && exec tar -czf - .'


def files_under(folder: Path) -> dict[str, Path]:
    """A tree's files by path, sorted, without hidden ones; UsageError if too much, MachineError if unreadable."""
    files: dict[str, Path] = {}
    size = 0
    try:
        for path in _walk(folder, frozenset({folder.resolve()})):
            files[path.relative_to(folder).as_posix()] = path
            size += path.stat().st_size
            if len(files) > MOST_FILES or size > MOST_SENT_BYTES:
                raise UsageError(
                    f"{folder} has more than {MOST_FILES:,} files or {MOST_SENT_BYTES >> 20} MiB to send",
                    "keep what is not a kernel's source in another folder",
                )
    except OSError as error:
        raise MachineError(f"{error.filename or folder} cannot be read: {error.strerror}", "check its owner") from error
    return dict(sorted(files.items()))


def _walk(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _LEFT_OUT or path.suffix == ".pyc":
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and (real := path.resolve()) not in above:  # a link to a folder above would never end
            yield from _walk(path, above | {real})


def hash_of(files: Mapping[str, Path]) -> str:
    """Returns the SHA-256 of the files' paths and contents, shortened."""
    digest = hashlib.sha256()
    for name, path in files.items():
        content = path.read_bytes()
        digest.update(f"{len(os.fsencode(name))} {len(content)} ".encode() + os.fsencode(name) + content)
    return digest.hexdigest()[:24]


def pack(files: Mapping[str, Path], stream: IO[bytes]) -> None:
    """Writes the names and contents of files, without owners, times or links."""
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=3) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in files.items():
            with path.open("rb") as content:
                member = tarfile.TarInfo(name)
                member.size, member.mode = path.stat().st_size, 0o644
                archive.addfile(member, content)


class _Bounded:
    """The unpacked stream of an archive, which gives no more than is allowed: a header can claim any length."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._packed = gzip.GzipFile(fileobj=stream, mode="rb")
        self._allowed = MOST_HEADER_BYTES

    def allow(self, size_bytes: int) -> None:
        """Allows so many further bytes, and a header of the next member."""
        self._allowed = size_bytes + MOST_HEADER_BYTES

    def read(self, size: int) -> bytes:
        """Returns the next bytes; raises UsageError for more than is allowed."""
        content = self._packed.read(min(size, _CHUNK))
        self._allowed -= len(content)
        if self._allowed < 0:
            raise UsageError("what came back is refused: there is too much in a header", "is the target yours?")
        return content

    def drain(self) -> None:
        """Reads to the end, where the checksum is; raises UsageError for more than a tar's padding."""
        self.allow(0)
        while self.read(_CHUNK):
            pass


class _Member(tarfile.TarInfo):
    """A member of an archive in which a damaged header is an error, where tarfile takes it for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Returns the next member; raises TarError if there is none, or it is damaged."""
        try:
            return super().fromtarfile(archive)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(error)) from error


def unpack(stream: IO[bytes], folder: Path) -> None:
    """Unpacks a compressed tar into an empty folder: ordinary files and folders, all of them inside.

    Raises UsageError for an absolute path, `..`, a link, a device, or more than `MOST_FILES` or `MOST_BYTES`, and
    leaves what was unpacked by then; MachineError for a stream that is damaged or cut off, or a disk that is full.
    """
    bounded, size = _Bounded(stream), 0
    try:
        with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r|", tarinfo=_Member) as archive:
            for number, member in enumerate(archive, start=1):
                size += max(0, member.size)
                if number > MOST_FILES or size > MOST_BYTES:
                    raise _refused(member, "there are too many files" if number > MOST_FILES else "there is too much")
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
        raise _refused(member, "it would lie outside the folder")
    if len(path.parts) > MOST_DEEP:
        raise _refused(member, "it lies too deep")
    target = folder / path
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None
    with target.open("xb") as file:
        shutil.copyfileobj(content, file, _CHUNK)


def _refused(member: tarfile.TarInfo, why: str) -> UsageError:
    return UsageError(f"what came back has {member.name[:200]!r}, which is refused: {why}", "is the target yours?")


@dataclass(frozen=True)
class OriginFolders:
    """Where a job's output belongs here: the folders of runs and profiles."""

    results: Path
    profiles: Path


@dataclass(frozen=True)
class ExpectedOutput:
    """What a verb may leave: runs, profiles of the `kernels` (globs; empty for all), or of a `doctor` that `measures`.

    The latter leaves calibrations, or what a GPU costs.
    """

    verb: str = "run"
    kernels: tuple[str, ...] = ()
    measures: bool = False

    def has_profile(self, profiler: str, folder: str) -> bool:
        """Whether a profiler's folder of a kernel, `decode-v4_WARPS=8`, is of one that was named."""
        if profiler not in VERBS[self.verb].profiles or (self.verb == "doctor" and not self.measures):
            return False
        names = [re.split("[:@]", term, maxsplit=1)[0] for term in self.kernels] or ["*"]
        return any(fnmatchcase(folder, f"{name}{end}") for name in names for end in ("", "_*", "@*"))


def fetch(host: Host, folder: str, homes: OriginFolders, expected: ExpectedOutput) -> list[Path]:
    """Fetches what a job left in its folder, an absolute path on the host; returns the new folders of runs.

    Leaves out what is not expected, with a `LeftOutWarning`. Raises MachineError if it does not arrive whole or cannot
    be written, and changes nothing then; UsageError if it is refused, or a part of a run would replace a whole one.
    """
    existed = homes.results.exists()
    try:
        homes.results.mkdir(parents=True, exist_ok=True)
        arrived = tempfile.mkdtemp(prefix=".arriving-", dir=homes.results)
    except OSError as error:
        raise MachineError(f"cannot write to {homes.results}: {error}", "choose another folder with --out") from error
    try:
        _receive(host, folder, Path(arrived))
        return _place(Path(arrived), homes, expected)
    finally:
        shutil.rmtree(arrived, ignore_errors=True)
        if not existed:
            with suppress(OSError):  # there are runs in it now
                homes.results.rmdir()


def _receive(host: Host, folder: str, arrived: Path) -> None:
    with tempfile.TemporaryFile() as errors:
        process = host.start(shell(_SEND, folder), stdout=PIPE, stderr=errors)
        assert process.stdout is not None
        try:
            unpack(process.stdout, arrived)
            code = process.wait()
        finally:
            kill(process)
            process.stdout.close()
        errors.seek(0)
        reason = last_line(errors.read().decode(errors="replace"))
    if code:
        raise MachineError(f"what {host.name} has could not be fetched: {reason}", "fetch it again")


def _place(arrived: Path, homes: OriginFolders, expected: ExpectedOutput) -> list[Path]:
    runs: list[Path] = []
    left: list[str] = []
    for path in _parts(arrived):
        name = str(path.relative_to(arrived))
        kind, *more = path.relative_to(arrived).parts
        if kind == RESULTS.name and more and _is_run(path):
            homes.results.mkdir(parents=True, exist_ok=True)
            runs.append(_place_run(path, homes.results))
        elif more == [CALIBRATIONS] and kind == RESULTS.name and path.is_dir() and expected.measures:
            _place_new(path, homes.results / CALIBRATIONS)
        elif kind == PROFILES.name and len(more) == 2 and path.is_dir() and expected.has_profile(*more):
            _place_new(path, homes.profiles.joinpath(*more))
        else:
            left.append(name)
    if left:
        names = first_of([without_controls(name)[:100] for name in left], 3)
        warnings.warn(f"files that were not requested are left out: {names}", LeftOutWarning, stacklevel=3)
    return runs


def _parts(arrived: Path) -> Iterator[Path]:
    """Yields what arrived one by one: runs, profilers' folders of kernels, and all that lies beside them."""
    depths = {RESULTS.name: 1, PROFILES.name: 2}
    waiting = [(path, depths.get(path.name, 0)) for path in sorted(arrived.iterdir())]
    while waiting:
        path, depth = waiting.pop(0)
        if depth and path.is_dir():
            waiting = [*((each, depth - 1) for each in sorted(path.iterdir())), *waiting]
        else:
            yield path


def _place_new(arrived: Path, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for path in sorted(arrived.iterdir()):
        if path.is_dir():
            _place_new(path, home / path.name)
        elif not (home / path.name).exists():
            shutil.move(path, home / path.name)


def _is_run(path: Path) -> bool:
    is_named = bool(_RUN_ID.match(run_id(path)))  # `published` and `calibration` are no runs, whatever lies in them
    return path.is_dir() and is_named and ((path / INFO).is_file() or bool(PARTIAL.fullmatch(path.name)))


def _place_run(arrived: Path, home: Path) -> Path:
    """Moves a run here, in place of the stopped one that it continues; UsageError if that is another run."""
    name = run_id(arrived)
    present = [path for path in (home / name, home / f".{name}.partial") if path.exists()]
    for path in present:
        if not _continues(arrived, path):
            raise UsageError(f"{path} is here, and is not a part of what came back", "choose another folder with --out")
    old = [path.rename(path.with_name(f".{name}.replaced")) for path in present]
    target = home / arrived.name
    shutil.move(arrived, target)
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return target


def _continues(arrived: Path, present: Path) -> bool:
    """Whether what arrived is the same run as the one here, which was stopped."""
    try:
        new, old = read_info(arrived), read_info(present)
    except RunFormatError:
        return False
    return (new.run_id, new.timestamp, new.sources) == (old.run_id, old.timestamp, old.sources) and not old.complete
