"""The report's section of a sweep: its answer, a heat map per kernel and workload, and every point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gdnbench.model.measurement import Measurement, OneForAll, Place, Plateau, Point, Sweep
from gdnbench.model.workload import Workload
from gdnbench.render.codec import GLYPHS
from gdnbench.render.table import Column, Table
from gdnbench.render.units import half_text, params_text, percent
from gdnbench.report.charts.selection import workload_slug
from gdnbench.report.charts.sweep import sweep_chart, varied
from gdnbench.report.charts.theme import page_spec
from gdnbench.verbs.html.content import (
    HtmlCell,
    HtmlChart,
    HtmlPart,
    HtmlSection,
    HtmlTable,
    control_cell,
    failures_of,
    html_table,
    workload_columns,
)
from gdnbench.verbs.html.report import ReportedRun, lead_line
from gdnbench.verbs.measured_columns import PLACE_WORDS, count_column, time_column

RowsByPoint = Mapping[tuple[str, Workload], Measurement]


def sweep_section(stored: ReportedRun, sweep: Sweep, prefix: str) -> HtmlSection:
    """Makes the section of one sweep; `prefix` begins all of its ids."""
    info = stored.info
    rows = {(row.case.label, row.case.workload): row for row in stored.rows}
    parts = tuple(
        _part(sweep, plateau, rows, f"{prefix}-{number}-{workload_slug(plateau.workload)}")
        for number, plateau in enumerate(sweep.plateaus, start=1)
    )
    return HtmlSection(
        id=prefix,
        title=info.run_id,
        lead=f"{lead_line(stored)}. Tried: {sweep.tried}.",
        badge="" if info.complete else "partial",
        warnings=tuple(info.warnings),
        scale=any(len(varied(axes)) > 1 for axes in sweep.axes.values()),
        table=_answers(stored, sweep, rows, f"{prefix}-answers"),
        lines=tuple(_one_for_all(sweep, one) for one in sweep.one_for_all),
        parts=parts,
        failures=failures_of(stored.rows, workloads=True),
    )


def _answers(stored: ReportedRun, sweep: Sweep, rows: RowsByPoint, name: str) -> HtmlTable:
    def row(plateau: Plateau) -> Measurement:
        return rows[plateau.simplest, plateau.workload]

    def params(plateau: Plateau) -> str:
        return params_text(sweep.point(plateau, plateau.simplest).params, list(sweep.axes[plateau.kernel]))

    def within(plateau: Plateau) -> HtmlCell:
        ties = len(plateau.tied) > 1
        return HtmlCell(text=percent(plateau.within), sort=plateau.within) if ties else HtmlCell(text="")

    columns: tuple[Column[Plateau], ...] = (
        Column("", lambda plateau: plateau.kernel, "kernel"),
        *workload_columns(stored.info.workloads, lambda plateau: plateau.workload),
        Column("", params, "simplest of the best", meaning="the point to take: nearest to the defaults"),
        time_column("time", sweep.plateaus, row, "of that point, and its interval"),
        count_column("tie", lambda plateau: len(plateau.tied), "the fastest, and the points that tie with it"),
        Column("", within, "within", right=True, meaning="the largest difference that the ties' intervals allow"),
        count_column("unclear", lambda plateau: len(plateau.unclear), "points whose interval reaches the fastest"),
        Column(
            "", lambda plateau: control_cell(stored.at(plateau.workload)), "A/A", right=True,
            meaning="the baseline against itself",
        ),
    )  # fmt: skip
    return html_table(Table(columns, sweep.plateaus), name, "The answer for each kernel and workload")


def _one_for_all(sweep: Sweep, one: OneForAll) -> str:
    workload, worst = one.worst
    params = params_text(sweep.chosen(one).params, list(sweep.axes[one.kernel]))
    return (
        f"One point for every workload: {one.kernel} {params}. It costs {percent(worst)} at {workload}, where it costs "
        f"most, and {percent(one.mean)} on average."
    )


def _part(sweep: Sweep, plateau: Plateau, rows: RowsByPoint, name: str) -> HtmlPart:
    chart = _chart(sweep, plateau, f"{name}-chart")
    points = sweep.of(plateau)
    return HtmlPart(
        id=name,
        title=f"{plateau.kernel}, {plateau.workload}",
        charts=(chart,) if chart else (),
        table=_points(sweep, plateau, rows, f"{name}-table"),
        folded=f"All {len(points)} points" if len(points) > 1 else "The point",
    )


def _chart(sweep: Sweep, plateau: Plateau, name: str) -> HtmlChart | None:
    found = sweep_chart(sweep, plateau)
    if found is None:
        return None
    chart, height, note = found
    is_heat_map = len(varied(sweep.axes[plateau.kernel])) > 1
    message = f"{plateau.kernel} at {plateau.workload}: percent slower than the best point, by params"
    return HtmlChart(
        id=name,
        title=f"Slower than the best{', %' if is_heat_map else ''}",
        note=f"Each cell is the {note}." if note else "",
        spec=page_spec(chart, height, message),
        height=height,
    )


def _points(sweep: Sweep, plateau: Plateau, rows: RowsByPoint, name: str) -> HtmlTable:
    points = sweep.of(plateau)

    def row(point: Point) -> Measurement:
        return rows[point.label, point.workload]

    columns: tuple[Column[Point], ...] = (
        *(Column("", partial(_param, name=each), each, right=True) for each in sweep.axes[plateau.kernel]),
        time_column("time", points, row, "in the rounds that it was measured in"),
        Column("", _slower_by, "slower by", right=True, meaning="than the fastest, from paired rounds"),
        Column("", _place, "place"),
        count_column("rounds", lambda point: point.rounds),
        count_column("regs", lambda point: row(point).registers, "registers a thread"),
        count_column("spill B", lambda point: row(point).spill_bytes, "bytes a thread that do not fit registers"),
        count_column("smem B", lambda point: row(point).shared_bytes, "static shared memory a block, bytes"),
    )
    caption = f"{plateau.kernel} at {plateau.workload}, fastest first"
    return html_table(Table(columns, points), name, caption)


def _param(point: Point, name: str) -> HtmlCell:
    value = point.params[name]
    return HtmlCell(text=str(value), sort=float(value) if isinstance(value, int) else value)


def _slower_by(point: Point) -> HtmlCell:
    if point.place is Place.BEST:
        return HtmlCell(text="", sort=point.slower_by)
    aside = half_text((point.slower_hi - point.slower_lo) / 2)
    return HtmlCell(text=percent(point.slower_by), aside=aside, sort=point.slower_by)


def _place(point: Point) -> HtmlCell:
    word = f"{GLYPHS.get(point.place, '')} {PLACE_WORDS[point.place]}".strip()
    return HtmlCell(text=word, sort=point.slower_by, mark=point.place.value)
