"""The chart of times along the x axis, both logarithmic: a line per kernel; floors dashed, intervals as bars.

A panel holds workloads that differ only in the x axis: two at one x would look like one point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.render.terminal_chart import TerminalChart
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import chosen_rows, interval_text, time_us
from gdnbench.report.charts.theme import Datum, Theme, expr
from gdnbench.store.info import read_info

if TYPE_CHECKING:
    import altair as alt

ABSOLUTE, RELATIVE = ("time", "low", "high"), ("time_above", "low_above", "high_above")
FOOT = 22  # pixels below the lowest floor, for its name
_STEPS = (1, 2, 3, 5)  # multiples of each power of 10 that a logarithmic axis labels
_ROOM = 1.15  # factor by which the ticks of the y axis exceed the slowest and the fastest
_TERMINAL_LINES = 20


def time_points(rows: Sequence[Measurement]) -> list[Datum]:
    """Returns the data of a chart of times: a point per row, in microseconds and over the copying floor."""
    return [
        _point(row, _copy_us(rows, row.case.workload)) for row in rows if row.timing and row.role is not Role.CONTROL
    ]


def above_floor(points: Sequence[Datum]) -> list[Datum]:
    """Returns the points whose time over the copying floor is known; of the floors, only the copying floor."""
    return [point for point in points if "above" in point and (not point["floor"] or point["time_above"] == 1)]


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
    layers = _layers(points, ABSOLUTE, titles, scale, axis, colours)
    return theme.layered(*layers, data=points)


def relative_chart(points: Sequence[Datum], titles: WorkloadSpec, colours: Theme) -> alt.LayerChart:
    """Draws times over the copying floor's at the same workload, for the page."""
    import altair as alt

    moving = above_floor(points)
    scale = alt.Scale(zero=False, nice=False, padding=FOOT)
    axis = alt.Axis(title="time / time of the copying floor", format=".2~f", labelOverlap="greedy")
    layers = _layers(moving, RELATIVE, titles, scale, axis, colours)
    return theme.layered(*layers, data=moving)


def print_times(console: Console, folder: Path, kernels: str = "", workloads: Sequence[Workload] | None = None) -> None:
    """Prints a chart per line of workloads; raises as `chosen_rows`, and ChartError if it cannot be drawn."""
    chosen, info = chosen_rows(folder, kernels, workloads), read_info(folder)
    theme.print_heading(console, info)
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
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**decade for decade in decades for step in _STEPS if low <= step * 10.0**decade <= high]


def _point(row: Measurement, copy_us: float) -> Datum:
    timing = row.timing
    assert timing
    known = [timing.time_us, timing.time_lo_us, timing.time_hi_us]
    times = dict(zip(ABSOLUTE, (time if math.isfinite(time) else None for time in known), strict=True))
    point: Datum = {
        "kernel": row.case.label,
        "x": row.case.workload.x,
        "at": row.case.workload.x_value,
        "floor": not row.role.does_the_work,
        **times,
        "text": interval_text(row),
    }
    if not math.isnan(copy_us):
        point |= {f"{name}_above": time / copy_us if time else None for name, time in times.items()}
        point["above"] = f"{timing.time_us / copy_us:.3f}"
    return point


def _copy_us(rows: Sequence[Measurement], workload: Workload) -> float:
    """Returns the time of the fastest copying floor, a floor that moves something, or NaN."""
    here = (
        row for row in rows if row.role is Role.FLOOR and row.timing and row.case.workload == workload and row.nbytes
    )
    return min(map(time_us, here), default=math.nan)


def _layers(
    points: Sequence[Datum],
    fields: tuple[str, str, str],
    titles: WorkloadSpec,
    scale: alt.Scale,
    axis: alt.Axis,
    colours: Theme,
) -> list[alt.Chart]:
    import altair as alt

    time, low, high = fields
    places = sorted({point["x"] for point in points})
    x = alt.X(
        field="x",
        type="quantitative",
        scale=alt.Scale(type="log", base=2, nice=False, padding=18),
        axis=alt.Axis(title=f"{titles.x_title} (log)", values=places, grid=False, labelOverlap="greedy"),
    )
    y = alt.Y(field=time, type="quantitative", scale=scale, axis=axis)
    below = alt.Y(field=low, type="quantitative", scale=scale, axis=axis)
    tooltip = theme.tips(kernel="kernel", at=titles.x, text="time, µs", above="over the copying floor")
    colour, faded = expr(colours.kernel_colour), expr(theme.OPACITY)

    base = alt.Chart().encode(x=x, y=y, detail=alt.Detail(field="kernel", type="nominal"))
    floors = base.transform_filter("datum.floor")
    kernels = base.transform_filter("!datum.floor").transform_filter(theme.SHOWN)
    known = kernels.transform_filter(f"isValid(datum.{low}) && isValid(datum.{high})")
    named = floors.transform_filter(f"datum.x === {places[0]}").encode(text=alt.Text(field="kernel", type="nominal"))
    return [
        floors.mark_line(strokeDash=[5, 4], stroke=colours.floor),
        floors.mark_point(opacity=0, size=120, color=colours.floor).encode(tooltip=tooltip),
        named.mark_text(align="left", baseline="top", dy=6, fill=colours.muted),
        kernels.mark_line(stroke=colour, strokeWidth=expr(theme.WIDTH), opacity=faded),
        known.mark_rule(stroke=colour, opacity=faded).encode(y=below, y2=alt.Y2(field=high)),
        kernels.mark_point(
            filled=True, size=46, fill=colour, stroke=colours.paper, strokeWidth=0.8, shape=expr(theme.MARKER),
            opacity=faded,
        ).encode(tooltip=tooltip),
    ]  # fmt: skip
