"""Finds stored runs by what a user calls them; one that cannot be read is left out with a warning."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from gdnbench.errors import LeftOutWarning, RunFormatError, UnknownNameError, UnreadableError
from gdnbench.model import Role
from gdnbench.places import out_option
from gdnbench.store.folder import PARTIAL
from gdnbench.store.info import NAME, read_info
from gdnbench.store.measurements import read_measurements
from gdnbench.store.reading import unreadable

T = TypeVar("T")
_SHOWN = 3


@dataclass(frozen=True)
class Named:
    """The runs that a name may mean.

    Attributes:
        runs: their folders, newest first; at least one.
        is_one: whether the first of them is meant, whatever it holds: its folder, id, label or the start of its id was
            given. A GPU's or an op's name, or none, means the newest that serves.
    """

    runs: tuple[Path, ...]
    is_one: bool


def find_run(results: Path, wanted: str = "", *, serves: Callable[[Path], bool] | None = None) -> Path:
    """A stored run's folder.

    Args:
        results: where runs are.
        wanted: empty for the latest; else a folder, a run id, the start of one, the label, or a GPU's or an op's name.
        serves: which of several is meant, as `find_newest` takes it. By default the latest that compared kernels; where
            no name was given, the latest.

    Raises:
        UnknownNameError: if there is none.
        RunFormatError: if none can be read.
    """
    named = name_runs(results, wanted)
    return named.runs[0] if named.is_one else find_newest(named.runs, serves or (compares if wanted else is_whole))


def find_newest(runs: Sequence[Path], serves: Callable[[Path], bool]) -> Path:
    """The first of some runs that serves; where none does, the first that can be read.

    Args:
        runs: folders, newest first; at least one.
        serves: whether a run is what is asked for; it may raise RunFormatError for one that cannot be read.

    Raises:
        RunFormatError: if none can be read.
    """
    first = None
    for folder, does in readable(runs, lambda folder: (folder, serves(folder))):
        if does:
            return folder
        first = first or folder
    if first is None:
        serves(runs[0])  # says what is wrong with the newest
    return first or runs[0]


def name_runs(results: Path, wanted: str, *, stopped: bool = False) -> Named:
    """The runs that a name may mean.

    Args:
        results: where runs are.
        wanted: as `find_run` takes it.
        stopped: whether to look among runs whose process was killed, too.

    Raises:
        UnknownNameError: if there is none.
    """
    if wanted and _is_run(Path(wanted)):
        return Named((Path(wanted),), is_one=True)
    runs = _runs(results, stopped=stopped)
    if not wanted and runs:
        return Named(_newest_first(runs, runs), is_one=False)
    for matches in (
        [name for name in runs if name == wanted],
        [name for name in runs if _label_in(name) == wanted],  # `main` is not the start of `main-again`
        [name for name in runs if name.startswith(wanted)],
    ):
        if wanted and matches:
            return Named(_newest_first(runs, matches), is_one=True)
    matches = [name for name in runs if f"-{wanted.lower()}-" in f"{name}-"]
    if not matches:
        raise _unknown(results, wanted, runs)
    return Named(_newest_first(runs, matches), is_one=False)


def list_runs(results: Path, *, stopped: bool = False) -> list[Path]:
    """Every stored run's folder, oldest first; with `stopped`, also those whose process was killed."""
    return [path for _, path in sorted(_runs(results, stopped=stopped).items())]


def runs_beside(results: Path) -> list[Path]:
    """Every stored run's folder, newest first, for who can do without: of a folder that cannot be read, none."""
    try:
        return list_runs(results)[::-1]
    except UnreadableError as error:
        warnings.warn(error.message, LeftOutWarning, stacklevel=2)
        return []


def readable(folders: Iterable[Path], read: Callable[[Path], T]) -> Iterator[T]:
    """What is read of some runs' folders, without those that cannot be read: each is left out with a warning."""
    for folder in folders:
        try:
            yield read(folder)
        except RunFormatError as error:
            warnings.warn(f"{folder.name} is left out: {error.message}", LeftOutWarning, stacklevel=2)


def is_whole(folder: Path) -> bool:
    """That a run can be read.

    Raises:
        RunFormatError: if it cannot.
    """
    read_info(folder)
    read_measurements(folder)
    return True


def compares(folder: Path) -> bool:
    """Whether kernels were timed in a run to be compared: in a sweep it is params, in an ablation a kernel's parts.

    Raises:
        RunFormatError: if the run cannot be read.
    """
    info = read_info(folder)
    if info.swept or not info.on_gpu:
        return False
    return any(row.timing and row.role is Role.KERNEL for row in read_measurements(folder))


def _is_run(folder: Path) -> bool:
    """Whether there is a run in a folder; one that hides whether there is counts, and reading it will tell."""
    try:
        return (folder / NAME).is_file()
    except PermissionError:
        return True
    except (OSError, ValueError):  # a name that is too long, or no name
        return False


def _runs(results: Path, *, stopped: bool) -> dict[str, Path]:
    found = {}
    for path in _entries(results):
        partial = PARTIAL.fullmatch(path.name)
        if partial and stopped and _is_run(path):
            found[partial["run_id"]] = path
        elif not path.name.startswith(".") and _is_run(path):
            found[path.name] = path
    return found


def _entries(results: Path) -> list[Path]:
    try:
        with os.scandir(results) as entries:
            return [Path(entry.path) for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unreadable(results, error) from error


def _newest_first(runs: dict[str, Path], names: Iterable[str]) -> tuple[Path, ...]:
    return tuple(runs[name] for name in sorted(names, reverse=True))


def _label_in(run_id: str) -> str:
    """What stands behind date, time, GPU and op."""
    return "-".join(run_id.split("-")[4:])


def _unknown(results: Path, wanted: str, runs: Collection[str]) -> UnknownNameError:
    stopped = _runs(results, stopped=True).keys() - set(runs)
    meant = max((name for name in stopped if name.startswith(wanted)), default="") if wanted or not runs else ""
    if meant:
        words = ["gdnbench", "run", "--resume", meant, *out_option(results)]
        return UnknownNameError(f"{meant} was stopped before it was written", f"finish it: {shlex.join(words)}")
    if not runs:
        return UnknownNameError(f"no runs in {results}", "measure one: gdnbench run --kernel all")
    near = get_close_matches(wanted, runs, n=_SHOWN, cutoff=0.3) or sorted(runs)[-_SHOWN:]
    return UnknownNameError(f"no run {wanted} in {results}", f"there are {', '.join(near)}")
