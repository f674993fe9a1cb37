"""A comparison as a Markdown table, for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.compare.comparison import SourceComparison
from gdnbench.report.compare.text import (
    expected_texts,
    key_heading,
    legend,
    mean_text,
    notes,
    ratio_text,
    shown_keys,
    source_lines,
    time_heading,
    time_or_status,
    unit_of,
    verdict_text,
)
from gdnbench.report.units import TimeUnit


def markdown(side: SourceComparison, outcome: Sequence[str]) -> str:
    """Returns GitHub's Markdown: the gate's `outcome`, a line each, the table, and notes and legend in a fold."""
    lines = [f"- **{line[0].upper()}{line[1:]}**" for line in map(_escape, outcome)]
    lines += [f"- {_escape(line)}" for line in source_lines(side)]
    lines += [f"- warning: {_escape(warning)}" for warning in side.warnings]
    lines += ["", *_table(side), ""]
    folded = [f"- {_escape(line)}" for line in notes(side)]
    lines += ["<details><summary>How to read it</summary>", "", *folded, "", *legend(side), "", "</details>"]
    return "\n".join(lines)


def _table(side: SourceComparison) -> list[str]:
    places = shown_keys(side)
    headings = [key_heading(side, place) for place in places]
    marks = [":--"] * len(places)
    unit = unit_of(side)
    headings.append(time_heading(side, 0))
    marks.append("--:")
    for number, column in enumerate(side.columns, start=1):
        headings += [time_heading(side, number), "ratio", "verdict"]
        marks += ["--:", "--:", ":--"]
        if any(column.expected):
            headings += ["expected", "residual"]
            marks += ["--:", "--:"]
    rows = [_row(side, index, places, unit) for index in range(len(side.grid.rows))]
    return [_line(headings), _line(marks, escape=False), *map(_line, rows), _line(_means(side, len(places)))]


def _row(side: SourceComparison, index: int, places: Sequence[int], unit: TimeUnit) -> list[str]:
    row = side.grid.rows[index]
    cells = [row.names[place] for place in places] + [time_or_status(row.entries[0], unit, side.shown_clock)]
    for number, column in enumerate(side.columns, start=1):
        ratio, expected = column.ratios[index], column.expected[index]
        cells += [
            time_or_status(row.entries[number], unit, side.shown_clock),
            ratio_text(ratio),
            verdict_text(row, ratio),
        ]
        if any(column.expected):
            cells += expected_texts(expected)
    return cells


def _means(side: SourceComparison, names: int) -> list[str]:
    cells = ["geomean", *[""] * names]
    for column in side.columns:
        cells += ["", mean_text(column), "", *([""] * 2 if any(column.expected) else [])]
    return cells


def _line(cells: Sequence[str], *, escape: bool = True) -> str:
    return "| " + " | ".join(_escape(cell) if escape else cell for cell in cells) + " |"


def _escape(text: str) -> str:
    for sign in "\\|*_<>`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
