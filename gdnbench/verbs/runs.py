"""`gdnbench runs`: lists the folder of runs, each as whole, stopped or damaged."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from rich.text import Text

from gdnbench.errors import RunFormatError
from gdnbench.machine.gpus import list_gpus
from gdnbench.origin import RESULTS
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import megabytes
from gdnbench.store.files import MEASUREMENTS, PARTIAL, is_stored, lock_folder, quick_rows, read_document
from gdnbench.store.find import list_runs
from gdnbench.store.info import INFO
from gdnbench.store.schema import CaseDocument, MachineDocument, Name, Timestamp
from gdnbench.verbs.options import CsvOption, JsonOption, ResultsOption, run_of_all
from gdnbench.wording import plural


def runs(results: ResultsOption = RESULTS, json: JsonOption = False, csv: CsvOption = False) -> None:
    """List stored runs, newest first; also those that were stopped or cannot be read.

    A run is a folder: what is not wanted any more may be deleted as any other.
    """
    stored = [_overview(folder) for folder in reversed(list_runs(results, stopped=True))]
    cards = [gpu.uuid for gpu in list_gpus()] if any(run.state is State.STOPPED for run in stored) else []
    table = _table(stored, f"no runs in {results}")
    total = f"{plural(len(stored), 'run')}, {megabytes(sum(run.size_bytes for run in stored))}"
    lines: list[Block] = [table, *([Note(total, "legend")] if stored else [])]
    print_answer(Answer([table], text=lambda _: lines, next=_next(stored, results, cards)), json=json, csv=csv)


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


def _table(runs: Sequence[Overview], empty: str) -> Table[Overview]:
    styles = {State.STOPPED: "yellow", State.MEASURING: "cyan", State.DAMAGED: "red"}
    readable = {run.run_id: run.state is not State.DAMAGED for run in runs}
    columns: list[Column[Overview]] = [
        Column("*", lambda run: {**vars(run), "folder": str(run.folder), "state": run.state}),
        Column("", lambda run: run.run_id, "run", fold=True),
        Column("", lambda run: ("sweep" if run.is_sweep else "run") if readable[run.run_id] else "", "what", drop=3),
        Column("", lambda run: run.cases if readable[run.run_id] else None, "cases", drop=2, right=True),
        Column("", lambda run: run.timed if readable[run.run_id] else None, "timed", drop=1, right=True),
        Column("", lambda run: f"{run.size_bytes / 1e6:.1f}", "MB", drop=4, right=True),
        Column("", lambda run: Text(run.state, styles[run.state]) if run.state in styles else "", "state"),
    ]
    damaged = [run for run in runs if run.state is State.DAMAGED]
    notes = [Note(f"damaged  {run.run_id}: {run.reason}", "failure") for run in damaged]
    return Table(columns, runs, notes=notes if runs else [Note(empty)])


def _next(runs: Sequence[Overview], results: Path, cards: Collection[str]) -> tuple[str, ...]:
    stopped = next((run for run in runs if run.state is State.STOPPED and run.card in {"", *cards}), None)
    if stopped:
        return command("run", "--resume", stopped.run_id, results=results)
    complete = next((run for run in runs if run.state is State.WHOLE), None)
    return command("show", complete.run_id, results=results) if complete else run_of_all(results=results)
