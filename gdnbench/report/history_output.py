"""A kernel's history on stdout: as tables, as JSON, or as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from gdnbench.compare.changes import card_of
from gdnbench.compare.history import History, Row
from gdnbench.model import Status
from gdnbench.places import out_option
from gdnbench.report.console import data_console, print_csv, print_json, print_next
from gdnbench.report.history_chart import print_history_chart
from gdnbench.report.history_table import RUN_ID_START, print_history, print_history_legend, short_id
from gdnbench.report.terminal import OptionalCharts


def print_histories(histories: Sequence[History], results: Path, *, json: bool, csv: bool) -> None:
    """Prints the histories of one kernel, a table for each shape, of the runs in a folder."""
    if json:
        print_json({"histories": [_document(history) for history in histories]})
    elif csv:
        print_csv([{"anchor": history.anchor, **_flat(history, row)} for history in histories for row in history.rows])
    else:
        _print_tables(data_console(), histories, results)


def _print_tables(console: Console, histories: Sequence[History], results: Path) -> None:
    charts = OptionalCharts()
    for history in histories:
        print_history(console, history)
        with charts:
            print_history_chart(console, history)
    console.print()
    print_history_legend(console, histories[-1])
    print_next(console, ["gdnbench", *_next(histories), *out_option(results)])


def _next(histories: Sequence[History]) -> tuple[str, ...]:
    """The two runs of the largest step, or what would make a step visible."""
    for history in histories:
        row = history.largest_step
        if row:
            return _compare(history, row.since, row.run.source.name)
    names = [row.run.source.name for row in histories[0].rows if row.figure.status is Status.OK]
    if len(names) > 1:
        return _compare(histories[0], names[0], names[-1])
    return "run", "--kernel", histories[0].label


def _compare(history: History, before: str, after: str) -> tuple[str, ...]:
    """Names two runs by their starts, unless two began in the same second."""
    starts = [short_id(row) for row in history.rows]
    names = [name[:RUN_ID_START] if starts.count(name[:RUN_ID_START]) == 1 else name for name in (before, after)]
    return "compare", *names


def _document(history: History) -> dict[str, Any]:
    return {
        "label": history.label,
        "gpu": history.gpu,
        "shape": history.shape.axes(),
        "anchor": history.anchor,
        "margin": history.margin,
        "scatter": asdict(history.scatter),
        "rows": [
            {**_flat(history, row), "changes": {name: asdict(change) for name, change in row.changes.items()}}
            for row in history.rows
        ],
    }


def _flat(history: History, row: Row) -> dict[str, Any]:
    figure, source = row.figure, row.run.source
    speedup = row.change.speedup if row.change else None
    return {
        "timestamp": row.run.timestamp,
        "run_id": source.name,
        "commit": source.conditions.get("commit"),
        "dirty": row.run.dirty,
        "complete": row.run.complete,
        "gpu": source.gpu,
        "card": card_of(row.run),
        "label": figure.label,
        "params": str(figure.params),
        **history.shape.axes(),
        "status": figure.status.value,
        "reason": figure.reason,
        "time_us": figure.time_us,
        "time_lo_us": figure.low_us,
        "time_hi_us": figure.high_us,
        "ratio": row.ratio.estimate if row.ratio else None,
        "ratio_lo": row.ratio.low if row.ratio else None,
        "ratio_hi": row.ratio.high if row.ratio else None,
        "source_hash": figure.source_hash,
        "changed": " ".join(row.changes),
        "since": row.since,
        "speedup": speedup.estimate if speedup else None,
        "speedup_lo": speedup.low if speedup else None,
        "speedup_hi": speedup.high if speedup else None,
        "step": row.change.verdict.value if row.change and row.is_step else "",
    }
