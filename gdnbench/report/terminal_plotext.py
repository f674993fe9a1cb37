"""The one place that calls plotext: strokes and ticks to the text of a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gdnbench.errors import ChartError

REQUIREMENT = "plotext>=6.1,<7"  # as pyproject.toml asks for it
THIN = "braille"


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


def draw(plot: Plot, *, colour: bool) -> str:
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
