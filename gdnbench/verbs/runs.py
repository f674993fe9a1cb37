"""`gdnbench runs`: lists stored runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from gdnbench.origin import RESULTS
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import megabytes
from gdnbench.verbs.options import CsvOption, JsonOption, ResultsOption, run_of_all
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.store.overview import Overview


def runs(results: ResultsOption = RESULTS, json: JsonOption = False, csv: CsvOption = False) -> None:
    """List stored runs, newest first; also those that were stopped or cannot be read.

    A run is a folder: what is not wanted any more may be deleted as any other.
    """
    from gdnbench.machine.gpus import list_gpus
    from gdnbench.store.overview import State, overview

    stored = overview(results)
    cards = [gpu.uuid for gpu in list_gpus()] if any(run.state is State.STOPPED for run in stored) else []
    table = _table(stored, f"no runs in {results}")
    total = f"{plural(len(stored), 'run')}, {megabytes(sum(run.size_bytes for run in stored))}"
    lines: list[Block] = [table, Note(total, "legend")]
    print_answer(Answer([table], text=lambda _: lines, next=_next(stored, results, cards)), json=json, csv=csv)


def _table(runs: Sequence[Overview], empty: str) -> Table[Overview]:
    from gdnbench.store.overview import State

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
    from gdnbench.store.overview import State

    stopped = next((run for run in runs if run.state is State.STOPPED and run.card in {"", *cards}), None)
    if stopped:
        return command("run", "--resume", stopped.run_id, results=results)
    complete = next((run for run in runs if run.state is State.WHOLE), None)
    return command("show", complete.run_id, results=results) if complete else run_of_all(results=results)
