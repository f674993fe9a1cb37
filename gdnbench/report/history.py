"""A kernel's history on stdout: a table for each workload with what changed and where the time stepped; JSON or CSV.

Its rows are of several runs, so a stream time, which is comparable inside its run alone, has no column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.analyse.conditions import ANCHOR, CARD, METHOD, PARAMS, SOURCE, ConditionChange, card_of, same_method
from gdnbench.analyse.history import History, HistoryRow
from gdnbench.model.status import Status
from gdnbench.origin import out_option
from gdnbench.render.console import FittedTable, data_console, plain_table, print_csv, print_json, print_next
from gdnbench.render.terminal_chart import OptionalCharts, TerminalChart
from gdnbench.render.units import plus_minus, time_unit
from gdnbench.stats.interval import Verdict

RUN_ID_START = 15  # characters, `20260102-030405`: enough to name a run on the command line
SHOWN = 30
"""Rows of a table: what follows from the rounds of two runs is worked out for each, and Rich takes its time, too."""

WIDE_ENOUGH_FOR_DATES = 120  # characters; there, the table has dates, whole ids and cards
WIDE_ENOUGH_FOR_CHANGES = 72  # characters; there, what changed is folded beside the ratio
_SHOWN = ("driver", "triton", "cuda-bench")  # changes that a table has room for, besides those of the kernel


def print_histories(histories: Sequence[History], results: Path, *, json: bool, csv: bool) -> None:
    """Prints the histories of one kernel, a table for each workload.

    Args:
        histories: one for each workload.
        results: the folder of the runs, for the next command.
        json: as a JSON document.
        csv: as rows of CSV, one for each workload and run.
    """
    if json:
        print_json({"histories": [_document(history) for history in histories]})
    elif csv:
        print_csv([{"anchor": history.anchor, **_flat(history, row)} for history in histories for row in history.rows])
    else:
        _print_tables(data_console(), histories, results)


def _print_tables(console: Console, histories: Sequence[History], results: Path) -> None:
    charts = OptionalCharts()
    for history in histories:
        _print_history(console, history)
        with charts:
            _print_chart(console, history)
    console.print()
    _print_legend(console, histories[-1])
    print_next(console, ["gdnbench", *_next(histories), *out_option(results)])


def _next(histories: Sequence[History]) -> tuple[str, ...]:
    """Compares the two runs of the largest step; without a step, the first run and the last."""
    for history in histories:
        row = history.largest_step
        if row:
            return _compare(history, row.since, row.run.name)
    names = [row.run.name for row in histories[0].rows if row.figure.status is Status.OK]
    if len(names) > 1:
        return _compare(histories[0], names[0], names[-1])
    return "run", "--kernel", histories[0].label, *histories[0].workload.options


def _compare(history: History, before: str, after: str) -> tuple[str, ...]:
    """Compares two runs, named by the starts of their ids unless several runs share one."""
    starts = [short_id(row) for row in history.rows]
    names = [name[:RUN_ID_START] if starts.count(name[:RUN_ID_START]) == 1 else name for name in (before, after)]
    return "compare", *names


def _print_history(console: Console, history: History) -> None:
    """Prints one kernel at one workload: its runs, oldest first, and below them the steps."""
    console.print()
    heading = Text(f"{history.label} {history.workload} on {history.gpu}", style="bold")
    if not math.isnan(history.scatter):
        heading.append(f"  scatter from run to run {history.scatter:.2%}", style="not bold dim")
    console.print(heading)
    table = _table(history, wide=console.width >= WIDE_ENOUGH_FOR_DATES)
    narrow = console.width < WIDE_ENOUGH_FOR_CHANGES  # until there, what changed is folded
    console.print(FittedTable(table, ("changed", "commit", "step", f"/ {_anchor(history)}") if narrow else ()))
    if history.left_out:
        shown = len(history.rows)
        told = f"the last {shown} of {shown + history.left_out} runs: --all shows the others, too"
        console.print(Text(told, style="dim"))
    for row in history.rows:
        if row.is_step:
            console.print(_step_line(row))
        if row.figure.status is not Status.OK:
            first = (row.figure.reason.strip().splitlines() or [""])[0]
            console.print(Text(f"{short_id(row)}  {row.figure.status.value}: {first}", style="red"))


def _print_legend(console: Console, history: History) -> None:
    """What the columns mean."""
    if not history.anchor:
        console.print("no run has a floor or a baseline to take ratios to: steps cannot be judged", style="dim")
        console.print("stream times compare inside one run alone: --csv has them", style="dim")
        return
    lines = [
        "kernel: kernel time (CUPTI), without the launch. Stream times compare inside",
        "one run alone: --csv has them.",
        f"/ {_anchor(history)}: time over that of {history.anchor} in the same rounds.",
        "±: 95% interval over rounds, which does not hold the scatter from run to run.",
        f"STEP: the time moved by over {history.margin:.2%} since the run before of the same method,",
        "less the launch that unchanged cases tell, by a 95% interval that holds the scatter;",
        "by kernel times (CUPTI) where both runs have them and their cards differ.",
    ]
    console.print(Text("\n".join(lines), style="dim"))


def _table(history: History, *, wide: bool) -> Table:
    table = plain_table()
    if wide:
        table.add_column("date", no_wrap=True)
    table.add_column("run", no_wrap=True)
    table.add_column("commit", no_wrap=True)
    kernel_us = [row.figure.kernel_time.time_us if row.figure.kernel_time else math.nan for row in history.rows]
    unit, has_times = time_unit(kernel_us), not all(map(math.isnan, kernel_us))
    if has_times:
        table.add_column(f"kernel {unit.name}", justify="right", no_wrap=True)
    table.add_column(f"/ {_anchor(history)}", justify="right", no_wrap=True)
    table.add_column("step", justify="right", no_wrap=True)
    if wide:
        table.add_column("card", no_wrap=True)
    table.add_column("changed", overflow="fold")
    for row, time_us in zip(history.rows, kernel_us, strict=True):
        cells = [Text(row.run.name if wide else short_id(row)), _commit(row)]
        cells += ([Text(unit.text(time_us))] if has_times else []) + [_ratio(row)]
        cells += [_step(row)] + ([Text(card_of(row.run))] if wide else []) + [_changed(row)]
        table.add_row(*([Text(row.run.timestamp[:16].replace("T", " "))] if wide else []), *cells)
    return table


def short_id(row: HistoryRow) -> str:
    """Returns the start of a run's id, which names it."""
    return row.run.name[:RUN_ID_START]


def _anchor(history: History) -> str:
    """The anchor's name without the op's, which the kernel's has too."""
    op = history.label.partition("-")[0]
    return history.anchor.removeprefix(f"{op}-") or "-"


def _commit(row: HistoryRow) -> Text:
    commit = row.run.conditions.get("commit", "")
    return Text(f"{commit[:7] or '-'}{'*' if commit and row.run.dirty else ''}")


def _ratio(row: HistoryRow) -> Text:
    status = row.figure.status
    if status is not Status.OK:
        return Text(status.value, style="red" if status.is_failure else "yellow")
    if row.ratio is None:
        return Text("")
    return Text(f"{row.ratio.estimate:.3f}{plus_minus(row.ratio.relative_half_width)}")


def _step(row: HistoryRow) -> Text:
    if not row.is_step or row.change is None:
        return Text("")
    style = "bold green" if row.change.verdict is Verdict.FASTER else "bold red"
    return Text(f"{1 / row.change.speedup.estimate - 1:+.1%}", style=style)


def _changed(row: HistoryRow) -> Text:
    told = [] if row.run.complete else ["partial run"]
    told += [f"{whose} changed" for whose in [_whose_source(row)] if whose]
    told += [_params(row.changes[PARAMS])] if PARAMS in row.changes else []
    told += [f"{name} {row.changes[name].after}" for name in (METHOD, CARD, *_SHOWN) if name in row.changes]
    return Text(", ".join(told))


def _whose_source(row: HistoryRow) -> str:
    kernel, anchor = SOURCE in row.changes, ANCHOR in row.changes
    return ("all sources" if kernel else "anchor's source") if anchor else ("source" if kernel else "")


def _params(change: ConditionChange) -> str:
    """The params that have other values: `BV=16`."""
    before = change.before.split()
    return " ".join(each for each in change.after.split() if each not in before) or "fewer params"


def _step_line(row: HistoryRow) -> Text:
    assert row.change
    now, speedup = row.change.verdict, row.change.speedup
    low, high = sorted((1 / speedup.low - 1, 1 / speedup.high - 1))
    told = f"STEP  {short_id(row)}  {abs(1 / speedup.estimate - 1):.1%} {now.value} than {row.since[:RUN_ID_START]}"
    text = Text(told, style="bold green" if now is Verdict.FASTER else "bold red")
    causes = [name for name in row.causes if name != CARD]
    but = " but the card" if CARD in row.causes else ""
    why = f"; changed: {', '.join(causes)}" if causes else f"; nothing that gdnbench knows of changed{but}"
    return text.append(f" ({low:+.1%} to {high:+.1%}){why}", style="not bold default")


def _document(history: History) -> dict[str, Any]:
    return {
        "label": history.label,
        "gpu": history.gpu,
        "shape": history.workload.cells,
        "anchor": history.anchor,
        "margin": history.margin,
        "scatter": history.scatter,
        "rows": [
            {**_flat(history, row), "changes": {name: asdict(change) for name, change in row.changes.items()}}
            for row in history.rows
        ],
    }


def _flat(history: History, row: HistoryRow) -> dict[str, Any]:
    figure = row.figure
    speedup = row.change.speedup if row.change else None
    return {
        "timestamp": row.run.timestamp,
        "run_id": row.run.name,
        "commit": row.run.conditions.get("commit"),
        "dirty": row.run.dirty,
        "complete": row.run.complete,
        "gpu": row.run.gpu,
        "card": card_of(row.run),
        "label": figure.label,
        "params": str(figure.params),
        **history.workload.cells,
        "status": figure.status.value,
        "reason": figure.reason,
        "time_us": figure.time_us,
        "time_lo_us": figure.low_us,
        "time_hi_us": figure.high_us,
        "kernel_us": figure.kernel_time.time_us if figure.kernel_time else None,
        "ratio": row.ratio.estimate if row.ratio else None,
        "ratio_lo": row.ratio.low if row.ratio else None,
        "ratio_hi": row.ratio.high if row.ratio else None,
        "source_hash": figure.source_hash,
        "changed": " ".join(row.changes),
        "since": row.since,
        "speedup": speedup.estimate if speedup else None,
        "speedup_lo": speedup.low if speedup else None,
        "speedup_hi": speedup.high if speedup else None,
        "judged_by": row.kind.value if row.change else "",
        "step": row.change.verdict.value if row.change and row.is_step else "",
    }


FEWEST_RUNS = 3


def _print_chart(console: Console, history: History) -> None:
    """Prints the chart of the runs that were measured as the last one was, where there are enough to have a course."""
    measured = [row for row in history.rows if row.ratio]
    rows = [row for row in measured if same_method(row.run, row.figure, measured[-1].run, measured[-1].figure)]
    if len(rows) < FEWEST_RUNS:
        return
    before = ", | before a step" if any(row.is_step for row in rows) else ""
    with TerminalChart(console, f"time / {history.anchor}, by run{before}") as chart:
        chart.line({place: row.ratio.estimate for place, row in enumerate(rows) if row.ratio})
        for place, row in enumerate(rows):
            if row.is_step:
                chart.upright(place - 0.5)
        chart.x_axis({place: short_id(row)[4:13] for place, row in enumerate(rows)})
