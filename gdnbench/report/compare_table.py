"""A comparison as people read it: warnings, a table for each shape, and below it what qualifies it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.compare.comparison import Column, SideBySide
from gdnbench.compare.join import Row
from gdnbench.compare.keys import Entry
from gdnbench.compare.ratio import is_floor
from gdnbench.model import Role, Status
from gdnbench.report.compare_notes import notes
from gdnbench.report.compare_text import (
    interval_text,
    legend,
    ratio_text,
    shown_keys,
    source_lines,
    verdict_text,
)
from gdnbench.report.console import fits
from gdnbench.report.fitted import Fitted
from gdnbench.report.run_table import time_text

GROUPED = "shape"

_STYLES = {"FASTER": "bold green", "SLOWER": "bold red", "UNCLEAR": "yellow", "floor": "dim"}
_RATIO, _VERDICT, _EXPECTED, _RESIDUAL = "ratio", "verdict", "expected", "residual"


def print_comparison(console: Console, side: SideBySide) -> None:
    """Prints it; where all columns do not fit beside each other, each is set against the first in turn."""
    for line in source_lines(side):
        console.print(Text(line, style="bold"))
    for warning in side.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    everything = list(range(len(side.columns)))
    if len(everything) == 1 or _fits(console, side, everything):
        _print_sections(console, side, everything)
    else:
        for column in everything:
            console.print()
            console.print(Text(f"{side.headings[column + 1]} against {side.headings[0]}", style="bold underline"))
            _print_sections(console, side, [column])
    console.print()
    for line in notes(side):
        console.print(Text(line))
    console.print(Text("\n".join(legend(side)), style="dim"))


def _fits(console: Console, side: SideBySide, columns: Sequence[int]) -> bool:
    return fits(console, _table(side, list(enumerate(side.grid.rows)), columns))


def _print_sections(console: Console, side: SideBySide, columns: Sequence[int]) -> None:
    rows = list(enumerate(side.grid.rows))
    sections = _sections(side, rows)
    for heading, section in sections:
        console.print()
        if heading:
            console.print(Text(heading, style="bold"))
        table = _table(side, section, columns, means=len(sections) == 1)
        console.print(Fitted(table, (_RESIDUAL, _EXPECTED, *(f"{heading} µs" for heading in side.headings))))
    if len(sections) > 1:
        console.print()
        _print_means(console, side, columns)


def _sections(side: SideBySide, rows: list[tuple[int, Row]]) -> list[tuple[str, list[tuple[int, Row]]]]:
    """Rows by shape, if that is a key of theirs and stands beside another."""
    keys = side.grid.row_keys
    if GROUPED not in keys or len(shown_keys(side)) < 2:
        return [("", rows)]
    place = keys.index(GROUPED)
    rows = sorted(rows, key=lambda row: list(dict.fromkeys(r.names[place] for _, r in rows)).index(row[1].names[place]))
    return [(name, list(group)) for name, group in groupby(rows, key=lambda row: row[1].names[place])]


def _table(side: SideBySide, rows: Sequence[tuple[int, Row]], columns: Sequence[int], *, means: bool = False) -> Table:
    grouped = len(_sections(side, list(enumerate(side.grid.rows)))) > 1 or len(shown_keys(side)) > 1
    places = [i for i in shown_keys(side) if not (grouped and side.grid.row_keys[i] == GROUPED)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place in places:
        table.add_column(
            "kernel" if side.grid.row_keys[place] == "label" else side.grid.row_keys[place], overflow="fold"
        )
    table.add_column(f"{side.headings[0]} µs", justify="right", overflow="fold")
    for column in columns:
        for heading in _headings(side, column):
            table.add_column(heading, justify="left" if heading == _VERDICT else "right", overflow="fold")
    for index, row in rows:
        names = [Text(row.names[place], style=_style(row)) for place in places]
        cells = [cell for column in columns for cell in _cells(side.columns[column], index, row, column)]
        table.add_row(*names, _time(row.entries[0]), *cells)
    if means:
        _add_means(table, side, columns, len(places))
    return table


def _headings(side: SideBySide, column: int) -> list[str]:
    expected = [_EXPECTED, _RESIDUAL] if any(side.columns[column].expected) else []
    return [f"{side.headings[column + 1]} µs", _RATIO, _VERDICT, *expected]


def _style(row: Row) -> str:
    first = row.entries[0]
    if first and is_floor(first):
        return "dim"
    return "bold" if first and first.figure.role is Role.BASELINE else ""


def _cells(told: Column, index: int, row: Row, column: int) -> list[Text]:
    ratio, expected = told.ratios[index], told.expected[index]
    verdict = verdict_text(row, ratio)
    cells = [_time(row.entries[column + 1]), Text(ratio_text(ratio)), Text(verdict, style=_STYLES.get(verdict, ""))]
    if any(told.expected):
        cells += [Text(f"{1 / expected.ratio:.3f}x" if expected else "")]
        cells += [Text(f"{1 / expected.residual:.3f}" if expected else "")]
    return cells


def _time(entry: Entry | None) -> Text:
    if entry is None:
        return Text("")
    figure = entry.figure
    if figure.status is not Status.OK or math.isnan(figure.time_us):
        return Text(figure.status.value, style="red" if figure.status.is_failure else "dim")
    return Text(time_text(figure.time_us))


def _add_means(table: Table, side: SideBySide, columns: Sequence[int], names: int) -> None:
    """The geometric means as the last row of a table that is the only one."""
    cells: list[Text] = []
    for column in columns:
        mean = side.columns[column].mean
        told = interval_text(mean.value, mean.interval) if mean else ""
        cells += [Text(""), Text(told, style="bold"), *(Text("") for _ in _headings(side, column)[2:])]
    table.add_section()
    table.add_row(Text("geomean", style="bold"), *(Text("") for _ in range(names)), *cells)


def _print_means(console: Console, side: SideBySide, columns: Sequence[int]) -> None:
    """The geometric means over all shapes, a line for each column."""
    for column in columns:
        mean = side.columns[column].mean
        if mean:
            of = f"{side.headings[column + 1]} against {side.headings[0]}"
            told = f"geomean of {mean.cases} cases, {of}: {interval_text(mean.value, mean.interval)}"
            console.print(Text(told, style="bold"))
