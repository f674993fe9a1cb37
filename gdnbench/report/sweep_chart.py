"""A sweep as a chart in the terminal: lines for one param, a heat map for two."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.model import Plateau, Point, Sweep
from gdnbench.report.sweep_view import best_at, leading_params, varied
from gdnbench.report.terminal import TerminalChart

_NARROWEST_CELL = 7
_WORST = 0.2  # slower by this much, a cell is as red as it gets
_GREENEST, _REDDEST = (38, 166, 91), (192, 57, 43)


def print_charts(console: Console, sweep: Sweep, each: AbstractContextManager[object]) -> None:
    """A chart for each kernel: one with a line a shape if one param varies, a heat map a shape if more do.

    Args:
        console: where to.
        sweep: with its points.
        each: around each line chart; what to do with one that cannot be drawn.

    Raises:
        ChartError: for a line chart that cannot be drawn, unless `each` keeps it.
    """
    for kernel, axes in sweep.axes.items():
        plateaus = [plateau for plateau in sweep.plateaus if plateau.kernel == kernel]
        names = varied(axes)
        if not plateaus or not names:
            continue
        if len(names) == 1:
            with each:
                _print_lines(console, sweep, plateaus, next(iter(names)), next(iter(names.values())))
        else:
            leading = leading_params([sweep.of(plateau) for plateau in plateaus], names)
            for plateau in plateaus:
                _print_heat(console, sweep.of(plateau), plateau, names, leading)


def _print_lines(
    console: Console, sweep: Sweep, plateaus: Sequence[Plateau], name: str, values: Sequence[int | str]
) -> None:
    with TerminalChart(console, f"{plateaus[0].kernel}: % slower than the best, by {name}") as chart:
        for plateau in plateaus:
            best = best_at(sweep.of(plateau), [name])
            percents: dict[float, float] = {
                place: 100 * best[value,].slower_by for place, value in enumerate(values) if (value,) in best
            }
            told = {place: f"{percent:.1f}" for place, percent in percents.items()}
            chart.line(percents, name=str(plateau.shape), values=told)
        chart.x_axis({place: str(value) for place, value in enumerate(values)}, name=name)


def _print_heat(
    console: Console,
    points: Sequence[Point],
    plateau: Plateau,
    names: dict[str, list[int | str]],
    leading: tuple[str, str],
) -> None:
    down, across = leading
    others = [name for name in names if name not in leading]
    best = best_at(points, [down, across])
    console.print()
    rest = f", the best of {', '.join(others)} in each cell" if others else ""
    console.print(Text(f"{plateau.kernel} {plateau.shape}: % slower than the best{rest}", style="bold"))
    corner = f"{down} \\ {across} "
    cell = max(_NARROWEST_CELL, *(len(f"{value} ") for value in names[across]))
    at_once = max(1, (console.width - len(corner)) // cell)
    for first in range(0, len(names[across]), at_once):
        columns = names[across][first : first + at_once]
        table = Table(box=None, pad_edge=False, padding=(0, 0), header_style="bold")
        table.add_column(corner, no_wrap=True)
        for value in columns:
            table.add_column(f"{value} ", justify="right", no_wrap=True, min_width=cell)
        for value in names[down]:
            table.add_row(Text(str(value), style="bold"), *(_heat(best.get((value, other))) for other in columns))
        console.print(table)


def _heat(point: Point | None) -> Text:
    if point is None:
        return Text("- ", style="dim")
    share = min(max(point.slower_by, 0.0) / _WORST, 1.0)
    colour = ",".join(str(round(low + share * (high - low))) for low, high in zip(_GREENEST, _REDDEST, strict=True))
    return Text(f"{100 * point.slower_by:.1f} ", style=f"white on rgb({colour})")
