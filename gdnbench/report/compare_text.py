"""The words of a comparison: shared by the terminal's table and Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gdnbench.compare.comparison import SideBySide
from gdnbench.compare.figure import Kind, Source
from gdnbench.compare.filter import some as first_few
from gdnbench.compare.gate import Outcome
from gdnbench.compare.join import Row
from gdnbench.compare.ratio import Ratio, is_floor
from gdnbench.report.run_table import percent
from gdnbench.stats import Interval

MOST_NAMES = 8


def source_lines(side: SideBySide) -> list[str]:
    """`A  20260102-030405-h200-decode (h200)`."""
    return [f"{letter}  {_source(source)}" for letter, source in zip(side.letters, side.sources, strict=True)]


def _source(source: Source) -> str:
    told = [source.gpu or "GPU not told"]
    if source.kind is Kind.PUBLISHED:
        told += ["as published", *sorted({figure.citation for figure in source.figures if figure.citation})[:1]]
    if source.kind is Kind.FOREIGN:
        told.append("of another tool")
    return f"{source.name} ({'; '.join(told)})"


def shown_keys(side: SideBySide) -> list[int]:
    """Positions of the row keys worth a column: those that vary, and the params only where the label leaves doubt."""
    grid = side.grid
    names = [row.names for row in grid.rows]
    vary = [i for i in range(len(grid.row_keys)) if len({name[i] for name in names}) > 1]
    told = [i for i in range(len(grid.row_keys)) if i in vary or grid.row_keys[i] in {"label", "kernel", "shape"}]
    without = [i for i in told if grid.row_keys[i] != "params"]
    return without if len({tuple(name[i] for i in without) for name in names}) == len(names) else told


def row_label(row: Row) -> str:
    """A row in a sentence."""
    figure = next(entry.figure for entry in row.entries if entry)
    return f"{figure.label} at {figure.shape}"


def ratio_text(ratio: Ratio | None) -> str:
    """`1.063x ±0.27%`."""
    if ratio is None:
        return ""
    return interval_text(ratio.value, ratio.comparison.speedup if ratio.comparison else None)


def interval_text(value: float, interval: Interval | None) -> str:
    """A ratio, and half of its interval where it has one with two ends."""
    if math.isnan(value):
        return ""
    told = f"{value:.3f}x" if value < 10 else f"{value:.2f}x"
    if interval is None or not math.isfinite(interval.high):
        return told
    return f"{told} ±{percent(interval.half_width / value)}"


def verdict_text(row: Row, ratio: Ratio | None) -> str:
    """The verdict's word; `floor` for what bounds the others, a status for what has no time."""
    first = row.entries[0]
    if ratio and first and is_floor(first):
        return "floor"
    return ratio.comparison.verdict.upper() if ratio and ratio.comparison else ""


def outcome_lines(outcome: Outcome, margin: float) -> list[str]:
    """What the gate says, with the cases' names."""
    lines = [f"regression: {row_label(row)} is slower by more than {percent(margin)}" for row in outcome.slower]
    for row in outcome.failed:
        last = row.entries[-1]
        lines.append(f"regression: {row_label(row)} had a time and now ended as {last.figure.status if last else ''}")
    if outcome.untold:
        names = some([row_label(row) for row in outcome.untold])
        lines.append(f"cannot be told from {percent(margin)} slower: {names}")
    return lines


def legend(side: SideBySide) -> list[str]:
    """What the columns mean."""
    first = side.headings[0]
    settings = side.settings
    lines = [
        f"ratio: time of {first} / time of the other: above 1 the other is faster, below 1 slower.",
        f"±: {settings.confidence:.0%} interval, with Holm's correction for the number of cases. "
        f"FASTER or SLOWER where it lies beyond {settings.margin:.2%}, SAME where within, else UNCLEAR.",
        "geomean: of all ratios but those of floors.",
    ]
    if any(column.paired for column in side.columns):
        lines.append("Figures of one run are paired by round.")
    if any(any(column.expected) for column in side.columns):
        lines.append("expected: the ratio that the GPUs alone lead one to expect; residual: ratio / expected.")
    return lines


def some(names: Iterable[str]) -> str:
    """The first few of many, each once."""
    return first_few(list(dict.fromkeys(names)), MOST_NAMES)
