"""A kernel's history as people read it: a row for each run, with what changed and where the time stepped."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.compare.changes import ANCHOR, CARD, METHOD, PARAMS, SOURCE, Change, card_of
from gdnbench.compare.history import History, Row
from gdnbench.model import Status
from gdnbench.report.fitted import Fitted
from gdnbench.report.run_table import WIDE_ENOUGH_FOR_NOTES, percent
from gdnbench.stats import Verdict

WIDE_ENOUGH_FOR_CHANGES = 72  # columns; there, what changed is folded beside the ratio
RUN_ID_START = 15  # `20260102-030405`, which every verb takes for the run
_TELLING = ("driver", "triton", "cuda-bench")  # changes that a table has room for, beside those of the kernel


def print_history(console: Console, history: History) -> None:
    """Prints one kernel at one shape: its runs, oldest first, and below them the steps."""
    console.print()
    heading = Text(f"{history.label} {history.shape} on {history.gpu}", style="bold")
    if history.anchor:
        heading.append(f"  scatter from run to run {history.scatter.sd:.2%}", style="not bold dim")
    console.print(heading)
    table = _table(history, wide=console.width >= WIDE_ENOUGH_FOR_NOTES)
    narrow = console.width < WIDE_ENOUGH_FOR_CHANGES  # until there, what changed is folded
    console.print(Fitted(table, ("changed", "commit", "step", f"/ {_anchor(history)}") if narrow else ()))
    for row in history.rows:
        if row.is_step:
            console.print(_step_line(row))
        if row.figure.status is not Status.OK:
            first = (row.figure.reason.strip().splitlines() or [""])[0]
            console.print(Text(f"{short_id(row)}  {row.figure.status.value}: {first}", style="red"))


def print_history_legend(console: Console, history: History) -> None:
    """What the columns mean."""
    if not history.anchor:
        console.print("no run has a floor or a baseline to take ratios to: steps cannot be judged", style="dim")
        return
    lines = [
        f"/ {_anchor(history)}: time over that of {history.anchor} in the same rounds.",
        "All times of one process move together; the ratio cancels that.",
        "±: 95% interval over rounds, which does not hold the scatter from run to run.",
        f"STEP: it moved by over {history.margin:.2%} since the run before of the same method,",
        "by a 95% interval that holds the scatter from run to run.",
    ]
    console.print(Text("\n".join(lines), style="dim"))


def short_id(row: Row) -> str:
    """The start of the run's id, which names it."""
    return row.run.source.name[:RUN_ID_START]


def _table(history: History, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    if wide:
        table.add_column("date", no_wrap=True)
    table.add_column("run", no_wrap=True)
    table.add_column("commit", no_wrap=True)
    table.add_column("time µs", justify="right", no_wrap=True)
    table.add_column(f"/ {_anchor(history)}", justify="right", no_wrap=True)
    table.add_column("step", justify="right", no_wrap=True)
    if wide:
        table.add_column("card", no_wrap=True)
    table.add_column("changed", overflow="fold")
    for row in history.rows:
        cells = [Text(row.run.source.name if wide else short_id(row)), _commit(row), _time(row), _ratio(row)]
        cells += [_step(row)] + ([Text(card_of(row.run))] if wide else []) + [_changed(row)]
        table.add_row(*([Text(row.run.timestamp[:16].replace("T", " "))] if wide else []), *cells)
    return table


def _anchor(history: History) -> str:
    """The anchor's name without the op's, which the kernel's has too."""
    op = history.label.partition("-")[0]
    return history.anchor.removeprefix(f"{op}-") or "-"


def _commit(row: Row) -> Text:
    commit = row.run.source.conditions.get("commit", "")
    return Text(f"{commit[:7] or '-'}{'*' if commit and row.run.dirty else ''}")


def _time(row: Row) -> Text:
    figure = row.figure
    if figure.status is not Status.OK or math.isnan(figure.time_us):
        return Text(figure.status.value, style="red" if figure.status.is_failure else "yellow")
    half = (figure.high_us - figure.low_us) / 2 / figure.time_us
    return Text(f"{figure.time_us:.3f} ±{percent(half)}" if math.isfinite(half) else f"{figure.time_us:.3f}")


def _ratio(row: Row) -> Text:
    if row.ratio is None:
        return Text("")
    half = row.ratio.relative_half_width
    return Text(f"{row.ratio.estimate:.3f} ±{percent(half)}" if math.isfinite(half) else f"{row.ratio.estimate:.3f}")


def _step(row: Row) -> Text:
    if not row.is_step or row.change is None:
        return Text("")
    style = "bold green" if row.change.verdict is Verdict.FASTER else "bold red"
    return Text(f"{1 / row.change.speedup.estimate - 1:+.1%}", style=style)


def _changed(row: Row) -> Text:
    told = [] if row.run.complete else ["partial run"]
    told += [f"{whose} changed" for whose in [_whose_source(row)] if whose]
    told += [_params(row.changes[PARAMS])] if PARAMS in row.changes else []
    told += [f"{name} {row.changes[name].after}" for name in (METHOD, CARD, *_TELLING) if name in row.changes]
    return Text(", ".join(told))


def _whose_source(row: Row) -> str:
    kernel, anchor = SOURCE in row.changes, ANCHOR in row.changes
    return ("all sources" if kernel else "anchor's source") if anchor else ("source" if kernel else "")


def _params(change: Change) -> str:
    """The params that have other values: `BV=16`."""
    before = change.before.split()
    return " ".join(each for each in change.after.split() if each not in before) or "fewer params"


def _step_line(row: Row) -> Text:
    assert row.change
    now, speedup = row.change.verdict, row.change.speedup
    low, high = sorted((1 / speedup.low - 1, 1 / speedup.high - 1))
    told = f"STEP  {short_id(row)}  {abs(1 / speedup.estimate - 1):.1%} {now.value} than {row.since[:RUN_ID_START]}"
    text = Text(told, style="bold green" if now is Verdict.FASTER else "bold red")
    causes = [name for name in row.causes if name != CARD]
    but = " but the card" if CARD in row.causes else ""
    why = f"; changed: {', '.join(causes)}" if causes else f"; nothing that gdnbench knows of changed{but}"
    return text.append(f" ({low:+.1%} to {high:+.1%}){why}", style="not bold default")
