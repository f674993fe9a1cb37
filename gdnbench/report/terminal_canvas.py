"""What a chart in the terminal is drawn on: scales, marks and ticks in characters, and the one call of plotext."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from string import ascii_letters

from gdnbench.errors import ChartError, UsageError

REQUIREMENT = "plotext>=6.1,<7"  # as pyproject.toml asks for it
THIN = "braille"
Points = Mapping[float, float]  # y by x, in order of x
MANY = 10  # lines in one place, whose number is no longer one character
Position = tuple[int, int]  # column and row of a character
_ROUNDING = 1e-9  # of a step, by which 0.3 / 0.05 may miss 6


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """A line of a chart.

    Attributes:
        name: what the legend calls it; empty for a line that is not in it.
        mark: the letter that stands at its points.
        colour: of the terminal's own palette.
        points: where it goes.
        values: what the legend says of each x.
    """

    name: str
    mark: str
    colour: int
    points: Points
    values: Mapping[float, str]


@dataclass(frozen=True)
class Scale:
    """One axis of a chart, from the middle of its first cell to the middle of its last.

    Attributes:
        low: the value at the first cell.
        high: the value at the last cell, above `low`.
        cells: how many columns or rows it has.
    """

    low: float
    high: float
    cells: int

    @classmethod
    def of(cls, values: Sequence[float], cells: int) -> Scale:
        """The scale that just holds all values; values that are all alike lie in its middle."""
        low, high = min(values), max(values)
        if high - low <= 1e-9 * max(1.0, abs(high)):
            low, high = low - 0.5, high + 0.5
        return cls(low, high, max(cells, 1))

    def cell(self, value: float) -> int:
        """The cell that a value falls into."""
        return round((self.cells - 1) * (value - self.low) / (self.high - self.low))

    def middle(self, cell: int) -> float:
        """The value in the middle of a cell."""
        return self.low + (self.high - self.low) * cell / max(self.cells - 1, 1)


def letters(lines: int) -> str:
    """A letter for each line.

    Raises:
        UsageError: for more lines than there are letters.
    """
    if lines > len(ascii_letters):
        told = f"{lines} lines are more than the {len(ascii_letters)} that a chart can tell apart"
        raise UsageError(told, "choose some with --kernel")
    return ascii_letters[:lines]


def marks_at(lines: Sequence[ChartLine], x: Scale, y: Scale) -> dict[Position, str]:
    """What stands in each cell: the mark of its only line, or how many have a point there, `+` for ten or more."""
    marks: dict[Position, dict[str, None]] = {}
    for line in lines:
        for place, value in line.points.items():
            marks.setdefault((x.cell(place), y.cell(value)), {})[line.mark] = None
    return {cell: _one_of(list(here)) for cell, here in marks.items()}


def ends(lines: Sequence[ChartLine], y: Scale) -> dict[int, str]:
    """For each row, the letters of the named lines that end in it; none for a line that stops short, or is alone."""
    last = max(max(line.points) for line in lines)
    named = [line for line in lines if line.name and last in line.points]
    rows: dict[int, str] = {}
    for line in named if len(named) > 1 else []:
        row = y.cell(line.points[last])
        rows[row] = rows.get(row, "") + line.mark
    return {row: together(marks) for row, marks in rows.items()}


def together(marks: str) -> str:
    """Letters as one word; three or more neighbours in the alphabet as `b-f`."""
    word = "".join(sorted(marks, key=ascii_letters.index))
    return f"{word[0]}-{word[-1]}" if len(word) > 2 and word in ascii_letters else word


def round_ticks(low: float, high: float, most: int) -> dict[float, str]:
    """The round numbers within a range, at most so many, with their names: 1, 2 or 5 of some decimal place apart."""
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
    """Characters at points, or along the lines between them.

    Attributes:
        points: x and y of each.
        text: the character; `THIN` for a thin line.
        colour: of the terminal's own palette; None for that of text.
        connected: whether it runs from point to point.
    """

    points: Sequence[tuple[float, float]]
    text: str
    colour: int | None = None
    connected: bool = False


@dataclass(frozen=True, kw_only=True)
class Plot:
    """What to draw.

    Attributes:
        size: columns and lines, the frame and the ticks among them.
        x_range: the x of the first and of the last column inside the frame.
        y_range: the y of the lowest and of the highest line inside the frame.
        strokes: in the order drawn, later ones above earlier ones.
        below: names below the frame, by x.
        left: names to the left of it, by y.
        right: names to the right of it, by y.
        x_name: what the x axis is called, in a line below its names; empty for none.
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
    """The chart as text, with ANSI colours if wanted.

    Raises:
        ChartError: if plotext is missing, is of another major version, or fails.
    """
    version = ""
    try:
        import plotext

        version = f" {plotext.__version__}"
        plotext.terminal.limit(False, False)  # the console says how wide; plotext asks the terminal of the process
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
    except Exception as error:  # of any kind: a chart is all that a fault in plotext may cost
        why = " ".join(f"{type(error).__name__}: {error}".split())
        hint = f"pip install '{REQUIREMENT}'; -o chart.png draws without it"
        raise ChartError(f"plotext{version} cannot draw the chart: {why}", hint) from error
