"""Time against batch size, a line for each kernel, both axes logarithmic; floors dashed, intervals as bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from gdnbench.compare.figure import Figure
from gdnbench.model import Role
from gdnbench.report.plots.style import colours, label_ends, log_ticks, markers, panels, tidy
from gdnbench.report.plots.view import View
from gdnbench.report.terminal import TerminalChart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

EVERY_SHAPE, EMPTY_FLOOR = True, True
_TERMINAL_LINES = 20
_PANEL_INCHES, _LETTER_INCHES = 4.9, 0.07  # of the axes; of each letter of the names beside them


def draw(view: View) -> Picture:
    """Draws a panel for each head layout."""
    layouts = _layouts(view)
    named = max(len(name) for figures in layouts.values() for name, _, _, _ in _ends(figures))
    picture, every = panels(len(layouts), _PANEL_INCHES + _LETTER_INCHES * named, 4.6, view.title)
    for panel, (heads, figures) in zip(every, layouts.items(), strict=True):
        _set_axes(panel, figures)
        told = f"time by batch size, {heads}; at the right: µs at B={_sizes(figures)[-1]}"
        panel.set_title(told, fontsize=10, loc="left")
    picture.draw_without_rendering()  # the layout must stand before labels can be placed
    for panel, figures in zip(every, layouts.values(), strict=True):
        _draw_lines(panel, figures)
    return picture


def show(view: View, console: Console) -> None:
    """Prints a chart for each head layout."""
    for heads, figures in _layouts(view).items():
        title = f"time in µs by batch size, {heads}; both axes logarithmic"
        with TerminalChart(console, title, _TERMINAL_LINES) as chart:
            for label, line in _lines(figures).items():
                chart.line(
                    {math.log2(each.shape.B): math.log10(each.time_us) for each in line},
                    name=label,
                    values={math.log2(each.shape.B): f"{each.time_us:.3f}" for each in line},
                )
            chart.x_axis({math.log2(size): str(size) for size in _sizes(figures)}, name="B")
            low, high = _limits(figures)
            chart.y_axis({math.log10(tick): f"{tick:g}" for tick in log_ticks(low, high)})


def _layouts(view: View) -> dict[str, list[Figure]]:
    found: dict[str, list[Figure]] = {}
    for shape in view.shapes:
        found.setdefault(shape.heads, []).extend(view.timed(shape, view.labels))
    return {heads: figures for heads, figures in found.items() if figures}


def _lines(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """By label, slowest at the end first, each in order of batch size."""
    lines: dict[str, list[Figure]] = {}
    for each in sorted(figures, key=lambda figure: figure.shape.B):
        lines.setdefault(each.label, []).append(each)
    return dict(sorted(lines.items(), key=lambda line: -line[1][-1].time_us))


def _sizes(figures: Sequence[Figure]) -> list[int]:
    return sorted({each.shape.B for each in figures})


def _limits(figures: Sequence[Figure]) -> tuple[float, float]:
    times = [each.time_us for each in figures]
    return min(times) / 1.15, max(times) * 1.15


def _set_axes(panel: Axes, figures: Sequence[Figure]) -> None:
    sizes, (low, high) = _sizes(figures), _limits(figures)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xlim(sizes[0] / 1.2, sizes[-1] * 1.2)
    panel.set_ylim(low, high)
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.set_yticks(log_ticks(low, high), [f"{tick:g}" for tick in log_ticks(low, high)])
    panel.minorticks_off()
    panel.set_xlabel("batch size B", fontsize=9)
    panel.set_ylabel("time, µs", fontsize=9)
    tidy(panel, grid="y")


def _arm(length: float) -> float:
    """A bar's length; none where the interval is unknown, or where rounding put its end beyond the time."""
    return max(length, 0.0) if math.isfinite(length) else 0.0


def _draw_lines(panel: Axes, figures: Sequence[Figure]) -> None:
    colour, marker = colours(figures), markers(figures)
    lines = _lines(figures)
    for label, line in lines.items():
        times = [each.time_us for each in line]
        panel.errorbar(
            [each.shape.B for each in line],
            times,
            yerr=[
                [_arm(each.time_us - each.low_us) for each in line],
                [_arm(each.high_us - each.time_us) for each in line],
            ],
            color=colour[label],
            marker=marker[label],
            markersize=4,
            linewidth=1.3,
            capsize=2,
            linestyle="--" if line[0].role is Role.FLOOR else "-",
        )
    label_ends(panel, _ends(figures))


def _ends(figures: Sequence[Figure]) -> list[tuple[str, float, float, str]]:
    """What stands at the end of each line: its name and its time there, which tell apart lines that hide each other."""
    colour, largest = colours(figures), _sizes(figures)[-1]
    ends = {label: line[-1] for label, line in _lines(figures).items()}
    where = {label: f" at B={end.shape.B}" if largest > end.shape.B else "" for label, end in ends.items()}
    return [
        (f"{label}  {end.time_us:.3f}{where[label]}", float(end.shape.B), end.time_us, colour[label])
        for label, end in ends.items()
    ]
