"""The chart of times along the x axis, both logarithmic: a line per kernel; floors dashed, intervals as bars.

A panel holds workloads that differ only in the x axis: two at one x would look like one point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.render.terminal_chart import TerminalChart
from gdnbench.report.charts import theme
from gdnbench.report.charts.layout import log_ticks, spread
from gdnbench.report.charts.selection import ChartView, interval_text, time_us
from gdnbench.report.charts.theme import EN_SPACE, LIGHT, Datum, Theme, expr

if TYPE_CHECKING:
    import altair as alt

EVERY_WORKLOAD, EMPTY_FLOOR, KERNEL_TIMES = True, True, True
ABSOLUTE, RELATIVE = ("time", "low", "high"), ("time_above", "low_above", "high_above")
FOOT = 22  # pixels below the lowest floor, for its name
_WIDTH, _HEIGHT = 460, 420  # pixels of a panel of a picture
_ROOM = 1.15  # factor by which a picture's y axis exceeds the slowest and the fastest
_APART, _AWAY = 15, 20  # pixels between names, and from the axes to them
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
    """Returns what the times of some rows are: `kernel time` by CUPTI, `time` by the run's own timer."""
    return "kernel time" if any(row.clock == "cupti" for row in rows) else "time"


def time_chart(points: Sequence[Datum], titles: WorkloadSpec, colours: Theme, kind: str) -> alt.LayerChart:
    """Draws times in microseconds for the page; its list of kernels chooses the lines."""
    import altair as alt

    scale = alt.Scale(type="log", nice=False, padding=FOOT)
    axis = alt.Axis(title=f"{kind}, µs (log)", format="~g", labelOverlap="greedy", tickCount=8)
    layers = _layers(points, ABSOLUTE, titles, scale, axis, colours, floors_named=True)
    return theme.layered(*layers, data=points)


def relative_chart(points: Sequence[Datum], titles: WorkloadSpec, colours: Theme) -> alt.LayerChart:
    """Draws times over the copying floor's at the same workload, for the page."""
    import altair as alt

    moving = above_floor(points)
    scale = alt.Scale(zero=False, nice=False, padding=FOOT)
    axis = alt.Axis(title="time / time of the copying floor", format=".2~f", labelOverlap="greedy")
    layers = _layers(moving, RELATIVE, titles, scale, axis, colours, floors_named=True)
    return theme.layered(*layers, data=moving)


def draw(view: ChartView) -> alt.ConcatChart:
    """Draws a panel per line of workloads, with the name and last time of each kernel at its right."""
    panels = [_panel(of, rows) for of, rows in _by_line(view).items()]
    return theme.picture(panels, view.title).add_params(*theme.slot_params(view.slots, view.info.baseline))


def show(view: ChartView, console: Console) -> None:
    """Prints a chart per line of workloads."""
    for of, rows in _by_line(view).items():
        title = f"{kind_of(rows)} in µs by {_spec(rows).x_words}, {of}; both axes logarithmic"
        with TerminalChart(console, title, _TERMINAL_LINES) as chart:
            for label, line in _lines(rows).items():
                chart.line(
                    {math.log2(row.case.workload.x): math.log10(time_us(row)) for row in line},
                    name=label,
                    values={math.log2(row.case.workload.x): f"{time_us(row):.3f}" for row in line},
                )
            places = {math.log2(row.case.workload.x): row.case.workload.x_value for row in _along_x(rows)}
            chart.x_axis(places, name=_spec(rows).x)
            low, high = _limits(rows)
            chart.y_axis({math.log10(tick): f"{tick:g}" for tick in log_ticks(low, high)})


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
    *,
    floors_named: bool,
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
    first = named.mark_text(align="left", baseline="top", dy=6, fill=colours.muted)
    return [
        floors.mark_line(strokeDash=[5, 4], stroke=colours.floor),
        floors.mark_point(opacity=0 if floors_named else 1, size=120 if floors_named else 30, color=colours.floor)
        .encode(tooltip=tooltip),
        *([first] if floors_named else []),
        kernels.mark_line(stroke=colour, strokeWidth=expr(theme.WIDTH), opacity=faded),
        known.mark_rule(stroke=colour, opacity=faded).encode(y=below, y2=alt.Y2(field=high)),
        kernels.mark_point(
            filled=True, size=46, fill=colour, stroke=colours.paper, strokeWidth=0.8, shape=expr(theme.MARKER),
            opacity=faded,
        ).encode(tooltip=tooltip),
    ]  # fmt: skip


def _panel(of: str, rows: Sequence[Measurement]) -> alt.LayerChart:
    import altair as alt

    points = time_points(rows)
    low, high = _limits(rows)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(title=f"{kind_of(rows)}, µs (log)", format="~g", values=log_ticks(low, high))
    layers = _layers(points, ABSOLUTE, _spec(rows), scale, axis, LIGHT, floors_named=False)
    largest = _along_x(rows)[-1].case.workload
    return theme.layered(*layers, *_end_names(rows, scale, axis), data=points).properties(
        width=_WIDTH,
        height=_height(rows),
        title=theme.panel_title(
            f"{kind_of(rows)} by {_spec(rows).x_words}, {of}",
            f"dashed: floors; at the right: µs at {largest.x_term}",
        ),
    )


def _end_names(rows: Sequence[Measurement], scale: alt.Scale, axis: alt.Axis) -> list[alt.Chart]:
    """Draws name and time at each line's end, to tell apart lines that hide each other; leaders lead to moved names."""
    import altair as alt

    low, high = _limits(rows)
    ends, largest = {label: line[-1] for label, line in _lines(rows).items()}, _along_x(rows)[-1].case.workload.x
    where = {
        label: "" if row.case.workload.x == largest else f" at {row.case.workload.x_term}"
        for label, row in ends.items()
    }
    places = [math.log(time_us(row) / low) / math.log(high / low) for row in ends.values()]
    data = [
        {
            "kernel": label,
            "floor": not row.role.does_the_work,
            "x": row.case.workload.x,
            "time": time_us(row),
            "name_at": low * (high / low) ** place,
            "name": f"{label}{EN_SPACE}{time_us(row):.3f}" + where[label],
        }
        for (label, row), place in zip(ends.items(), spread(places, _APART / _height(rows), 0.0, 1.0), strict=True)
    ]
    colour = expr(f"datum.floor ? '{LIGHT.muted}' : ({LIGHT.kernel_colour})")
    base = alt.Chart(theme.inline(data))
    leader = base.mark_rule(stroke=colour, strokeWidth=0.6).encode(
        x=alt.X(field="x", type="quantitative"),
        x2=alt.value(_WIDTH + _AWAY - 4),
        y=alt.Y(field="time", type="quantitative", scale=scale, axis=axis),
        y2=alt.Y2(field="name_at"),
    )
    name = base.mark_text(align="left", baseline="middle", fill=colour).encode(
        x=alt.value(_WIDTH + _AWAY),
        y=alt.Y(field="name_at", type="quantitative", scale=scale, axis=axis),
        text=alt.Text(field="name", type="nominal"),
    )
    return [leader, name]


def _height(rows: Sequence[Measurement]) -> float:
    return max(_HEIGHT, _APART * len({row.case.label for row in rows}))


def _spec(rows: Sequence[Measurement]) -> WorkloadSpec:
    return rows[0].case.workload.spec


def _by_line(view: ChartView) -> dict[str, list[Measurement]]:
    found: dict[str, list[Measurement]] = {}
    for workload in view.workloads:
        here = [row for row in view.measured(workload) if row.case.label in view.labels]
        found.setdefault(workload.line, []).extend(here)
    return {line: rows for line, rows in found.items() if rows}


def _lines(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """Returns the rows by label, slowest at the end first, each along the x axis."""
    lines: dict[str, list[Measurement]] = {}
    for row in _along_x(rows):
        lines.setdefault(row.case.label, []).append(row)
    return dict(sorted(lines.items(), key=lambda line: -time_us(line[1][-1])))


def _along_x(rows: Sequence[Measurement]) -> list[Measurement]:
    return sorted(rows, key=lambda row: row.case.workload.x)


def _limits(rows: Sequence[Measurement]) -> tuple[float, float]:
    times = [time_us(row) for row in rows]
    return min(times) / _ROOM, max(times) * _ROOM
