"""Line charts in the terminal, within the console's width and readable without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.errors import GdnbenchError
from gdnbench.render.console import fits, message_console
from gdnbench.render.terminal_canvas import (
    MANY,
    THIN,
    ChartLine,
    Plot,
    Points,
    Scale,
    Stroke,
    draw_plot,
    ends,
    letters,
    marks_at,
    round_ticks,
)

WIDEST, LINES = 76, 14
COLOURS = (4, 3, 2, 5, 6, 1, 8)  # of the terminal's own palette, which suits its user
_AXES = 2  # columns, and lines, of the frame
_TICKS_APART = 4  # columns between the names of two ticks
_LINES_A_TICK = 2


class TerminalChart:
    """A chart of lines, printed when its block ends: title, chart, and a legend of the named lines.

    A named line has a letter. Where several lines have a point in one place, their number stands there; letters at the
    right show which lines end in a row, and the legend has the values of each. `lines` is the height without title and
    legend. The end of the block raises ChartError, with nothing printed, if the chart cannot be drawn, UsageError for
    more lines than can be told apart.
    """

    def __init__(self, console: Console, title: str, lines: int = LINES) -> None:
        self._console, self._title = console, title
        self._size = min(console.width, WIDEST), lines
        self._given: list[tuple[str, Points, Mapping[float, str]]] = []
        self._uprights: list[float] = []
        self._x_names: dict[float, str] = {}
        self._y_names: dict[float, str] = {}
        self._x_name = ""

    def __enter__(self) -> TerminalChart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._given:
            self._print()

    def line(self, points: Points, *, name: str = "", values: Mapping[float, str] | None = None) -> None:
        """Adds a line, y by x in order of x; `values` are the legend's text at each x; a nameless line is not in it."""
        if points:
            self._given.append((name, points, values or {}))

    def upright(self, x: float) -> None:
        """Adds a vertical line."""
        self._uprights.append(x)

    def x_axis(self, names: Mapping[float, str], name: str = "") -> None:
        """Names the x axis, and places on it, of which as many are shown as fit side by side."""
        self._x_names, self._x_name = dict(names), name

    def y_axis(self, names: Mapping[float, str]) -> None:
        """Names places on the y axis, which has round numbers otherwise."""
        self._y_names = dict(names)

    def _print(self) -> None:
        lines = self._lettered()
        text = draw_plot(self._plot(lines), colour=bool(self._console.color_system))
        self._console.print()
        self._console.print(Text(self._title, style="bold"))
        for row in AnsiDecoder().decode(text):
            self._console.print(row, no_wrap=True, crop=True)
        headings = {place: f"{self._x_name}={name}" for place, name in self._x_names.items()}
        print_legend(self._console, [line for line in lines if line.name], headings)

    def _lettered(self) -> list[ChartLine]:
        marks = iter(letters(sum(bool(name) for name, _, _ in self._given)))
        return [
            ChartLine(
                name=name,
                mark=next(marks) if name else "●",
                colour=COLOURS[place % len(COLOURS)],
                points=points,
                values=values,
            )
            for place, (name, points, values) in enumerate(self._given)
        ]

    def _plot(self, lines: Sequence[ChartLine]) -> Plot:
        columns, rows = self._size
        y = Scale.of([y for line in lines for y in line.points.values()], rows - _AXES - 1 - bool(self._x_name))
        left = self._y_names or round_ticks(y.low, y.high, y.cells // _LINES_A_TICK + 1)
        left = {place: name for place, name in left.items() if y.low <= place <= y.high}
        right = {y.middle(row): marks for row, marks in ends(lines, y).items()}
        beside = sum(max(map(len, names.values()), default=0) for names in (left, right))
        x = Scale.of([x for line in lines for x in line.points], columns - _AXES - beside)
        return Plot(
            size=self._size,
            x_range=(x.low, x.high),
            y_range=(y.low, y.high),
            strokes=[
                *(Stroke([(place, y.low), (place, y.high)], "│", connected=True) for place in self._uprights),
                *(Stroke(list(line.points.items()), THIN, line.colour, connected=True) for line in lines),
                *_marks(lines, x, y),
            ],
            below=self._x_names_that_fit(),
            left=left,
            right=right,
            x_name=self._x_name,
        )

    def _x_names_that_fit(self) -> dict[float, str]:
        wide = max(map(len, self._x_names.values()), default=1) + _TICKS_APART
        step = max(1, -(-len(self._x_names) * wide // self._size[0]))
        return dict(list(self._x_names.items())[::step])


class OptionalCharts:
    """Wraps charts beside a table: warns once on stderr of one that cannot be drawn, and goes on."""

    def __init__(self) -> None:
        self._told = False

    def __enter__(self) -> OptionalCharts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, GdnbenchError):
            return False
        if not self._told:
            message_console().print(f"warning: {error.message}", style="yellow", markup=False, soft_wrap=True)
        self._told = True
        return True


def _marks(lines: Sequence[ChartLine], x: Scale, y: Scale) -> list[Stroke]:
    """Returns letters and numbers, each in the middle of its cell, so that what is said to meet does so."""
    colours = {line.mark: line.colour for line in lines}
    return [
        Stroke([(x.middle(column), y.middle(row))], mark, colours.get(mark))
        for (column, row), mark in marks_at(lines, x, y).items()
    ]


def print_legend(console: Console, lines: Sequence[ChartLine], headings: Mapping[float, str]) -> None:
    """Prints the lines with values at as many places as fit, first and last included; `headings` are in order of x."""
    if not lines:
        return
    places = [place for place in headings if any(place in line.values for line in lines)]
    for count in range(len(places), -1, -1):
        table = _legend_table(lines, {place: headings[place] for place in spaced(places, count)})
        if fits(console, table) or count == 1:
            break
    console.print(table)
    if len(lines) > 1:
        many = f" (+: {MANY} or more)" if len(lines) >= MANY else ""
        console.print(Text(f"a number in the chart: that many lines have a point there{many}", style="dim"))
        console.print(Text("letters at the right: the lines that end in that row", style="dim"))


def spaced(places: Sequence[float], count: int) -> list[float]:
    """Returns `count` of the places, evenly spread: the last alone, the first and the last, and then between them."""
    if count < 2:
        return list(places[len(places) - count :])
    return [places[round(step * (len(places) - 1) / (count - 1))] for step in range(count)]


def _legend_table(lines: Sequence[ChartLine], headings: Mapping[float, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for heading in headings.values():
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for line in lines:
        mark = Text(line.mark, style=f"color({line.colour})")
        table.add_row(mark, Text(line.name), *(Text(line.values.get(place, "")) for place in headings))
    return table
