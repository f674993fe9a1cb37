"""The chart of times along the x axis, both logarithmic: a line per kernel; floors dashed, intervals as bars.

A panel holds workloads that differ only in the x axis: two at one x would look like one point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gdnbench.model.measurement import Measurement, Timing
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.render.terminal_chart import TerminalChart
from gdnbench.render.units import number
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import chosen_rows, interval_text, time_us
from gdnbench.report.charts.theme import Datum, Theme, expr
from gdnbench.store.info import read_info

if TYPE_CHECKING:
    import altair as alt

FOOT = 22  # pixels below the lowest floor, for its name
_STEPS = (1, 2, 3, 5)  # multiples of each power of 10 that a logarithmic axis labels, unless they are more than
_MOST_TICKS = 12
_ROOM = 1.15  # factor by which the ticks of the y axis exceed the slowest and the fastest
_TERMINAL_LINES = 20


def time_points(rows: Sequence[Measurement]) -> list[Datum]:
    """Returns the data of a chart of times: a point per row, in microseconds."""
    return [_point(row, row.timing) for row in rows if row.timing and row.role is not Role.CONTROL]


def kind_of(rows: Sequence[Measurement]) -> str:
    """Returns what the times of some rows are: `kernel time` by CUPTI, `stream time` by NVBench, `CPU time`."""
    if any(row.timing and row.timing.timer == "cpu" for row in rows):
        return "CPU time"
    return "kernel time" if any(row.clock == "cupti" for row in rows) else "stream time"


def time_chart(points: Sequence[Datum], titles: WorkloadSpec, colours: Theme, kind: str) -> alt.LayerChart:
    """Draws times in microseconds for the page; its list of kernels chooses the lines."""
    import altair as alt

    scale = alt.Scale(type="log", nice=False, padding=FOOT)
    axis = alt.Axis(title=f"{kind}, µs (log)", format="~g", labelOverlap="greedy", tickCount=8)
    return theme.layered(*_layers(points, titles, scale, axis, colours), data=points)


def print_times(console: Console, folder: Path, kernels: str = "", workloads: Sequence[Workload] | None = None) -> None:
    """Prints a chart per line of workloads; raises as `chosen_rows`, and ChartError if it cannot be drawn."""
    chosen, info = chosen_rows(folder, kernels, workloads), read_info(folder)
    console.print(Text(theme.heading(info), style="dim"), soft_wrap=True)
    for of in dict.fromkeys(row.case.workload.line for row in chosen):
        rows = sorted((row for row in chosen if row.case.workload.line == of), key=lambda row: row.case.workload.x)
        spec = rows[0].case.workload.spec
        title = f"{kind_of(rows)} in µs by {spec.x_words}, {of}; both axes logarithmic"
        with TerminalChart(console, title, _TERMINAL_LINES) as chart:
            for label, line in _lines(rows).items():
                chart.line(
                    {math.log2(row.case.workload.x): math.log10(time_us(row)) for row in line},
                    name=label,
                    values={math.log2(row.case.workload.x): f"{time_us(row):.3f}" for row in line},
                )
            chart.x_axis({math.log2(row.case.workload.x): row.case.workload.x_value for row in rows}, name=spec.x)
            times = list(map(time_us, rows))
            ticks = log_ticks(min(times) / _ROOM, max(times) * _ROOM)
            chart.y_axis({math.log10(tick): f"{tick:g}" for tick in ticks})


def _lines(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    lines: dict[str, list[Measurement]] = {}
    for row in rows:
        lines.setdefault(row.case.label, []).append(row)
    return dict(sorted(lines.items(), key=lambda line: -time_us(line[1][-1])))


def log_ticks(low: float, high: float) -> list[float]:
    """Returns the round numbers that a logarithmic axis labels."""
    powers = [10.0**decade for decade in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    ticks = [step * power for power in powers for step in _STEPS if low <= step * power <= high]
    return ticks if len(ticks) <= _MOST_TICKS else [tick for tick in ticks if tick in powers]


def _point(row: Measurement, timing: Timing) -> Datum:
    times = {"time": timing.time_us, "low": timing.time_lo_us, "high": timing.time_hi_us}
    return {
        "kernel": row.case.label,
        "x": row.case.workload.x,
        "at": row.case.workload.x_value,
        "floor": not row.role.does_the_work,
        **{name: time if math.isfinite(time) else None for name, time in times.items()},
        "text": interval_text(row),
        "share": number(timing.sol, ".1%"),
    }


def _layers(
    points: Sequence[Datum], titles: WorkloadSpec, scale: alt.Scale, axis: alt.Axis, colours: Theme
) -> list[alt.Chart]:
    import altair as alt

    places = sorted({point["x"] for point in points})
    x = alt.X(
        field="x",
        type="quantitative",
        scale=alt.Scale(type="log", base=2, nice=False, padding=18),
        axis=alt.Axis(title=f"{titles.x_title} (log)", values=places, grid=False, labelOverlap="greedy"),
    )
    y = alt.Y(field="time", type="quantitative", scale=scale, axis=axis)
    below = alt.Y(field="low", type="quantitative", scale=scale, axis=axis)
    tooltip = theme.tips(kernel="kernel", at=titles.x, text="time, µs", share="of bound")
    colour, faded = expr(colours.kernel_colour), expr(theme.OPACITY)

    base = alt.Chart().encode(x=x, y=y, detail=alt.Detail(field="kernel", type="nominal"))
    floors = base.transform_filter("datum.floor")
    kernels = base.transform_filter("!datum.floor").transform_filter(theme.SHOWN)
    known = kernels.transform_filter("isValid(datum.low) && isValid(datum.high)")
    named = floors.transform_filter(f"datum.x === {places[0]}").encode(text=alt.Text(field="kernel", type="nominal"))
    return [
        floors.mark_line(strokeDash=[5, 4], stroke=colours.floor),
        floors.mark_point(opacity=0, size=120, color=colours.floor).encode(tooltip=tooltip),
        named.mark_text(align="left", baseline="top", dy=6, fill=colours.muted),
        kernels.mark_line(stroke=colour, strokeWidth=expr(theme.WIDTH), opacity=faded),
        known.mark_rule(stroke=colour, opacity=faded).encode(y=below, y2=alt.Y2(field="high")),
        kernels.mark_point(
            filled=True, size=46, fill=colour, stroke=colours.paper, strokeWidth=0.8, shape=expr(theme.MARKER),
            opacity=faded,
        ).encode(tooltip=tooltip),
    ]  # fmt: skip
