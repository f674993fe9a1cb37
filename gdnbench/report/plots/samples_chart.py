"""How the samples of each kernel lie: a histogram for each, on a common axis, with the printed time marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from gdnbench.compare.figure import Figure
from gdnbench.model import Shape
from gdnbench.report.plots.named_rows import NamedRows
from gdnbench.report.plots.samples import read_samples
from gdnbench.report.plots.strips import blocks, colour_of, name_strip, strips
from gdnbench.report.plots.style import log_ticks
from gdnbench.report.plots.view import View
from gdnbench.stats import FloatArray, infer_tick_us

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

EVERY_SHAPE, EMPTY_FLOOR = False, False
MOST_BINS = 160
_FEWEST_BINS, _MOST_BINS_IN_TERMINAL = 16, 48
_TIME = 10  # columns in the terminal
_BINS_AROUND = 2  # that whole ticks may add
_SHOWN = (0.1, 99.0)  # percentiles between which the axis lies
_LOG_ABOVE = 6.0  # times further apart than this ratio stand on a logarithmic axis


def draw(view: View) -> Picture:
    """Draws a column of histograms for each shape."""
    columns = {shape: _samples(view, shape) for shape in view.shapes}
    groups = [(f"samples, {shape}", len(rows)) for shape, rows in columns.items()]
    picture, every = strips(groups, 6.4, view.title)
    for panels, rows in zip(every, columns.values(), strict=True):
        edges = _edges([times for _, times in rows], MOST_BINS)
        for panel, (figure, times) in zip(panels, rows, strict=True):
            panel.hist(times, bins=list(edges), color=colour_of(figure), histtype="stepfilled", linewidth=0)
            panel.axvline(figure.time_us, color="#D55E00", linewidth=1.0)
            name_strip(panel, figure)
        panels[-1].set_xlim(edges[0], edges[-1])
        if _is_wide(edges):
            panels[-1].set_xscale("log")
            ticks = log_ticks(float(edges[0]), float(edges[-1]))
            panels[-1].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            for panel in panels:
                panel.minorticks_off()
        panels[-1].set_xlabel("sample, µs; line: the kernel's time; the slowest, at most 1 %, are cut off", fontsize=8)
    return picture


def show(view: View, console: Console) -> None:
    """Prints a line of blocks for each kernel."""
    for shape in view.shapes:
        rows = _samples(view, shape)
        named = NamedRows.of(console, [figure.label for figure, _ in rows], _TIME + _FEWEST_BINS + _BINS_AROUND)
        bins = max(_FEWEST_BINS, min(_MOST_BINS_IN_TERMINAL, named.room - _TIME - _BINS_AROUND))
        edges = _edges([times for _, times in rows], bins)
        console.print(Text(f"samples in µs, {shape}{'; logarithmic' if _is_wide(edges) else ''}", style="bold"))
        for figure, times in rows:
            heights = np.histogram(times, bins=edges)[0].astype(float)
            heights[heights == 0] = np.nan
            bars = blocks(heights, 0.0, float(np.nanmax(heights)))
            named.print(Text(f"{figure.time_us:8.3f}  {bars}"), figure.label)
        ends = f"{edges[0]:.2f}", f"{edges[-1]:.2f}"
        gap = " " * max(1, len(edges) - 1 - sum(map(len, ends)))
        named.print(Text(f"{'':{_TIME}}{ends[0]}{gap}{ends[1]}", style="dim"))


def _samples(view: View, shape: Shape) -> list[tuple[Figure, FloatArray]]:
    return read_samples(view.folder, view.at(shape))


def _is_wide(edges: FloatArray) -> bool:
    return float(edges[-1] / edges[0]) > _LOG_ABOVE


def _edges(every: list[FloatArray], most: int) -> FloatArray:
    """Edges of bins; where the timer ticks, each holds equally many ticks, or the bins would beat with them."""
    low = min(float(np.percentile(times, _SHOWN[0])) for times in every)
    high = max(float(np.percentile(times, _SHOWN[1])) for times in every)
    high = max(high, 1.01 * low)
    if high / low > _LOG_ABOVE:
        return np.geomspace(low, high, most + 1)
    tick = infer_tick_us(np.concatenate(every))
    if tick is None:
        return np.linspace(low, high, most + 1)
    first, last = np.floor(low / tick), np.ceil(high / tick)
    each = max(1.0, np.ceil((last - first) / most))
    return np.arange(first - 0.5 - each, last + each, each) * tick
