"""A comparison as a Markdown table, for a pull request."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gdnbench.compare.comparison import SideBySide
from gdnbench.compare.keys import Entry
from gdnbench.model import Status
from gdnbench.report.compare_notes import notes
from gdnbench.report.compare_text import (
    interval_text,
    legend,
    ratio_text,
    shown_keys,
    source_lines,
    verdict_text,
)
from gdnbench.report.run_table import time_text


def markdown(side: SideBySide, outcome: Sequence[str]) -> str:
    """GitHub's Markdown: what the gate says, the table, and the rest folded away.

    Args:
        side: the comparison.
        outcome: what the gate says, a line each; nothing without a gate.
    """
    lines = [f"- **{line[0].upper()}{line[1:]}**" for line in map(_escape, outcome)]
    lines += [f"- {_escape(line)}" for line in source_lines(side)]
    lines += [f"- warning: {_escape(warning)}" for warning in side.warnings]
    lines += ["", *_table(side), ""]
    folded = [f"- {_escape(line)}" for line in notes(side)]
    lines += ["<details><summary>How to read it</summary>", "", *folded, "", *legend(side), "", "</details>"]
    return "\n".join(lines)


def _table(side: SideBySide) -> list[str]:
    places = shown_keys(side)
    headings = ["kernel" if side.grid.row_keys[place] == "label" else side.grid.row_keys[place] for place in places]
    marks = [":--"] * len(places)
    headings.append(f"{side.headings[0]} µs")
    marks.append("--:")
    for heading, column in zip(side.headings[1:], side.columns, strict=True):
        headings += [f"{heading} µs", "ratio", "verdict"]
        marks += ["--:", "--:", ":--"]
        if any(column.expected):
            headings += ["expected", "residual"]
            marks += ["--:", "--:"]
    rows = [_row(side, index, places) for index in range(len(side.grid.rows))]
    return [_line(headings), _line(marks, escape=False), *map(_line, rows), _line(_means(side, len(places)))]


def _row(side: SideBySide, index: int, places: Sequence[int]) -> list[str]:
    row = side.grid.rows[index]
    cells = [row.names[place] for place in places] + [_time(row.entries[0])]
    for number, column in enumerate(side.columns, start=1):
        ratio, expected = column.ratios[index], column.expected[index]
        cells += [_time(row.entries[number]), ratio_text(ratio), verdict_text(row, ratio)]
        if any(column.expected):
            cells += [f"{1 / expected.ratio:.3f}x", f"{1 / expected.residual:.3f}"] if expected else ["", ""]
    return cells


def _means(side: SideBySide, names: int) -> list[str]:
    cells = ["geomean", *[""] * names]
    for column in side.columns:
        told = interval_text(column.mean.value, column.mean.interval) if column.mean else ""
        cells += ["", told, "", *([""] * 2 if any(column.expected) else [])]
    return cells


def _time(entry: Entry | None) -> str:
    if entry is None:
        return ""
    if entry.figure.status is not Status.OK or math.isnan(entry.figure.time_us):
        return entry.figure.status.value
    return time_text(entry.figure.time_us)


def _line(cells: Sequence[str], *, escape: bool = True) -> str:
    return "| " + " | ".join(_escape(cell) if escape else cell for cell in cells) + " |"


def _escape(text: str) -> str:
    """As it is, where Markdown would read a sign of its own."""
    for sign in "\\|*_<>`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
