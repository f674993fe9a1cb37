"""The course of a value from run to run, drawn in the terminal: within its width, and readable without colour."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import count

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.text import Text

from gdnbench.errors import LeftOutWarning

WIDEST, LINES = 76, 14
COLOUR = 4  # of the terminal's own palette, which suits its user
REQUIREMENT = "plotext>=6.1,<7"  # as in pyproject.toml
_FRAME = 3  # lines of the frame and of the names below it
_TICKS_APART = 4  # columns between the names of two ticks
_LINES_A_TICK = 2
_ROUNDING = 1e-9  # of a step: by so much 0.3 / 0.05 may miss 6


def print_course(
    console: Console, title: str, values: Sequence[float], names: Sequence[str], steps: Sequence[int]
) -> None:
    """Prints a line through finite values, two or more, with an upright line before each place of `steps`.

    As many of the `names` of places stand below it as fit. A chart that cannot be drawn costs no more than itself: a
    LeftOutWarning says why.
    """
    try:
        drawn = _drawn(console, values, _fitting(names, min(console.width, WIDEST)), steps)
    except Exception as error:  # of any kind: a fault in plotext may only cost the chart
        why = " ".join(f"{type(error).__name__}: {error}".split())
        warnings.warn(f"no chart: {why}; it needs {REQUIREMENT}", LeftOutWarning, stacklevel=2)
        return
    console.print()
    console.print(Text(title, style="bold"))
    for row in AnsiDecoder().decode(drawn):
        console.print(row, no_wrap=True, crop=True)


def _drawn(console: Console, values: Sequence[float], below: Mapping[int, str], steps: Sequence[int]) -> str:
    import plotext

    low, high = min(values), max(values)
    if high - low <= 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    left = round_ticks(low, high, (LINES - _FRAME) // _LINES_A_TICK + 1)
    left = {place: name for place, name in left.items() if low <= place <= high}
    plotext.terminal.limit(False, False)  # the console sets the width; plotext would ask the process's terminal
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.canvas("default")
    figure.plot_size(min(console.width, WIDEST), LINES)
    figure.ruler("x").lim(0, len(values) - 1)
    figure.ruler("x").ticks(list(below), list(below.values()))
    figure.ruler("y", "left").lim(low, high)
    figure.ruler("y", "left").ticks(list(left), list(left.values()))
    places = range(len(values))
    for step in steps:
        upright = figure.signal([step - 0.5] * 2, [low, high], marker=plotext.marker("│", None))
        figure.draw(upright.lines(True))
    for mark, is_line in (("braille", True), ("●", False)):
        figure.draw(figure.signal(places, values, marker=plotext.marker(mark, COLOUR)).lines(is_line))
    return str(figure.build().string(colorless=not console.color_system))


def _fitting(names: Sequence[str], columns: int) -> dict[int, str]:
    """Returns names by their places: every so many-th, so that they fit side by side."""
    wide = max(map(len, names)) + _TICKS_APART
    every = max(1, -(-len(names) * wide // columns))
    return dict(list(enumerate(names))[::every])


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
