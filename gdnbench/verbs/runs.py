"""`gdnbench runs`: lists stored runs, deletes some, and cleans the build cache."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdnbench.origin import RESULTS
from gdnbench.render.output import print_answer, print_line
from gdnbench.render.table import Answer, Block, Column, Note, Table, command, plain_rows
from gdnbench.render.units import megabytes
from gdnbench.verbs.base import Verb, make_group
from gdnbench.verbs.options import CsvOption, JsonOption, ResultsOption, YesOption, complete_runs, confirm, run_of_all
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.store.overview import Overview


runs = make_group("runs", "List or delete stored runs; show or clean the build cache.")


@runs.callback()
def list_stored(
    ctx: typer.Context, results: ResultsOption = RESULTS, json: JsonOption = False, csv: CsvOption = False
) -> None:
    """List stored runs, newest first; also those that were stopped or cannot be read.

    `gdnbench runs delete` removes runs by name. `gdnbench runs cache` shows the
    build cache.
    """
    if ctx.invoked_subcommand:
        return
    from gdnbench.machine.gpus import list_gpus
    from gdnbench.store.overview import State, overview

    stored = overview(results)
    cards = [gpu.uuid for gpu in list_gpus()] if any(run.state is State.STOPPED for run in stored) else []
    table = _table(stored, f"no runs in {results}")
    lines: list[Block] = [table, Note(_total(stored), "legend")]
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


def _total(runs: Sequence[Overview]) -> str:
    return f"{plural(len(runs), 'run')}, {megabytes(sum(run.size_bytes for run in runs))}"


def _next(runs: Sequence[Overview], results: Path, cards: Collection[str]) -> tuple[str, ...]:
    from gdnbench.store.overview import State

    stopped = next((run for run in runs if run.state is State.STOPPED and run.card in {"", *cards}), None)
    if stopped:
        return command("run", "--resume", stopped.run_id, results=results)
    complete = next((run for run in runs if run.state is State.WHOLE), None)
    return command("show", complete.run_id, results=results) if complete else run_of_all(results=results)


@runs.command(cls=Verb)
def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Ids, or the starts of ids.", autocompletion=complete_runs)
    ],
    results: ResultsOption = RESULTS,
    yes: YesOption = False,
) -> None:
    """Delete runs with all their files, including stopped and damaged ones."""
    from gdnbench.store.overview import choose_named, delete_run, overview

    chosen = choose_named(overview(results), names, results)
    print_answer(Answer([replace(_table(chosen, ""), notes=[])]))
    confirm(f"{len(chosen)} of the runs in {results} are to be deleted, which cannot be undone?", yes=yes)
    for run in chosen:
        delete_run(run)
    print_line(f"deleted {_total(chosen)}")


cache = make_group("cache", "Show the build cache; clean it.")
runs.add_typer(cache)


@cache.callback()
def show_cache(ctx: typer.Context, json: JsonOption = False, csv: CsvOption = False) -> None:
    """Show what the build cache holds: compiled kernels, and kernels of other git revisions.

    It stays within 1 GiB: the least recently used is removed first. `gdnbench runs cache clean` empties it.
    """
    if ctx.invoked_subcommand:
        return
    from gdnbench.codegen.cache import cache_use

    use = cache_use()
    record = {**asdict(use), "folder": str(use.folder), "total_bytes": use.total_bytes}
    rows = [
        ("compiled kernels", str(use.builds), megabytes(use.build_bytes)),
        ("git revisions", str(use.revisions), megabytes(use.revision_bytes)),
        ("total", "", f"{megabytes(use.total_bytes)} of {megabytes(use.limit_bytes)}"),
    ]
    answer = Answer(
        text=lambda _: [Note(str(use.folder), whole=True), plain_rows(rows, right=(1, 2))],
        document=lambda: record,
        records=lambda: [record],
        next=command("runs", "cache", "clean"),
    )
    print_answer(answer, json=json, csv=csv)


@cache.command(cls=Verb)
def clean() -> None:
    """Remove compiled kernels and exported revisions; the next run compiles what it needs."""
    from gdnbench.codegen.cache import clean as remove

    print_line(f"freed {megabytes(remove())}")
