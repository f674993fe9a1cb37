"""How each kernel's time went over the rounds of a run, as the deviation from its own median: shows drift."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from gdnbench.compare.figure import Figure
from gdnbench.errors import UsageError
from gdnbench.model import Shape
from gdnbench.report.plots.named_rows import NamedRows
from gdnbench.report.plots.strips import blocks, colour_of, name_strip, strips
from gdnbench.report.plots.view import View
from gdnbench.stats import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

EVERY_SHAPE, EMPTY_FLOOR = False, True
LEAST_PERCENT = 0.5  # the axis reaches at least this far, so that a quiet run looks quiet
_FEWEST_BLOCKS, _NUMBERS = 10, 22  # columns in the terminal: for the rounds at least, and for the numbers beside them


def draw(view: View) -> Picture:
    """Draws a column of strips for each shape."""
    columns = {shape: _deviations(view, shape) for shape in view.shapes}
    groups = [(f"time by round, {shape}", len(rows)) for shape, rows in columns.items()]
    picture, every = strips(groups, 6.4, view.title)
    for panels, rows in zip(every, columns.values(), strict=True):
        reach = 1.1 * _reach(rows)
        for panel, (figure, percents) in zip(panels, rows, strict=True):
            numbers = np.arange(1, len(percents) + 1)
            panel.axhline(0.0, color="#D0D0D0", linewidth=0.7)
            panel.plot(numbers, percents, color=colour_of(figure), marker=".", markersize=4, linewidth=0.9)
            panel.set_ylim(-reach, reach)
            name_strip(panel, figure)
            panel.yaxis.tick_right()
            panel.set_yticks([-reach / 1.1, 0, reach / 1.1], [f"{-reach / 1.1:.2g} %", "0", f"+{reach / 1.1:.2g} %"])
            panel.tick_params(axis="y", labelsize=6, length=2, colors="#666666")
        panels[-1].set_xlabel("round; deviation of its time from the kernel's median, %", fontsize=8)
    return picture


def show(view: View, console: Console) -> None:
    """Prints a line of blocks for each kernel."""
    for shape in view.shapes:
        rows = _deviations(view, shape)
        reach = _reach(rows)
        named = NamedRows.of(console, [figure.label for figure, _ in rows], _NUMBERS + _FEWEST_BLOCKS)
        told = f"time by round, {shape}; heights from {-reach:.2g} % to +{reach:.2g} % of the median"
        console.print(Text(told, style="bold"))
        for figure, percents in rows:
            most = max(_FEWEST_BLOCKS, named.room - _NUMBERS)
            heights = blocks(_thinned(percents, most), -reach, reach)
            deviation = float(np.nanstd(percents, ddof=1)) if np.isfinite(percents).sum() > 1 else 0.0
            row = Text(f"{figure.time_us:8.3f}  {heights}").append(f"  sd {deviation:.2f} %", style="dim")
            named.print(row, figure.label)


def _deviations(view: View, shape: Shape) -> list[tuple[Figure, FloatArray]]:
    rows = [figure for figure in view.at(shape) if np.isfinite(figure.rounds_us).any()]
    if not rows:
        message = f"{view.info.run_id} has no rounds of these kernels at {shape}"
        raise UsageError(message, f"gdnbench show {view.info.run_id} says what it has")
    return [(each, 100.0 * (each.rounds_us / np.nanmedian(each.rounds_us) - 1.0)) for each in rows]


def _reach(rows: list[tuple[Figure, FloatArray]]) -> float:
    """How far the axis reaches: to every round, unless a wild one would flatten the others."""
    every = np.abs(np.concatenate([percents for _, percents in rows]))
    return max(LEAST_PERCENT, min(float(np.nanmax(every)), 2.0 * float(np.nanpercentile(every, 98))))


def _thinned(values: FloatArray, most: int) -> FloatArray:
    """At most so many values: means of neighbouring rounds."""
    parts = np.array_split(values, min(most, len(values)))
    return np.array([np.nanmean(part) if np.isfinite(part).any() else np.nan for part in parts])
