"""plotext in the house's manner: within 80 columns, without colour where none is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.ansi import AnsiDecoder
from rich.console import Console

WIDEST, LINES = 76, 14
COLOURS = ("blue", "orange", "green", "magenta", "cyan", "red", "gray")
_TICKS_APART = 4  # columns between the labels of two ticks


class TerminalChart:
    """A chart that is drawn when its block ends.

    Args:
        console: where to.
        lines: how high.
    """

    def __init__(self, console: Console, lines: int = LINES) -> None:
        import plotext

        self._console, self._plot, self._lines = console, plotext, lines
        self._width, self._drawn = min(console.width, WIDEST), 0

    def __enter__(self) -> TerminalChart:
        self._plot.clear_figure()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        self._plot.theme("pro" if self._console.color_system else "clear")
        self._plot.canvas_color("default")
        self._plot.axes_color("default")
        self._plot.plotsize(self._width, self._lines)
        for line in AnsiDecoder().decode(self._plot.build()):
            self._console.print(line, no_wrap=True, crop=True)

    def line(self, x: Sequence[float], y: Sequence[float], *, label: str = "", point: str = "●") -> None:
        """Adds a line through points, whose marker tells it from others where there is no colour."""
        colour = COLOURS[self._drawn % len(COLOURS)]
        self._drawn += 1
        self._plot.plot(x, y, marker="braille", color=colour)
        self._plot.scatter(x, y, marker=point, color=colour, label=label or None)

    def curve(self, x: Sequence[float], y: Sequence[float], *, label: str) -> None:
        """Adds a line without its points, in the chart's next colour."""
        self._plot.plot(x, y, marker="braille", label=label)

    def upright(self, x: float) -> None:
        """Adds a vertical line."""
        self._plot.vline(x)

    def labels(self, x: str = "", y: str = "") -> None:
        """Names the axes."""
        self._plot.xlabel(x)
        self._plot.ylabel(y)

    def x_ticks(self, names: Mapping[float, str]) -> None:
        """Names places on the x axis, as many as fit side by side."""
        wide = max((len(name) for name in names.values()), default=1) + _TICKS_APART
        step = max(1, -(-len(names) * wide // self._width))
        shown = list(names.items())[::step]
        self._plot.xticks([place for place, _ in shown], [name for _, name in shown])

    def y_ticks(self, names: Mapping[float, str]) -> None:
        """Names places on the y axis."""
        self._plot.yticks(list(names), list(names.values()))
