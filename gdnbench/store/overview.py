"""Lists the folder of runs: each run as whole, stopped or damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from gdnbench.errors import RunFormatError
from gdnbench.store.files import MEASUREMENTS, PARTIAL, is_stored, lock_folder, quick_rows, read_document
from gdnbench.store.find import list_runs
from gdnbench.store.info import INFO
from gdnbench.store.schema import CaseDocument, MachineDocument, Name, Timestamp


class State(StrEnum):
    """Whether a run is whole, stopped or damaged."""

    WHOLE = "whole"
    STOPPED = "stopped"  # `gdnbench run --resume` finishes it
    MEASURING = "measuring"  # by a process that is alive
    DAMAGED = "damaged"


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One run in a line; of a damaged one only its folder, size and the reason are known."""

    folder: Path
    run_id: str
    state: State
    timestamp: str = ""
    gpu: str = ""
    card: str = ""  # the GPU's UUID; empty for the CPU
    op: str = ""
    label: str = ""
    is_sweep: bool = False
    cases: int = 0  # controls included
    timed: int = 0  # of the cases
    size_bytes: int = 0
    reason: str = ""


class _Info(TypedDict):
    run_id: Name
    timestamp: Timestamp
    complete: bool
    op: Name
    gpu: Name
    label: NotRequired[str]
    machine: NotRequired[MachineDocument]
    swept: NotRequired[dict[Name, list[str]]]
    cases: list[CaseDocument]


def overview(results: Path) -> list[Overview]:
    """Every run, newest first."""
    return [_overview(folder) for folder in reversed(list_runs(results, stopped=True))]


def _overview(folder: Path) -> Overview:
    partial = PARTIAL.fullmatch(folder.name)
    run_id = partial["run_id"] if partial else folder.name
    try:
        facts = _facts(folder)
    except (RunFormatError, OSError) as error:
        reason = error.message if isinstance(error, RunFormatError) else str(error)
        size = sum(_sizes(folder))
        return Overview(folder=folder, run_id=run_id, state=State.DAMAGED, size_bytes=size, reason=reason)
    whole = State.WHOLE if facts.pop("complete") else State.STOPPED
    return Overview(folder=folder, run_id=run_id, state=State.MEASURING if _is_held(folder) else whole, **facts)


def _facts(folder: Path) -> dict[str, Any]:
    info = read_document(folder / INFO, _Info)
    rows = quick_rows(folder / MEASUREMENTS) if is_stored(folder / MEASUREMENTS) else ()
    return {
        "complete": info["complete"],
        "timestamp": info["timestamp"],
        "gpu": info["gpu"],
        "card": (info.get("machine", {}).get("gpu") or {}).get("uuid", ""),
        "op": info["op"],
        "label": info.get("label", ""),
        "is_sweep": bool(info.get("swept")),
        "cases": len(info["cases"]),
        "timed": sum("time_us" in cells and cells.get("timer") in {"nvbench", "cpu"} for _, cells in rows),
        "size_bytes": sum(_sizes(folder)),
    }


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
        descriptor = lock_folder(folder)
    except OSError:
        return False
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None
