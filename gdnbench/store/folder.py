"""Where a run lives: hidden while it is measured, renamed when it is whole."""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from gdnbench.errors import MachineError, UnknownNameError, UsageError

MOST_LABEL = 80  # characters; file systems take 255 for the whole name
_PARTIAL = re.compile(r"\.(?P<run_id>.+)\.partial")


def run_id_of(now: datetime, gpu: str, op: str, label: str) -> str:
    """The run's name: `<UTC yyyymmdd-hhmmss>-<gpu>-<op>[-label]`, with the label reduced to `[A-Za-z0-9._-]`."""
    tail = re.sub(r"[^A-Za-z0-9._-]+", "-", label)[:MOST_LABEL].strip("-.")
    return f"{now:%Y%m%d-%H%M%S}-{gpu}-{op}" + (f"-{tail}" if tail else "")


@dataclass(frozen=True)
class RunFolder:
    """A run's folder while it is being filled.

    Attributes:
        run_id: the run's name.
        path: the hidden folder, `.<run-id>.partial`.
    """

    run_id: str
    path: Path

    @classmethod
    def create(cls, results: Path, run_id: str) -> RunFolder:
        """Claims a name; a second run of the same second gets `-2`.

        Raises:
            MachineError: if the results folder cannot be written.
        """
        for number in range(1, 1000):
            name = run_id if number == 1 else f"{run_id}-{number}"
            path = results / f".{name}.partial"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise MachineError(f"cannot write to {results}: {error}", "choose another folder with --out") from error
            if not (results / name).exists():
                _hold(path)
                return cls(name, path)
            path.rmdir()
        raise MachineError(f"{results} holds a thousand runs named {run_id}", "choose another folder with --out")

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """Takes up a run that was stopped: a finished folder is hidden again until it is whole.

        Raises:
            UsageError: if another process is measuring it.
        """
        _hold(path)
        hidden = _PARTIAL.fullmatch(path.name)
        if hidden:
            return cls(hidden["run_id"], path)
        target = path.with_name(f".{path.name}.partial")
        path.rename(target)
        return cls(path.name, target)

    def finish(self) -> Path:
        """Gives the folder its name; from now on others see it."""
        target = self.path.with_name(self.run_id)
        self.path.rename(target)
        return target


def _hold(path: Path) -> None:
    """Keeps a run to this process for as long as that lives; a lock on a folder outlasts its renaming.

    Raises:
        UsageError: if another process holds it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(f"{path} is being measured by another process", "wait for it to end") from error


def find_run(results: Path, wanted: str = "", *, hidden: bool = False) -> Path:
    """A stored run's folder.

    Args:
        results: where runs are.
        wanted: empty for the latest; else a folder, a run id, the start of one or its end, the label, or a GPU's name
            for its latest run.
        hidden: whether to look among runs whose process was killed, too.

    Raises:
        UnknownNameError: if there is none.
    """
    direct = Path(wanted)
    if wanted and (direct / "run.json").is_file():
        return direct
    runs = _runs(results, hidden=hidden)
    if not runs:
        raise UnknownNameError(f"no runs in {results}", "measure one: gdnbench run --kernel all")
    matches = (
        [name for name in runs if name == wanted]
        or [name for name in runs if wanted and _label_in(name) == wanted]  # `main` is not the start of `main-again`
        or [name for name in runs if name.startswith(wanted) or f"-{wanted.lower()}-" in f"{name}-"]
    )
    if not matches:
        near = get_close_matches(wanted, runs, n=3, cutoff=0.3)
        raise UnknownNameError(f"no run {wanted} in {results}", f"there are {', '.join(near or sorted(runs)[-3:])}")
    return runs[max(matches)]


def _label_in(run_id: str) -> str:
    """What stands behind date, time, GPU and op."""
    return "-".join(run_id.split("-")[4:])


def list_runs(results: Path, *, hidden: bool = False) -> list[Path]:
    """Every stored run's folder, oldest first; with `hidden`, also those whose process was killed."""
    return [path for _, path in sorted(_runs(results, hidden=hidden).items())]


def _runs(results: Path, *, hidden: bool) -> dict[str, Path]:
    if not results.is_dir():
        return {}
    found = {}
    with os.scandir(results) as entries:
        for entry in entries:
            partial = _PARTIAL.fullmatch(entry.name)
            path = Path(entry.path)
            if partial and hidden and (path / "run.json").is_file():
                found[partial["run_id"]] = path
            elif not entry.name.startswith(".") and (path / "run.json").is_file():
                found[entry.name] = path
    return found
