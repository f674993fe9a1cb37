"""Prints a comparison: warnings, a table per workload and the notes below it; or Markdown, JSON or CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.analyse.comparison import ColumnComparison, RegressionCheck, SourceComparison
from gdnbench.analyse.grid import GridEntry, GridRow
from gdnbench.analyse.ratio import is_no_kernel
from gdnbench.analyse.run_change import RunChange, RunPair, TimeKind, is_additive
from gdnbench.model.status import Role, Status
from gdnbench.render.console import (
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
from gdnbench.render.units import TimeUnit
from gdnbench.report.compare.run_change import workload_name
from gdnbench.report.compare.text import (
    expected_texts,
    has_time,
    key_heading,
    legend,
    markdown,
    mean_text,
    notes,
    outcome_lines,
    ratio_text,
    row_label,
    shown_keys,
    source_lines,
    time_heading,
    time_or_status,
    unit_of,
    verdict_text,
)
from gdnbench.stats.interval import Interval


def comparison_document(side: SourceComparison, outcome: RegressionCheck | None) -> dict[str, Any]:
    """Returns a comparison as one document; `outcome` is the gate's, or None without a gate."""
    return {
        "sources": [
            {
                "letter": letter,
                "name": source.name,
                "kind": source.kind.value,
                "gpu": source.gpu,
                "conditions": dict(source.conditions),
                "warnings": list(source.warnings),
            }
            for letter, source in zip(side.letters, side.sources, strict=True)
        ],
        "rows_by": list(side.grid.row_keys),
        "columns_by": list(side.grid.column_keys),
        "columns": [" ".join(column) for column in side.grid.columns],
        "margin": side.settings.margin,
        "confidence": side.settings.confidence,
        "raw": side.settings.raw,
        "warnings": list(side.warnings),
        "notes": notes(side),
        "cases": comparison_rows(side),
        "against_first": [_column(name, column) for name, column in zip(side.headings[1:], side.columns, strict=True)],
        "gate": _gate(side, outcome) if outcome else None,
    }


def comparison_rows(side: SourceComparison) -> list[dict[str, Any]]:
    """Returns a row per case and column after the first, and per case without a partner."""
    paired = [
        {**_names(side, row), **_pair(side, column, number, row, index)}
        for number, column in enumerate(side.columns, start=1)
        for index, row in enumerate(side.grid.rows)
    ]
    alone = [
        {**_names(side, row), **_side("b" if number else "a", " ".join(side.grid.columns[number]), entry)}
        for row in side.grid.alone
        for number, entry in enumerate(row.entries)
        if entry
    ]
    return paired + [{**dict.fromkeys(paired[0] if paired else ()), **row} for row in alone]


def _names(side: SourceComparison, row: GridRow) -> dict[str, Any]:
    return dict(zip(side.grid.row_keys, row.names, strict=True))


def _pair(side: SourceComparison, column: ColumnComparison, number: int, row: GridRow, index: int) -> dict[str, Any]:
    names = side.grid.columns
    ratio, expected = column.ratios[index], column.expected[index]
    comparison = ratio.comparison if ratio else None
    return {
        **_side("a", " ".join(names[0]), row.entries[0]),
        **_side("b", " ".join(names[number]), row.entries[number]),
        "ratio": ratio.value if ratio else None,
        "ratio_lo": comparison.speedup.low if comparison else None,
        "ratio_hi": comparison.speedup.high if comparison else None,
        "verdict": comparison.verdict.value if comparison else "",
        "judged_by": ratio.kind.value if ratio and comparison else "",
        "stream_ratio": ratio.by_kind.get(TimeKind.STREAM) if ratio else None,
        "kernel_ratio": ratio.by_kind.get(TimeKind.KERNEL) if ratio else None,
        "expected": 1 / expected.ratio if expected else None,
        "residual": 1 / expected.residual if expected else None,
        "bound": expected.bound if expected else "",
        "reason": expected.reason if expected else "",
    }


def _side(letter: str, name: str, entry: GridEntry | None) -> dict[str, Any]:
    timed = entry is not None and entry.figure.status is Status.OK
    return {
        letter: name,
        f"time_{letter}_us": entry.figure.time_us if entry and timed else None,
        f"kernel_{letter}_us": _kernel_us(entry) if timed else None,
        f"status_{letter}": entry.figure.status.value if entry else "",
        f"role_{letter}": entry.figure.role.value if entry else "",
    }


def _kernel_us(entry: GridEntry | None) -> float | None:
    kernel = entry.figure.kernel_time if entry else None
    return kernel.time_us if kernel else None


def _column(heading: str, column: ColumnComparison) -> dict[str, Any]:
    mean = column.mean
    return {
        "column": heading,
        "cases": mean.cases if mean else 0,
        "geomean": mean.value if mean else None,
        **_ends(mean.interval if mean else None),
        "runs": [_runs(one, other, runs) for one, other, runs in column.runs],
    }


def _runs(one: str, other: str, runs: RunPair) -> dict[str, Any]:
    """Returns how a run differs from another as a whole: its launch in microseconds, its kernel times as a ratio."""
    launch, kernel = _whole(runs.stream), _whole(runs.kernel)
    return {
        "from": one,
        "to": other,
        "same_model": runs.stream.same_model,
        "same_card": runs.stream.same_card,
        "launch_us": launch["moved"] if _is_launch(runs.stream) else None,
        "launch_se_us": launch["error"] if _is_launch(runs.stream) else None,
        "launch_us_by_workload": launch["by_workload"] if _is_launch(runs.stream) else {},
        "unchanged": launch["unchanged"],
        "unchanged_are": runs.stream.labels,
        "kernel_times_longer_by": math.expm1(kernel["moved"]) if kernel["unchanged"] else None,
        "kernel_times_unchanged": kernel["unchanged"],
    }


def _is_launch(change: RunChange) -> bool:
    return bool(change.unchanged) and is_additive(change.unchanged[0][1].timer)


def _whole(change: RunChange) -> dict[str, Any]:
    effect = change.effect
    return {
        "moved": effect.whole.mean if effect else None,
        "error": math.sqrt(effect.whole.variance) if effect else None,
        "by_workload": {workload_name(place): each.mean for place, each in effect.workloads.items()} if effect else {},
        "unchanged": effect.peers if effect else 0,
    }


def _ends(interval: Interval | None) -> dict[str, float | None]:
    return {"geomean_lo": interval.low if interval else None, "geomean_hi": interval.high if interval else None}


def _gate(side: SourceComparison, outcome: RegressionCheck) -> dict[str, Any]:
    groups = {"slower": outcome.slower, "failed": outcome.failed, "untold": outcome.undecided}
    return {"margin": side.settings.margin, **{name: [row_label(row) for row in rows] for name, rows in groups.items()}}


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
