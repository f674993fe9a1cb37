"""Charts of lines and points in the terminal, within the console's width and readable without colour."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from string import ascii_letters
from types import TracebackType

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.text import Text

from gdnbench.errors import ChartError, GdnbenchError, UsageError
from gdnbench.render.console import message_console
from gdnbench.render.table import Column, Table
from gdnbench.render.text import TextTable

WIDEST, LINES = 76, 14
COLOURS = (4, 3, 2, 5, 6, 1, 8)  # of the terminal's own palette, which suits its user
REQUIREMENT = "plotext>=6.1,<7"  # as in pyproject.toml
MANY = 10  # number of lines in one place that no longer fits one character
Points = Sequence[tuple[float, float]]  # (x, y); those of a line are in order of x
_AXES = 2  # columns, and lines, of the frame
_TICKS_APART = 4  # columns between the names of two ticks
_LINES_A_TICK = 2
_ROUNDING = 1e-9  # of a step: by so much 0.3 / 0.05 may miss 6


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """A line of a chart, or its `points` alone if they are not `joined`.

    It has a name, or none, a `colour` of the terminal's palette, and the legend's text at each x, or in each column.
    """

    name: str
    mark: str
    colour: int
    points: Points
    values: Mapping[float, str]
    joined: bool


class TerminalChart:
    """A chart of lines and points, printed when its block ends: title, chart, and a legend of what has a name.

    A named line has a letter. Where several lines have a point in one place, their number stands there; the legend has
    the values of each. `lines` is the height without title and legend. The end of the block raises ChartError, with
    nothing printed, if the chart cannot be drawn, UsageError for more lines than can be told apart.
    """

    def __init__(self, console: Console, title: str, lines: int = LINES) -> None:
        self._console, self._title = console, title
        self._size = min(console.width, WIDEST), lines
        self._given: list[tuple[str, Points, Mapping[float, str], bool]] = []
        self._uprights: list[float] = []
        self._x_names: dict[float, str] = {}
        self._headings: dict[float, str] = {}
        self._y_names: dict[float, str] = {}
        self._x_name = ""

    def __enter__(self) -> TerminalChart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._given:
            self._print()

    def line(self, points: Mapping[float, float], *, name: str = "", values: Mapping[float, str] | None = None) -> None:
        """Adds a line, y by x in order of x; `values` are the legend's text at each x; a nameless line is not in it."""
        if points:
            self._given.append((name, [*points.items()], values or {}, True))

    def scatter(self, points: Points, *, name: str, values: Mapping[float, str]) -> None:
        """Adds points that no line joins; `values` are the legend's text in each of its columns."""
        self._given.append((name, points, values, False))

    def upright(self, x: float) -> None:
        """Adds a vertical line."""
        self._uprights.append(x)

    def x_axis(self, names: Mapping[float, str], name: str = "", legend: Mapping[float, str] | None = None) -> None:
        """Names the x axis, and places on it, of which as many are shown as fit side by side.

        They are the headings of the legend, too, unless that has its own, `legend`.
        """
        self._x_names, self._x_name = dict(names), name
        self._headings = dict(legend or {place: f"{name}={each}" for place, each in names.items()})

    def y_axis(self, names: Mapping[float, str]) -> None:
        """Names places on the y axis, which has round numbers otherwise."""
        self._y_names = dict(names)

    def _print(self) -> None:
        lines = self._lettered()
        text = self._drawn(lines)
        self._console.print()
        self._console.print(Text(self._title, style="bold"))
        for row in AnsiDecoder().decode(text):
            self._console.print(row, no_wrap=True, crop=True)
        print_legend(self._console, [line for line in lines if line.name], self._headings)

    def _lettered(self) -> list[ChartLine]:
        marks = iter(letters(sum(bool(name) for name, *_ in self._given)))
        return [
            ChartLine(
                name=name,
                mark=next(marks) if name else "●",
                colour=COLOURS[place % len(COLOURS)],
                points=points,
                values=values,
                joined=joined,
            )
            for place, (name, points, values, joined) in enumerate(self._given)
        ]

    def _drawn(self, lines: Sequence[ChartLine]) -> str:
        """Returns the chart as text; raises ChartError if plotext is missing, of another major version, or fails."""
        columns, rows = self._size
        points = [point for line in lines for point in line.points]
        y = Scale.of([y for _, y in points], rows - _AXES - 1 - bool(self._x_name))
        left = self._y_names or round_ticks(y.low, y.high, y.cells // _LINES_A_TICK + 1)
        left = {place: name for place, name in left.items() if y.low <= place <= y.high}
        margin = max(map(len, left.values()), default=0)
        x = Scale.of([x for x, _ in points], columns - _AXES - margin)
        below, colours, version = self._x_names_that_fit(), {line.mark: line.colour for line in lines}, ""
        try:
            import plotext

            version = f" {plotext.__version__}"
            plotext.terminal.limit(False, False)  # the console sets the width; plotext would ask the process's terminal
            figure = plotext.figure
            figure.clear()
            figure.theme("colorless")
            figure.canvas("default")
            figure.plot_size(*self._size)
            figure.label(self._x_name or None, axis="x")
            figure.ruler("x").lim(x.low, x.high)
            figure.ruler("x").ticks(list(below), list(below.values()))
            figure.ruler("y", "left").lim(y.low, y.high)
            figure.ruler("y", "left").ticks(list(left), list(left.values()))

            def draw(points: Iterable[tuple[float, float]], mark: str, colour: int | None, connected: bool) -> None:
                signal = figure.signal(*zip(*points, strict=True), marker=plotext.marker(mark, colour))
                figure.draw(signal.lines(connected))

            for place in self._uprights:
                draw([(place, y.low), (place, y.high)], "│", None, True)
            for line in lines:
                if line.joined:
                    draw(line.points, "braille", line.colour, True)
            for (column, row), mark in marks_at(lines, x, y).items():
                draw([(x.middle(column), y.middle(row))], mark, colours.get(mark), False)
            return str(figure.build().string(colorless=not self._console.color_system))
        except Exception as error:  # of any kind: a fault in plotext may only cost the chart
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise ChartError(
                f"plotext{version} cannot draw the chart: {why}", f"pip install '{REQUIREMENT}'"
            ) from error

    def _x_names_that_fit(self) -> dict[float, str]:
        wide = max(map(len, self._x_names.values()), default=1) + _TICKS_APART
        step = max(1, -(-len(self._x_names) * wide // self._size[0]))
        return dict(list(self._x_names.items())[::step])


class OptionalCharts:
    """Wraps charts beside a table: warns once on stderr of one that cannot be drawn, and goes on."""

    def __init__(self) -> None:
        self._warned = False

    def __enter__(self) -> OptionalCharts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, GdnbenchError):
            return False
        if not self._warned:
            message_console().print(f"warning: {error.message}", style="yellow", markup=False, soft_wrap=True)
        self._warned = True
        return True


def print_legend(console: Console, lines: Sequence[ChartLine], headings: Mapping[float, str]) -> None:
    """Prints the lines with values at as many places as fit, first and last included; `headings` are in order of x."""
    if not lines:
        return
    places = [place for place in headings if any(place in line.values for line in lines)]
    for most in range(len(places), -1, -1):
        table = TextTable(_legend_table(lines, {place: headings[place] for place in spaced(places, most)}))
        if table.width <= console.width or most == 1:
            break
    console.print(table)
    if len(lines) > 1:
        many = f" (+: {MANY} or more)" if len(lines) >= MANY else ""
        what = "lines" if lines[0].joined else "of these"
        console.print(Text(f"a number in the chart: that many {what} have a point there{many}", style="dim"))


def spaced(places: Sequence[float], count: int) -> list[float]:
    """Returns `count` of the places, evenly spread: the last alone, the first and the last, and then between them."""
    if count < 2:
        return list(places[len(places) - count :])
    return [places[round(step * (len(places) - 1) / (count - 1))] for step in range(count)]


def _legend_table(lines: Sequence[ChartLine], headings: Mapping[float, str]) -> Table[ChartLine]:
    def values_at(place: float) -> Column[ChartLine]:
        return Column("", lambda line: line.values.get(place, ""), headings[place], right=True)

    mark: Column[ChartLine] = Column("", lambda line: Text(line.mark, style=f"color({line.colour})"), " ")
    name: Column[ChartLine] = Column("", lambda line: line.name, " ", fold=True)
    return Table([mark, name, *map(values_at, headings)], lines)


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
        message = f"{lines} lines are more than the {len(ascii_letters)} that a chart can tell apart"
        raise UsageError(message, "choose some with --kernel")
    return ascii_letters[:lines]


def marks_at(lines: Sequence[ChartLine], x: Scale, y: Scale) -> dict[tuple[int, int], str]:
    """Returns each cell's character: the mark of its only line, or the number of lines there, `+` for ten or more."""
    marks: dict[tuple[int, int], dict[str, None]] = {}
    for line in lines:
        for place, value in line.points:
            marks.setdefault((x.cell(place), y.cell(value)), {})[line.mark] = None
    return {cell: _one_of(list(signs)) for cell, signs in marks.items()}


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
