"""The canvas of terminal charts: scales, marks and ticks in characters, and the one call of plotext."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from string import ascii_letters

from gdnbench.errors import ChartError, UsageError

REQUIREMENT = "plotext>=6.1,<7"  # as in pyproject.toml
THIN = "braille"
Points = Mapping[float, float]  # y by x, in order of x
MANY = 10  # number of lines in one place that no longer fits one character
Position = tuple[int, int]  # column and row of a character
_ROUNDING = 1e-9  # of a step: by so much 0.3 / 0.05 may miss 6


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """A line of a chart: its name, or none, `colour` of the terminal's palette, and the legend's text at each x."""

    name: str
    mark: str
    colour: int
    points: Points
    values: Mapping[float, str]


@dataclass(frozen=True)
class Scale:
    """One axis of a chart, from the middle of its first cell, at `low`, to that of its last, at `high` above `low`."""

    low: float
    high: float
    cells: int

    @classmethod
    def of(cls, values: Sequence[float], cells: int) -> Scale:
        """Returns the smallest scale that holds all values; equal values lie in its middle."""
        low, high = min(values), max(values)
        if high - low <= 1e-9 * max(1.0, abs(high)):
            low, high = low - 0.5, high + 0.5
        return cls(low, high, max(cells, 1))

    def cell(self, value: float) -> int:
        """Returns the cell of a value."""
        return round((self.cells - 1) * (value - self.low) / (self.high - self.low))

    def middle(self, cell: int) -> float:
        """Returns the value in the middle of a cell."""
        return self.low + (self.high - self.low) * cell / max(self.cells - 1, 1)


def letters(lines: int) -> str:
    """Returns a letter per line; raises UsageError for more lines than letters."""
    if lines > len(ascii_letters):
        told = f"{lines} lines are more than the {len(ascii_letters)} that a chart can tell apart"
        raise UsageError(told, "choose some with --kernel")
    return ascii_letters[:lines]


def marks_at(lines: Sequence[ChartLine], x: Scale, y: Scale) -> dict[Position, str]:
    """Returns each cell's character: the mark of its only line, or the number of lines there, `+` for ten or more."""
    marks: dict[Position, dict[str, None]] = {}
    for line in lines:
        for place, value in line.points.items():
            marks.setdefault((x.cell(place), y.cell(value)), {})[line.mark] = None
    return {cell: _one_of(list(here)) for cell, here in marks.items()}


def ends(lines: Sequence[ChartLine], y: Scale) -> dict[int, str]:
    """Returns, by row, the letters of the named lines that end in it, unless they stop short or there is only one."""
    last = max(max(line.points) for line in lines)
    named = [line for line in lines if line.name and last in line.points]
    rows: dict[int, str] = {}
    for line in named if len(named) > 1 else []:
        row = y.cell(line.points[last])
        rows[row] = rows.get(row, "") + line.mark
    return {row: together(marks) for row, marks in rows.items()}


def together(marks: str) -> str:
    """Joins letters; three or more neighbours in the alphabet become `b-f`."""
    word = "".join(sorted(marks, key=ascii_letters.index))
    return f"{word[0]}-{word[-1]}" if len(word) > 2 and word in ascii_letters else word


def round_ticks(low: float, high: float, most: int) -> dict[float, str]:
    """Returns at most `most` round numbers of a range, with their names: multiples of 1, 2 or 5 of a decimal place."""
    finest = math.floor(math.log10((high - low) / most))
    for power in count(finest):
        for step in (10.0**power, 2 * 10.0**power, 5 * 10.0**power):
            first, last = math.ceil(low / step - _ROUNDING), math.floor(high / step + _ROUNDING)
            if last - first < most:
                names = [f"{number * step:.{max(0, -power)}f}" for number in range(first, last + 1)]
                return {float(name): name for name in names}
    raise AssertionError("steps grow until they are few")


def _one_of(marks: Sequence[str]) -> str:
    if len(marks) == 1:
        return marks[0]
    return str(len(marks)) if len(marks) < MANY else "+"


@dataclass(frozen=True)
class Stroke:
    """Characters at points, or along the lines between them if `connected`.

    `text` is a character, or `THIN` for a thin line; `colour` is of the terminal's palette, or None for that of text.
    """

    points: Sequence[tuple[float, float]]
    text: str
    colour: int | None = None
    connected: bool = False


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A chart to draw: strokes, later ones above, and names below, left and right of the frame by x or y.

    `size` is in columns and lines, frame and ticks included; `x_range` and `y_range` are the values at the first and
    last column and at the lowest and highest line inside the frame.
    """

    size: tuple[int, int]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    strokes: Sequence[Stroke]
    below: Mapping[float, str]
    left: Mapping[float, str]
    right: Mapping[float, str]
    x_name: str


def draw_plot(plot: Plot, *, colour: bool) -> str:
    """Returns the chart as text; raises ChartError if plotext is missing, of another major version, or fails."""
    version = ""
    try:
        import plotext

        version = f" {plotext.__version__}"
        plotext.terminal.limit(False, False)  # the console sets the width; plotext would ask the process's terminal
        figure = plotext.figure
        figure.clear()
        figure.theme("colorless")
        figure.canvas("default")
        figure.plot_size(*plot.size)
        figure.label(plot.x_name or None, axis="x")
        figure.ruler("x").lim(*plot.x_range)
        figure.ruler("x").ticks(list(plot.below), list(plot.below.values()))
        for side, names in ("left", plot.left), ("right", plot.right):
            figure.ruler("y", side).lim(*plot.y_range)
            figure.ruler("y", side).ticks(list(names), list(names.values()))
        for stroke in plot.strokes:
            x, y = zip(*stroke.points, strict=True)
            signal = figure.signal(x, y, marker=plotext.marker(stroke.text, stroke.colour))
            figure.draw(signal.lines(stroke.connected))
        return str(figure.build().string(colorless=not colour))
    except Exception as error:  # of any kind: a fault in plotext may only cost the chart
        why = " ".join(f"{type(error).__name__}: {error}".split())
        hint = f"pip install '{REQUIREMENT}'; -o chart.png draws without it"
        raise ChartError(f"plotext{version} cannot draw the chart: {why}", hint) from error
