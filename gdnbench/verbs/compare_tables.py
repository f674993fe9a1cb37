"""What `compare` prints: a table per workload, or one of all rows in Markdown, and what lies below; JSON and CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from rich.text import Text

from gdnbench.analyse.comparison import ColumnComparison, RegressionCheck, SourceComparison
from gdnbench.analyse.grid import GridEntry, GridRow
from gdnbench.analyse.ratio import TimeRatio, is_no_kernel
from gdnbench.analyse.run_change import TimeKind
from gdnbench.model.status import Role, Status
from gdnbench.render.console import message_console
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, TextTable, command
from gdnbench.render.units import VERDICT_STYLES, TimeUnit, factor, plus_minus, time_unit
from gdnbench.stats.interval import Interval
from gdnbench.verbs.compare_notes import has_time, legend, notes, outcome_lines, row_label, source_lines, verdict_text

_GROUPED = "shape"
_Row = tuple[int, GridRow] | None
"""A row with its place in the grid; None for the row of means."""


def print_comparison(
    side: SourceComparison,
    outcome: RegressionCheck | None,
    words: Sequence[str],
    *,
    json: bool = False,
    csv: bool = False,
) -> None:
    """Prints a comparison, and on stderr the gate's outcome, None without one; `words` are to repeat it."""
    lines = outcome_lines(outcome, side.settings.margin) if outcome else []
    gated = outcome or not any(ratio and ratio.comparison for ratio in side.columns[-1].ratios)
    answer = Answer(
        records=lambda: comparison_rows(side),
        text=partial(_text, side),
        document=lambda: _document(side, outcome),
        markdown=lambda: _markdown(side, lines),
        next=command("compare", *words, *(["--csv"] if gated else ["--fail-on", "slower:1%"])),
    )
    print_answer(answer, json=json, csv=csv)
    if outcome:
        print_outcome(outcome, side.settings.margin)


def print_outcome(outcome: RegressionCheck, margin: float) -> None:
    """Prints on stderr what a gate found."""
    messages = message_console()
    for line in outcome_lines(outcome, margin):
        messages.print(line, markup=False, style="bold red" if line.startswith("regression") else "yellow")


def _text(side: SourceComparison, width: int) -> Iterator[Block]:
    """Yields the tables; if the columns do not fit side by side, a table per column against the first."""
    yield from (Note(line, "title") for line in source_lines(side))
    yield from (Note(warning, "warning") for warning in side.warnings)
    everything = range(len(side.columns))
    together = TextTable(Table(_columns(side, everything, hidden=_hidden(side)), _all_rows(side)))
    if len(everything) == 1 or together.width <= width:
        yield from _sections(side, everything)
    else:
        for column in everything:
            against = f"{side.headings[column + 1]} against {side.headings[0]}"
            yield from ("", Text(against, style="bold underline"))
            yield from _sections(side, [column])
    yield ""
    yield from map(Note, notes(side))
    yield Note("\n".join(legend(side)), "meaning")


def _sections(side: SourceComparison, columns: Sequence[int]) -> Iterator[Block]:
    """Yields a table per workload, if that is one of several keys, and the means below; else one table of all rows."""
    grouped = _by_workload(side)
    shown = _columns(side, columns, hidden=_hidden(side))
    for title, rows in grouped:
        yield ""
        yield Table(shown, [*rows, None] if len(grouped) == 1 else rows, title=title)
    if len(grouped) > 1:
        yield ""
        for column in columns:
            if mean := side.columns[column].mean:
                pair = f"{side.headings[column + 1]} against {side.headings[0]}"
                yield Note(f"geomean of {mean.cases} cases, {pair}: {_mean_text(side.columns[column])}", "title")


def _by_workload(side: SourceComparison) -> list[tuple[str, list[_Row]]]:
    if not _hidden(side):
        return [("", _all_rows(side))]
    place = side.grid.row_keys.index(_GROUPED)
    order = list(dict.fromkeys(row.names[place] for row in side.grid.rows))
    rows = sorted(enumerate(side.grid.rows), key=lambda row: order.index(row[1].names[place]))
    return [(name, list(group)) for name, group in groupby(rows, key=lambda row: row[1].names[place])]


def _hidden(side: SourceComparison) -> str:
    """Returns the key that titles of tables show, or an empty text if rows are not grouped."""
    return _GROUPED if _GROUPED in side.grid.row_keys and len(_shown_keys(side)) > 1 else ""


def _all_rows(side: SourceComparison) -> list[_Row]:
    return list(enumerate(side.grid.rows))


def _columns(side: SourceComparison, columns: Sequence[int], *, hidden: str = "") -> list[Column[_Row]]:
    """Returns the columns for people: the row's names, the first side's time, and of each other side what compares."""
    places = [place for place in _shown_keys(side) if side.grid.row_keys[place] != hidden]
    names = [_name(side, place, is_first=place == places[0]) for place in places]
    return [*names, _time(side, 0), *(each for column in columns for each in _compared(side, column))]


def _name(side: SourceComparison, place: int, *, is_first: bool) -> Column[_Row]:
    key = side.grid.row_keys[place]

    def show(row: _Row) -> Text:
        if row is None:
            return Text("geomean" if is_first else "", style="bold")
        return Text(row[1].names[place], style=_name_style(row[1]))

    return _shown("kernel" if key == "label" else key, show, right=False)


def _shown(heading: str, show: Callable[[_Row], Text], *, drop: int = 0, right: bool = True) -> Column[_Row]:
    return Column("", show, heading, drop=drop, right=right, fold=True)


def _shown_keys(side: SourceComparison) -> list[int]:
    """Returns positions of the row keys to show: kernel, workload, varying keys; params if nothing else differs."""
    grid = side.grid
    names = [row.names for row in grid.rows]
    vary = [i for i in range(len(grid.row_keys)) if len({name[i] for name in names}) > 1]
    shown = [i for i in range(len(grid.row_keys)) if i in vary or grid.row_keys[i] in {"label", "kernel", "shape"}]
    without = [i for i in shown if grid.row_keys[i] != "params"]
    return without if len({tuple(name[i] for i in without) for name in names}) == len(names) else shown


def _name_style(row: GridRow) -> str:
    first = row.entries[0]
    if first and is_no_kernel(first):
        return "dim"
    return "bold" if first and first.figure.role is Role.BASELINE else ""


def _time(side: SourceComparison, number: int) -> Column[_Row]:
    """Makes the column of a side's times; they are the first to go in a narrow terminal."""
    unit = _unit(side)
    whose = "kernel " if side.shown_clock is TimeKind.KERNEL else ""
    drop = len(side.headings) - number
    return _shown(
        f"{side.headings[number]} {whose}{unit.name}",
        lambda row: _time_text(row[1].entries[number], unit, side.shown_clock) if row else Text(""),
        drop=drop,
    )


def _unit(side: SourceComparison) -> TimeUnit:
    """Returns one unit for all times of a comparison, so that they can be read across."""
    entries = (entry for row in side.grid.rows for entry in row.entries if entry and has_time(entry))
    return time_unit(_shown_time_us(entry, side.shown_clock) for entry in entries)


def _shown_time_us(entry: GridEntry, kind: TimeKind) -> float:
    """Returns a case's time of the shown kind, or its stream time if it has no other."""
    kernel = entry.figure.kernel_time if kind is TimeKind.KERNEL else None
    return kernel.time_us if kernel else entry.figure.time_us


def _time_text(entry: GridEntry | None, unit: TimeUnit, kind: TimeKind) -> Text:
    """Returns a case's time, or its status without a time; empty for a missing case."""
    if entry is None:
        return Text("")
    if has_time(entry):
        return Text(unit.text(_shown_time_us(entry, kind)))
    return Text(entry.figure.status.value, style="red" if entry.figure.status.is_failure else "dim")


def _compared(side: SourceComparison, number: int) -> Iterator[Column[_Row]]:
    column = side.columns[number]

    def verdict(row: _Row) -> Text:
        text = verdict_text(row[1], column.ratios[row[0]]) if row else ""
        return Text(text, style="dim" if text == "floor" else VERDICT_STYLES.get(text.lower(), ""))

    yield _time(side, number + 1)
    yield _shown(
        "ratio", lambda row: Text(_ratio_text(column.ratios[row[0]])) if row else Text(_mean_text(column), style="bold")
    )
    yield _shown("verdict", verdict, right=False)


def _ratio_text(ratio: TimeRatio | None) -> str:
    return _interval_text(ratio.value, ratio.comparison.speedup if ratio.comparison else None) if ratio else ""


def _mean_text(column: ColumnComparison) -> str:
    return _interval_text(column.mean.value, column.mean.interval) if column.mean else ""


def _interval_text(value: float, interval: Interval | None) -> str:
    """Returns a ratio, with half of its interval if that is finite; empty for NaN."""
    if interval is None or not math.isfinite(interval.high):
        return factor(value)
    return factor(value) + plus_minus(interval.half_width / value)


def _markdown(side: SourceComparison, outcome: Sequence[str]) -> Iterator[Block]:
    """Yields one table of all rows, with the gate's `outcome` above it, a line each."""
    yield from (Note(f"{line[0].upper()}{line[1:]}", "title") for line in outcome)
    yield from map(Note, source_lines(side))
    yield from (Note(warning, "warning") for warning in side.warnings)
    yield Table(_columns(side, range(len(side.columns))), [*_all_rows(side), None])
    yield from map(Note, notes(side))
    yield Note("\n".join(legend(side)), "meaning")


def _document(side: SourceComparison, outcome: RegressionCheck | None) -> dict[str, Any]:
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
    ratio = column.ratios[index]
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
    interval = mean.interval if mean else None
    return {
        "column": heading,
        "cases": mean.cases if mean else 0,
        "geomean": mean.value if mean else None,
        "geomean_lo": interval.low if interval else None,
        "geomean_hi": interval.high if interval else None,
    }


def _gate(side: SourceComparison, outcome: RegressionCheck) -> dict[str, Any]:
    groups = {"slower": outcome.slower, "failed": outcome.failed, "untold": outcome.undecided}
    return {
        "margin": side.settings.margin,
        "judged": outcome.judged,
        **{name: [row_label(row) for row in rows] for name, rows in groups.items()},
    }
