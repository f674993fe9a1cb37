"""The report's section of a run: its charts, and a table for each workload; and of a sweep: its answers and points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gdnbench.errors import UsageError
from gdnbench.model.measurement import Measurement, Plateau, Sweep, Timing
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload, label_slug
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.origin import PROFILES
from gdnbench.profile.timeline import find_spans
from gdnbench.render.table import Table
from gdnbench.render.units import flops_bind, number, traffic
from gdnbench.report.charts import theme
from gdnbench.report.charts.roofline import bounded, points_of, read_roof, roofline_chart
from gdnbench.report.charts.selection import choices_of, interval_text, kind_of, slots_of, timed, workload_slug
from gdnbench.report.charts.theme import Datum, expr, page_spec, slot_params
from gdnbench.report.charts.timeline import NOTE, timeline_chart
from gdnbench.verbs.html import report
from gdnbench.verbs.run_notes import control_lines, inputs_lines
from gdnbench.verbs.run_tables import WorkloadView
from gdnbench.verbs.sweep import one_for_all_text, plateau_text, point_columns

if TYPE_CHECKING:
    import altair as alt


TIMES_HEIGHT = 400  # pixels
FOOT = 22  # pixels below the lowest floor, for its name
_FLOORS = " Dashed: the floors, below which no kernel of this grid or traffic can come."


def run_section(stored: report.ReportedRun, prefix: str) -> report.HtmlSection:
    """Makes the section of one run; `prefix` begins all of its ids."""
    info = stored.info
    picker = f"{prefix}-kernels"
    choices = choices_of(stored.rows, info.baseline)
    shown = slots_of([choice for choice in choices if choice.chosen])
    leading = stored.leading(stored.rows)
    charts = times_charts(leading, prefix=prefix, picker=picker, shown=shown, baseline=info.baseline)
    roofline, lacking = _roofline(stored, leading, f"{prefix}-roofline", picker, shown)
    charts += roofline
    return report.HtmlSection(
        id=prefix,
        title=info.run_id,
        lead=report.lead_line(stored),
        badge="" if info.complete else "partial",
        warnings=tuple(info.warnings),
        choices=choices if charts else (),
        charts=tuple(charts),
        lines=tuple(lacking),
        parts=tuple(_part(stored, workload, prefix) for workload in stored.workloads),
    )


def _roofline(
    stored: report.ReportedRun, rows: Sequence[Measurement], name: str, picker: str, shown: Sequence[str]
) -> tuple[list[report.HtmlChart], list[str]]:
    """Draws the roofline of a run on a GPU; or returns the line that says what the run lacks for it."""
    if not stored.info.on_gpu or not timed(rows):
        return [], []
    try:
        points, roof = points_of(rows), read_roof(stored.info, timed(rows))
    except UsageError as error:
        return [], [f"No roofline: {error.message}; {error.hint}."]
    chart = roofline_chart(points, roof).add_params(*slot_params(shown, stored.info.baseline))
    bars = " Short bars: the bound of each workload." if bounded(points) else ""
    drawn = report.HtmlChart(
        id=name,
        title=f"Roofline, by {kind_of(rows)}",
        note=f"{'. '.join(line[0].upper() + line[1:] for line in roof.lines)}.{bars}",
        spec=page_spec(chart, TIMES_HEIGHT, f"Roofline of {stored.info.op}: TFLOP/s by FLOPs a byte"),
        height=TIMES_HEIGHT,
        picker=picker,
    )
    return [drawn], []


def times_charts(
    rows: Sequence[Measurement], *, prefix: str, picker: str, shown: Sequence[str], baseline: str
) -> list[report.HtmlChart]:
    """Draws a chart per line of workloads that was measured at two x values or more."""
    found = []
    for line in dict.fromkeys(row.case.workload.line for row in rows):
        here = [row for row in rows if row.case.workload.line == line]
        points, titles = time_points(here), here[0].case.workload.spec
        if len({point["x"] for point in points}) < 2:
            continue
        params, slug = slot_params(shown, baseline), label_slug(here[0].case.workload.line)
        kind = kind_of(here).capitalize()
        title = ", ".join(filter(None, [f"{kind} against {titles.x_title}", line]))
        absolute = time_chart(points, titles, kind_of(here)).add_params(*params)
        found.append(
            report.HtmlChart(
                id=f"{prefix}-times-{slug}",
                title=title,
                note="Both axes logarithmic. Bars are intervals; most are narrower than their point."
                f"{_FLOORS if any(point['floor'] for point in points) else ''}",
                spec=page_spec(absolute, TIMES_HEIGHT, title),
                height=TIMES_HEIGHT,
                picker=picker,
            )
        )
    return found


def _part(stored: report.ReportedRun, workload: Workload, prefix: str) -> report.HtmlPart:
    rows, name = stored.at(workload), f"{prefix}-{workload_slug(workload)}"
    ordered = timed(rows)
    return report.HtmlPart(
        id=name,
        title=f"{workload}  ({traffic(max(row.nbytes for row in rows))}{_bound_words(stored, rows)})",
        lines=tuple(line.plain for line in (*control_lines(rows), *inputs_lines(rows))),
        charts=tuple(_timelines(stored, ordered, name)),
        table=_run_table(stored, ordered, name=f"{name}-table", where=str(workload)) if ordered else None,
        failures=report.failures_of(rows),
    )


def _timelines(stored: report.ReportedRun, rows: Sequence[Measurement], name: str) -> Iterator[report.HtmlChart]:
    """Yields a timeline of each kernel that `gdnbench proton` has stamped at a workload on the run's GPU model."""
    for case in dict.fromkeys(row.case for row in rows):
        source = stored.info.sources.get(case.variant.kernel, "")
        spans = find_spans(PROFILES, case.label, case.workload, gpu=stored.info.gpu, source=source)
        if spans:
            chart, height = timeline_chart(spans)
            title, id_ = f"Inside {case.label}", f"{name}-{label_slug(case.label)}-inside"
            spec = page_spec(chart, height, f"{title}: when each warp was in which phase, {case.workload}")
            yield report.HtmlChart(id=id_, title=title, note=NOTE, spec=spec, height=height)


def _bound_words(stored: report.ReportedRun, rows: Sequence[Measurement]) -> str:
    """Returns what bounds a workload, in a run where FLOPs bound one; empty in others."""
    if not flops_bind(stored.rows) or not any(row.timing for row in rows):
        return ""
    return f", bound by {'FLOPs' if flops_bind(rows) else 'copying'}"


def _run_table(stored: report.ReportedRun, rows: Sequence[Measurement], *, name: str, where: str) -> report.HtmlTable:
    kernel_times = stored.kernel_times_of(rows) if stored.kernel_times else None
    view = WorkloadView(stored.info, rows, where, kernel_times, flops=flops_bind(stored.rows))
    lines = view.lines()
    table = Table(tuple(view.columns(lines, full=True)), lines)
    return report.html_table(table, name, f"{where}, fastest first", lambda line: _kind(line.row), filled=True)


def _kind(row: Measurement) -> str:
    return row.role.value if row.role is Role.BASELINE or not row.role.does_the_work else ""


def time_points(rows: Sequence[Measurement]) -> list[Datum]:
    """Returns the data of a chart of times: a point per row, in microseconds."""
    return [_point(row, row.timing) for row in rows if row.timing and row.role is not Role.CONTROL]


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


def time_chart(points: Sequence[Datum], titles: WorkloadSpec, kind: str) -> alt.LayerChart:
    """Draws times in microseconds along the x axis, both logarithmic; the page's list of kernels chooses the lines."""
    import altair as alt

    scale = alt.Scale(type="log", nice=False, padding=FOOT)
    axis = alt.Axis(title=f"{kind}, µs (log)", format="~g", labelOverlap="greedy", tickCount=8)
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
    colour, faded = expr(theme.KERNEL_COLOUR), expr(theme.OPACITY)

    base = alt.Chart().encode(x=x, y=y, detail=alt.Detail(field="kernel", type="nominal"))
    floors = base.transform_filter("datum.floor")
    kernels = base.transform_filter("!datum.floor").transform_filter(theme.SHOWN)
    known = kernels.transform_filter("isValid(datum.low) && isValid(datum.high)")
    named = floors.transform_filter(f"datum.x === {places[0]}").encode(text=alt.Text(field="kernel", type="nominal"))
    layers = [
        floors.mark_line(strokeDash=[5, 4], stroke=theme.FLOOR),
        floors.mark_point(opacity=0, size=120, color=theme.FLOOR).encode(tooltip=tooltip),
        named.mark_text(align="left", baseline="top", dy=6, fill=theme.MUTED),
        kernels.mark_line(stroke=colour, strokeWidth=expr(theme.WIDTH), opacity=faded),
        known.mark_rule(stroke=colour, opacity=faded).encode(y=below, y2=alt.Y2(field="high")),
        kernels.mark_point(
            filled=True, size=46, fill=colour, stroke=theme.PAPER, strokeWidth=0.8, shape=expr(theme.MARKER),
            opacity=faded,
        ).encode(tooltip=tooltip),
    ]  # fmt: skip
    return theme.layered(*layers, data=points)


def sweep_section(stored: report.ReportedRun, sweep: Sweep, prefix: str) -> report.HtmlSection:
    """Makes the section of one sweep; `prefix` begins all of its ids."""
    return report.HtmlSection(
        id=prefix,
        title=stored.info.run_id,
        lead=f"{report.lead_line(stored)}. Tried: {sweep.tried}.",
        badge="" if stored.info.complete else "partial",
        warnings=tuple(stored.info.warnings),
        lines=tuple(one_for_all_text(sweep, one).plain for one in sweep.one_for_all),
        parts=tuple(
            _plateau_part(stored, sweep, plateau, f"{prefix}-{number}-{workload_slug(plateau.workload)}")
            for number, plateau in enumerate(sweep.plateaus, start=1)
        ),
        failures=report.failures_of(stored.rows, workloads=True),
    )


def _plateau_part(stored: report.ReportedRun, sweep: Sweep, plateau: Plateau, name: str) -> report.HtmlPart:
    points, title = sweep.of(plateau), f"{plateau.kernel}, {plateau.workload}"
    rows = {(row.case.label, row.case.workload): row for row in stored.rows}
    table = Table(point_columns(sweep, plateau, points, rows), points)
    controls = control_lines(stored.at(plateau.workload))
    return report.HtmlPart(
        id=name,
        title=title,
        lines=(*plateau_text(sweep, plateau, rows).plain.splitlines(), *(line.plain for line in controls)),
        table=report.html_table(table, f"{name}-table", f"{title}, fastest first"),
        folded=f"All {len(points)} points" if len(points) > 1 else "The point",
    )
