"""What lies in the folder of runs: every stored run, those that were stopped, and those that cannot be read."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import NotRequired, TypedDict

from gdnbench.errors import MachineError, RunFormatError, UnknownNameError, UsageError
from gdnbench.store.find import list_runs
from gdnbench.store.folder import PARTIAL
from gdnbench.store.info import NAME as INFO
from gdnbench.store.measurements import NAME as MEASUREMENTS
from gdnbench.store.reading import read_document
from gdnbench.store.schema import CaseDocument, Name, Timestamp
from gdnbench.store.table import quick_rows


class State(StrEnum):
    """How a run stands."""

    WHOLE = "whole"
    STOPPED = "stopped"  # `gdnbench run --resume` finishes it
    MEASURING = "measuring"  # by a process that is alive
    DAMAGED = "damaged"


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One run in a line.

    Attributes:
        folder: where it is.
        run_id: its name.
        state: how it stands.
        timestamp: when it began, UTC, ISO 8601; empty for a damaged one, like all that follows but its size.
        gpu: the GPU's short name, or `cpu`.
        op: the op.
        label: the user's label.
        is_sweep: whether it swept params.
        cases: how many it has, controls included.
        timed: how many of them have a time.
        size_bytes: of its files.
        reason: why a damaged one cannot be read.
    """

    folder: Path
    run_id: str
    state: State
    timestamp: str = ""
    gpu: str = ""
    op: str = ""
    label: str = ""
    is_sweep: bool = False
    cases: int = 0
    timed: int = 0
    size_bytes: int = 0
    reason: str = ""


class _Info(TypedDict):
    run_id: Name
    timestamp: Timestamp
    complete: bool
    op: Name
    gpu: Name
    label: NotRequired[str]
    swept: NotRequired[dict[Name, list[str]]]
    cases: list[CaseDocument]


def overview(results: Path) -> list[Overview]:
    """Every run, newest first.

    Raises:
        UnreadableError: if the folder of runs cannot be read.
    """
    return [_overview(folder) for folder in reversed(list_runs(results, stopped=True))]


def choose_named(runs: Sequence[Overview], names: Sequence[str], results: Path) -> list[Overview]:
    """The runs whose ids, or starts of ids, are given; a start that several have is refused.

    Raises:
        UnknownNameError: if there is no such run.
        UsageError: if a name means several.
    """
    chosen: dict[str, Overview] = {}
    for name in names:
        found = [run for run in runs if run.run_id == name] or [run for run in runs if run.run_id.startswith(name)]
        if not found:
            near = get_close_matches(name, [run.run_id for run in runs], n=3, cutoff=0.3)
            hint = f"did you mean {' or '.join(near)}?" if near else "gdnbench runs lists them"
            raise UnknownNameError(f"no run {name} in {results}", hint)
        if len(found) > 1:
            told = ", ".join(run.run_id for run in found[:3])
            raise UsageError(f"{name} is the start of {len(found)} runs: {told}", "give more of the one that is meant")
        chosen[found[0].run_id] = found[0]
    return list(chosen.values())


def delete_run(run: Overview) -> None:
    """Removes a run's folder with all that is in it.

    Raises:
        UsageError: if another process is measuring it.
        MachineError: if it cannot be removed.
    """
    if _is_held(run.folder):
        raise UsageError(f"{run.run_id} is being measured by another process", "wait for it to end, or stop it")
    try:
        shutil.rmtree(run.folder)
    except OSError as error:
        raise MachineError(f"cannot delete {run.folder}: {error.strerror}", "see its owner and mode: ls -ld") from error


def _overview(folder: Path) -> Overview:
    partial = PARTIAL.fullmatch(folder.name)
    run_id, size = partial["run_id"] if partial else folder.name, sum(_sizes(folder))
    try:
        info = read_document(folder / INFO, _Info)
        timed = _count_timed(folder) if (folder / MEASUREMENTS).exists() else 0
    except (RunFormatError, OSError) as error:
        reason = error.message if isinstance(error, RunFormatError) else str(error)
        return Overview(folder=folder, run_id=run_id, state=State.DAMAGED, size_bytes=size, reason=reason)
    whole = State.WHOLE if info["complete"] else State.STOPPED
    return Overview(
        folder=folder,
        run_id=run_id,
        state=State.MEASURING if _is_held(folder) else whole,
        timestamp=info["timestamp"],
        gpu=info["gpu"],
        op=info["op"],
        label=info.get("label", ""),
        is_sweep=bool(info.get("swept")),
        cases=len(info["cases"]),
        timed=timed,
        size_bytes=size,
    )


def _count_timed(folder: Path) -> int:
    rows = quick_rows(folder / MEASUREMENTS)
    return sum("time_us" in cells and cells.get("timer") in {"nvbench", "cpu"} for _, cells in rows)


def _sizes(folder: Path) -> Iterator[int]:
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(path) / name).lstat().st_size
            except OSError:
                continue


def _is_held(folder: Path) -> bool:
    """Whether a living process has the run; it keeps a lock on the folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
