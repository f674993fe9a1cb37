"""Prints a comparison: warnings, a table per workload and the notes below it; or Markdown, JSON or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.compare.comparison import RegressionCheck, SourceComparison
from gdnbench.compare.grid import GridEntry, GridRow
from gdnbench.compare.ratio import is_no_kernel
from gdnbench.compare.run_change import TimeKind
from gdnbench.model.status import Role
from gdnbench.report.compare.json import comparison_document, comparison_rows
from gdnbench.report.compare.markdown import markdown
from gdnbench.report.compare.text import (
    expected_texts,
    has_time,
    key_heading,
    legend,
    mean_text,
    notes,
    outcome_lines,
    ratio_text,
    shown_keys,
    source_lines,
    time_heading,
    time_or_status,
    unit_of,
    verdict_text,
)
from gdnbench.report.console import (
    FittedTable,
    data_console,
    fits,
    message_console,
    plain_table,
    print_csv,
    print_json,
    print_next,
    print_text,
)
from gdnbench.report.units import TimeUnit

GROUPED = "shape"

_STYLES = {"FASTER": "bold green", "SLOWER": "bold red", "UNCLEAR": "yellow", "floor": "dim"}
_RATIO, _VERDICT, _EXPECTED, _RESIDUAL = "ratio", "verdict", "expected", "residual"


def print_comparison(
    side: SourceComparison,
    outcome: RegressionCheck | None,
    command: Sequence[str],
    *,
    json: bool = False,
    csv: bool = False,
    as_markdown: bool = False,
) -> None:
    """Prints a comparison on stdout, and the gate's outcome on stderr.

    `outcome` is None without a gate; `command` has the arguments that repeat the comparison as a table.
    """
    told = outcome_lines(outcome, side.settings.margin) if outcome else []
    if json:
        print_json(comparison_document(side, outcome))
    elif csv:
        print_csv(comparison_rows(side))
    elif as_markdown:
        print_text(markdown(side, told))
    else:
        console = data_console()
        _print_tables(console, side)
        gated = outcome or not any(ratio and ratio.comparison for ratio in side.columns[-1].ratios)
        more = ["--csv"] if gated else ["--fail-on", "slower:1%"]
        print_next(console, ["gdnbench", "compare", *command, *more])
    messages = message_console()
    for line in told:
        messages.print(line, markup=False, style="bold red" if line.startswith("regression") else "yellow")


def _print_tables(console: Console, side: SourceComparison) -> None:
    """Prints the tables; if the columns do not fit side by side, a table per column against the first."""
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


def _fits(console: Console, side: SourceComparison, columns: Sequence[int]) -> bool:
    return fits(console, _table(side, list(enumerate(side.grid.rows)), columns))


def _print_sections(console: Console, side: SourceComparison, columns: Sequence[int]) -> None:
    rows = list(enumerate(side.grid.rows))
    sections = _sections(side, rows)
    for heading, section in sections:
        console.print()
        if heading:
            console.print(Text(heading, style="bold"))
        table = _table(side, section, columns, means=len(sections) == 1)
        console.print(
            FittedTable(
                table, (_RESIDUAL, _EXPECTED, *(time_heading(side, column) for column in range(len(side.headings))))
            )
        )
    if len(sections) > 1:
        console.print()
        _print_means(console, side, columns)


def _sections(side: SourceComparison, rows: list[tuple[int, GridRow]]) -> list[tuple[str, list[tuple[int, GridRow]]]]:
    """Groups rows by workload if that is one of several keys; else returns all rows under no heading."""
    keys = side.grid.row_keys
    if GROUPED not in keys or len(shown_keys(side)) < 2:
        return [("", rows)]
    place = keys.index(GROUPED)
    rows = sorted(rows, key=lambda row: list(dict.fromkeys(r.names[place] for _, r in rows)).index(row[1].names[place]))
    return [(name, list(group)) for name, group in groupby(rows, key=lambda row: row[1].names[place])]


def _table(
    side: SourceComparison, rows: Sequence[tuple[int, GridRow]], columns: Sequence[int], *, means: bool = False
) -> Table:
    grouped = len(_sections(side, list(enumerate(side.grid.rows)))) > 1 or len(shown_keys(side)) > 1
    places = [i for i in shown_keys(side) if not (grouped and side.grid.row_keys[i] == GROUPED)]
    table = plain_table()
    for place in places:
        table.add_column(key_heading(side, place), overflow="fold")
    unit = unit_of(side)
    table.add_column(time_heading(side, 0), justify="right", overflow="fold")
    for column in columns:
        for heading in _headings(side, column):
            table.add_column(heading, justify="left" if heading == _VERDICT else "right", overflow="fold")
    for index, row in rows:
        names = [Text(row.names[place], style=_style(row)) for place in places]
        cells = [cell for column in columns for cell in _cells(side, index, row, column, unit)]
        table.add_row(*names, _time(row.entries[0], unit, side.shown_clock), *cells)
    if means:
        _add_means(table, side, columns, len(places))
    return table


def _headings(side: SourceComparison, column: int) -> list[str]:
    expected = [_EXPECTED, _RESIDUAL] if any(side.columns[column].expected) else []
    return [time_heading(side, column + 1), _RATIO, _VERDICT, *expected]


def _style(row: GridRow) -> str:
    first = row.entries[0]
    if first and is_no_kernel(first):
        return "dim"
    return "bold" if first and first.figure.role is Role.BASELINE else ""


def _cells(side: SourceComparison, index: int, row: GridRow, column: int, unit: TimeUnit) -> list[Text]:
    told = side.columns[column]
    ratio, expected = told.ratios[index], told.expected[index]
    verdict = verdict_text(row, ratio)
    cells = [
        _time(row.entries[column + 1], unit, side.shown_clock),
        Text(ratio_text(ratio)),
        Text(verdict, style=_STYLES.get(verdict, "")),
    ]
    if any(told.expected):
        cells += map(Text, expected_texts(expected))
    return cells


def _time(entry: GridEntry | None, unit: TimeUnit, kind: TimeKind) -> Text:
    told = time_or_status(entry, unit, kind)
    if entry is None or has_time(entry):
        return Text(told)
    return Text(told, style="red" if entry.figure.status.is_failure else "dim")


def _add_means(table: Table, side: SourceComparison, columns: Sequence[int], names: int) -> None:
    cells: list[Text] = []
    for column in columns:
        cells += [
            Text(""),
            Text(mean_text(side.columns[column]), style="bold"),
            *(Text("") for _ in _headings(side, column)[2:]),
        ]
    table.add_section()
    table.add_row(Text("geomean", style="bold"), *(Text("") for _ in range(names)), *cells)


def _print_means(console: Console, side: SourceComparison, columns: Sequence[int]) -> None:
    for column in columns:
        mean = side.columns[column].mean
        if mean:
            of = f"{side.headings[column + 1]} against {side.headings[0]}"
            told = f"geomean of {mean.cases} cases, {of}: {mean_text(side.columns[column])}"
            console.print(Text(told, style="bold"))
