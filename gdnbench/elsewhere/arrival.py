"""What a job wrote comes home: fetched as a tar stream, unpacked beside its place, and moved there in one step each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE

from gdnbench.elsewhere.archive import Limits, unpack
from gdnbench.elsewhere.host import Host, last_line, shell
from gdnbench.elsewhere.kept import run_id
from gdnbench.errors import MachineError, RunFormatError, UsageError
from gdnbench.places import PROFILES, RESULTS
from gdnbench.process.command import kill
from gdnbench.store.folder import PARTIAL
from gdnbench.store.info import NAME as INFO
from gdnbench.store.info import read_info

_SEND = 'cd "$1" && exec tar -czf - .'


@dataclass(frozen=True)
class Homes:
    """Where what comes home belongs.

    Attributes:
        results: the folder of runs.
        profiles: the folder of profiles.
        files: of single files that were asked for, by their name in the job's folder.
    """

    results: Path
    profiles: Path
    files: Mapping[str, Path] = field(default_factory=dict)


def fetch(host: Host, folder: str, homes: Homes, limits: Limits | None = None) -> list[Path]:
    """Fetches what a job left in its folder; gives the folders of runs that are new here.

    Args:
        host: where it is.
        folder: the job's, absolute, there.
        homes: where it belongs.
        limits: how much may come.

    Raises:
        MachineError: if it does not come whole, or cannot be written; nothing is changed here then.
        UsageError: if it is not to be trusted, or a whole run is here that a part would replace.
    """
    was_there = homes.results.exists()
    try:
        homes.results.mkdir(parents=True, exist_ok=True)
        place = tempfile.mkdtemp(prefix=".arriving-", dir=homes.results)
    except OSError as error:
        raise MachineError(f"cannot write to {homes.results}: {error}", "choose another folder with --out") from error
    try:
        _receive(host, folder, Path(place), limits)
        return _settle(Path(place), homes)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if not was_there:
            with suppress(OSError):  # there are runs in it now
                homes.results.rmdir()


def _receive(host: Host, folder: str, place: Path, limits: Limits | None) -> None:
    with tempfile.TemporaryFile() as errors:
        process = host.start(shell(_SEND, folder), stdout=PIPE, stderr=errors)
        assert process.stdout is not None
        try:
            unpack(process.stdout, place, limits)
            code = process.wait()
        finally:
            kill(process)
            process.stdout.close()
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if code:
        raise MachineError(f"what {host.name} has could not be fetched: {last_line(said)}", "fetch it again")


def _settle(place: Path, homes: Homes) -> list[Path]:
    """Moves what arrived to where it belongs."""
    runs: list[Path] = []
    for path in sorted(place.iterdir()):
        if path.name == RESULTS.name and path.is_dir():
            runs = _settle_folder(path, homes.results)
        elif path.name == PROFILES.name and path.is_dir():
            _settle_folder(path, homes.profiles)
        elif path.name in homes.files and path.is_file():
            shutil.move(path, homes.files[path.name])
    return runs


def _settle_folder(arrived: Path, home: Path) -> list[Path]:
    """A run is moved as one; of other folders, what is in them."""
    runs = []
    home.mkdir(parents=True, exist_ok=True)
    for path in sorted(arrived.iterdir()):
        if path.is_dir() and _is_run(path):
            runs.append(_settle_run(path, home))
        elif path.is_dir():
            runs += _settle_folder(path, home / path.name)
        elif not (home / path.name).exists():
            shutil.move(path, home / path.name)
    return runs


def _is_run(path: Path) -> bool:
    return (path / INFO).is_file() or bool(PARTIAL.fullmatch(path.name))


def _settle_run(arrived: Path, home: Path) -> Path:
    """Gives a run its name here; one that was stopped gives way to its continuation.

    Raises:
        UsageError: if another run has the name, or a whole run would be replaced by a part of one.
    """
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
    """Whether what arrived is the same run as what is here, and got at least as far."""
    try:
        new, old = read_info(arrived), read_info(present)
    except RunFormatError:
        return False
    return (new.run_id, new.timestamp, new.sources) == (old.run_id, old.timestamp, old.sources) and not old.complete
