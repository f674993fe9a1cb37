"""Prints the list of stored runs and of deleted ones, and the contents of the build cache."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.codegen.cache import CacheUse
from gdnbench.origin import out_option
from gdnbench.render.console import FittedTable, data_console, plain_table, print_csv, print_json, print_next
from gdnbench.render.units import megabytes
from gdnbench.store.overview import Overview, State
from gdnbench.wording import plural

_STYLES = {State.WHOLE: "", State.STOPPED: "yellow", State.MEASURING: "cyan", State.DAMAGED: "red"}


def print_runs(runs: Sequence[Overview], results: Path, *, cards: Collection[str] = (), json: bool, csv: bool) -> None:
    """Prints a row per run, newest first; `cards` has the GPUs' UUIDs, as a stopped run is finished on its own card."""
    if json:
        print_json([_document(run) for run in runs])
    elif csv:
        print_csv([_document(run) for run in runs])
    else:
        console = data_console()
        console.print(_table(runs) if runs else f"no runs in {results}", markup=False)
        _print_below(console, runs)
        print_next(console, _next(runs, results, cards))


def print_chosen(runs: Sequence[Overview]) -> None:
    """Prints the runs that are to be deleted."""
    console = data_console()
    console.print(_table(runs) if runs else "no run matches", markup=False)


def print_deleted(runs: Sequence[Overview]) -> None:
    """Prints how many runs were deleted, and the space that this freed."""
    data_console().print(f"deleted {_total(runs)}", markup=False)


def _next(runs: Sequence[Overview], results: Path, cards: Collection[str]) -> list[str]:
    out = out_option(results)
    here = {"", *cards}
    stopped = next((run for run in runs if run.state is State.STOPPED and run.card in here), None)
    if stopped:
        return ["gdnbench", "run", "--resume", stopped.run_id, *out]
    whole = next((run for run in runs if run.state is State.WHOLE), None)
    return ["gdnbench", "show", whole.run_id, *out] if whole else ["gdnbench", "run", "--kernel", "all", *out]


def _table(runs: Sequence[Overview]) -> FittedTable:
    table = plain_table()
    table.add_column("run", overflow="fold")
    table.add_column("what", no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("timed", justify="right", no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for run in runs:
        known = run.state is not State.DAMAGED
        table.add_row(
            Text(run.run_id),
            ("sweep" if run.is_sweep else "run") if known else "",
            str(run.cases) if known else "",
            str(run.timed) if known else "",
            f"{run.size_bytes / 1e6:.1f}",
            Text("" if run.state is State.WHOLE else run.state.value, style=_STYLES[run.state]),
        )
    return FittedTable(table, ("MB", "what", "cases", "timed"))


def _print_below(console: Console, runs: Sequence[Overview]) -> None:
    for run in runs:
        if run.state is State.DAMAGED:
            console.print(Text(f"damaged  {run.run_id}: {run.reason}", style="red"))
    console.print(Text(_total(runs), style="dim"))


def _total(runs: Sequence[Overview]) -> str:
    return f"{plural(len(runs), 'run')}, {megabytes(sum(run.size_bytes for run in runs))}"


def _document(run: Overview) -> dict[str, Any]:
    return {**asdict(run), "folder": str(run.folder), "state": run.state.value}


def print_cache(use: CacheUse, *, json: bool, csv: bool) -> None:
    """Prints the number and size of compiled kernels and exported git revisions."""
    document = {**asdict(use), "folder": str(use.folder), "total_bytes": use.total_bytes}
    if json:
        print_json(document)
    elif csv:
        print_csv([document])
    else:
        console = data_console()
        console.print(str(use.folder), markup=False, soft_wrap=True)
        table = plain_table(header=False)
        table.add_column("what")
        table.add_column("count", justify="right")
        table.add_column("size", justify="right", no_wrap=True)
        table.add_row("compiled kernels", str(use.builds), megabytes(use.build_bytes))
        table.add_row("git revisions", str(use.revisions), megabytes(use.revision_bytes))
        table.add_row("total", "", f"{megabytes(use.total_bytes)} of {megabytes(use.limit_bytes)}")
        console.print(table)
        print_next(console, ["gdnbench", "runs", "cache", "clean", "--older", "30d"])


def print_freed(freed_bytes: int) -> None:
    """Prints the bytes that cleaning freed."""
    data_console().print(f"freed {megabytes(freed_bytes)}", markup=False)
