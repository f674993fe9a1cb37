"""A comparison on stdout: as a table, Markdown, JSON, or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdnbench.compare.comparison import Column, SideBySide
from gdnbench.compare.gate import Outcome
from gdnbench.compare.join import Row
from gdnbench.compare.keys import Entry
from gdnbench.compare.shift import Shift
from gdnbench.model import Status
from gdnbench.report.compare_markdown import markdown
from gdnbench.report.compare_notes import notes
from gdnbench.report.compare_table import print_comparison
from gdnbench.report.compare_text import outcome_lines, row_label
from gdnbench.report.console import data_console, message_console, print_csv, print_json, print_next, print_text
from gdnbench.stats import Interval


def print_compared(
    side: SideBySide,
    outcome: Outcome | None,
    command: Sequence[str],
    *,
    json: bool = False,
    csv: bool = False,
    as_markdown: bool = False,
) -> None:
    """Prints a comparison, and what the gate says of it on stderr.

    Args:
        side: the comparison.
        outcome: the gate's; None without one.
        command: the arguments that repeat the comparison as a table.
        json: print JSON.
        csv: print CSV.
        as_markdown: print Markdown.
    """
    told = outcome_lines(outcome, side.settings.margin) if outcome else []
    if json:
        print_json(_document(side, outcome))
    elif csv:
        print_csv(_rows(side))
    elif as_markdown:
        print_text(markdown(side, told))
    else:
        console = data_console()
        print_comparison(console, side)
        gated = outcome or not any(ratio and ratio.comparison for ratio in side.columns[-1].ratios)
        more = ["--csv"] if gated else ["--fail-on", "slower:1%"]
        print_next(console, ["gdnbench", "compare", *command, *more])
    messages = message_console()
    for line in told:
        messages.print(line, markup=False, style="bold red" if line.startswith("regression") else "yellow")


def _rows(side: SideBySide) -> list[dict[str, Any]]:
    """One flat row for each case and later column, and for each case without a partner."""
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


def _names(side: SideBySide, row: Row) -> dict[str, Any]:
    return dict(zip(side.grid.row_keys, row.names, strict=True))


def _pair(side: SideBySide, column: Column, number: int, row: Row, index: int) -> dict[str, Any]:
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
        "expected": 1 / expected.ratio if expected else None,
        "residual": 1 / expected.residual if expected else None,
        "bound": expected.bound if expected else "",
        "reason": expected.reason if expected else "",
    }


def _side(letter: str, name: str, entry: Entry | None) -> dict[str, Any]:
    timed = entry is not None and entry.figure.status is Status.OK
    return {
        letter: name,
        f"time_{letter}_us": entry.figure.time_us if entry and timed else None,
        f"status_{letter}": entry.figure.status.value if entry else "",
        f"role_{letter}": entry.figure.role.value if entry else "",
    }


def _document(side: SideBySide, outcome: Outcome | None) -> dict[str, Any]:
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
        "cases": _rows(side),
        "against_first": [_column(name, column) for name, column in zip(side.headings[1:], side.columns, strict=True)],
        "gate": _gate(side, outcome) if outcome else None,
    }


def _column(heading: str, column: Column) -> dict[str, Any]:
    mean = column.mean
    return {
        "column": heading,
        "cases": mean.cases if mean else 0,
        "geomean": mean.value if mean else None,
        **_ends(mean.interval if mean else None),
        "shifts": [_shift(one, other, shift) for one, other, shift in column.shifts],
    }


def _shift(one: str, other: str, shift: Shift) -> dict[str, Any]:
    whole = shift.estimate()
    return {
        "from": one,
        "to": other,
        "longer_by": whole.percent / 100 if whole.known else None,
        "scatter": whole.scatter,
        "anchors": whole.anchors,
        "anchors_are": shift.labels(),
    }


def _ends(interval: Interval | None) -> dict[str, float | None]:
    return {"geomean_lo": interval.low if interval else None, "geomean_hi": interval.high if interval else None}


def _gate(side: SideBySide, outcome: Outcome) -> dict[str, Any]:
    groups = {"slower": outcome.slower, "failed": outcome.failed, "untold": outcome.untold}
    return {"margin": side.settings.margin, **{name: [row_label(row) for row in rows] for name, rows in groups.items()}}
