"""The report's section of a sweep: its answer, a heat map per kernel and workload, and every point."""

from __future__ import annotations

from collections.abc import Mapping

from gdnbench.model.measurement import Measurement
from gdnbench.model.sweep import OneForAll, Place, Plateau, Point, Sweep
from gdnbench.model.workload import Workload
from gdnbench.render.html import HtmlCell, HtmlColumn, HtmlRow, HtmlTable
from gdnbench.render.units import TimeUnit, half_text, params_text, percent
from gdnbench.report.charts.layout import workload_slug
from gdnbench.report.charts.sweep import sweep_chart, varied
from gdnbench.report.charts.theme import GLYPHS, PAGE, page_spec
from gdnbench.report.html.content import (
    HtmlChart,
    HtmlPart,
    HtmlSection,
    control_cell,
    count_cell,
    failures_of,
    time_cell,
    unit_of_rows,
    workload_cells,
    workload_columns,
)
from gdnbench.report.html.report import ReportedRun, lead_line

_WORDS = {Place.BEST: "BEST", Place.TIED: "TIES", Place.UNCLEAR: "UNCLEAR", Place.SLOWER: "SLOWER"}

RowsByPoint = Mapping[tuple[str, Workload], Measurement]


def sweep_section(stored: ReportedRun, sweep: Sweep, prefix: str) -> HtmlSection:
    """Makes the section of one sweep; `prefix` begins all of its ids."""
    info = stored.info
    rows = {(row.case.label, row.case.workload): row for row in stored.rows}
    tried = "; ".join(
        f"{kernel} " + " ".join(f"{name}={','.join(map(str, values))}" for name, values in axes.items())
        for kernel, axes in sweep.axes.items()
    )
    parts = tuple(
        _part(sweep, plateau, rows, f"{prefix}-{number}-{workload_slug(plateau.workload)}")
        for number, plateau in enumerate(sweep.plateaus, start=1)
    )
    return HtmlSection(
        id=prefix,
        title=info.run_id,
        lead=f"{lead_line(stored)}. Tried: {tried}.",
        badge="" if info.complete else "partial",
        warnings=tuple(info.warnings),
        scale=any(len(varied(axes)) > 1 for axes in sweep.axes.values()),
        table=_answers(stored, sweep, rows, f"{prefix}-answers"),
        lines=tuple(_one_for_all(sweep, one) for one in sweep.one_for_all),
        parts=parts,
        failures=failures_of(stored.rows, workloads=True),
    )


def _answers(stored: ReportedRun, sweep: Sweep, rows: RowsByPoint, name: str) -> HtmlTable:
    unit = unit_of_rows(rows[plateau.simplest, plateau.workload] for plateau in sweep.plateaus)
    columns = (
        HtmlColumn(heading="kernel", numeric=False),
        *workload_columns(stored.info.workloads),
        HtmlColumn(heading="simplest of the best", numeric=False, title="the point to take: nearest to the defaults"),
        HtmlColumn(heading=f"time {unit.name}", title="of that point, and its interval"),
        HtmlColumn(heading="tie", title="the fastest, and the points that tie with it"),
        HtmlColumn(heading="within", title="the largest difference that the ties' intervals allow"),
        HtmlColumn(heading="unclear", title="points that could not be told from the fastest"),
        HtmlColumn(heading="A/A", title="the baseline against itself"),
    )
    return HtmlTable(
        id=name,
        caption="The answer for each kernel and workload",
        columns=columns,
        rows=tuple(_answer(stored, sweep, plateau, rows, unit) for plateau in sweep.plateaus),
    )


def _answer(stored: ReportedRun, sweep: Sweep, plateau: Plateau, rows: RowsByPoint, unit: TimeUnit) -> HtmlRow:
    params = params_text(sweep.point(plateau, plateau.simplest).params, list(sweep.axes[plateau.kernel]))
    workload = plateau.workload
    return HtmlRow(
        cells=(
            HtmlCell(text=plateau.kernel, sort=plateau.kernel),
            *workload_cells(workload),
            HtmlCell(text=params, sort=params),
            time_cell(rows[plateau.simplest, workload], unit),
            count_cell(len(plateau.tied)),
            HtmlCell(text=percent(plateau.within), sort=plateau.within) if len(plateau.tied) > 1 else HtmlCell(text=""),
            count_cell(len(plateau.unclear)),
            control_cell(stored.at(workload)),
        )
    )


def _one_for_all(sweep: Sweep, one: OneForAll) -> str:
    point = next(point for point in sweep.points if (point.kernel, point.label) == (one.kernel, one.label))
    workload, worst = one.worst
    params = params_text(point.params, list(sweep.axes[one.kernel]))
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
    found = sweep_chart(sweep, plateau, PAGE)
    if found is None:
        return None
    chart, height, note = found
    is_heat_map = len(varied(sweep.axes[plateau.kernel])) > 1
    told = f"{plateau.kernel} at {plateau.workload}: percent slower than the best point, by params"
    return HtmlChart(
        id=name,
        title=f"Slower than the best{', %' if is_heat_map else ''}",
        note=f"Each cell is the {note}." if note else "",
        spec=page_spec(chart, height, told),
        height=height,
    )


def _points(sweep: Sweep, plateau: Plateau, rows: RowsByPoint, name: str) -> HtmlTable:
    names, points = list(sweep.axes[plateau.kernel]), sweep.of(plateau)
    unit = unit_of_rows(rows[point.label, point.workload] for point in points)
    columns = (
        *(HtmlColumn(heading=each) for each in names),
        HtmlColumn(heading=f"time {unit.name}", title="in the rounds that it was measured in"),
        HtmlColumn(heading="slower by", title="than the fastest, from paired rounds"),
        HtmlColumn(heading="place", numeric=False),
        HtmlColumn(heading="rounds"),
        HtmlColumn(heading="regs", title="registers a thread"),
        HtmlColumn(heading="spill B", title="bytes a thread that do not fit registers"),
        HtmlColumn(heading="smem B", title="static shared memory a block, bytes"),
    )
    return HtmlTable(
        id=name,
        caption=f"{plateau.kernel} at {plateau.workload}, fastest first",
        columns=columns,
        rows=tuple(_row(point, names, rows[point.label, point.workload], unit) for point in points),
    )


def _row(point: Point, names: list[str], row: Measurement, unit: TimeUnit) -> HtmlRow:
    half = (point.slower_hi - point.slower_lo) / 2
    best = point.place is Place.BEST
    aside = "" if best else half_text(half)
    word = f"{GLYPHS.get(point.place, '')} {_WORDS[point.place]}".strip()
    return HtmlRow(
        cells=(
            *(_param(point.params[name]) for name in names),
            time_cell(row, unit),
            HtmlCell(text="" if best else percent(point.slower_by), aside=aside, sort=point.slower_by),
            HtmlCell(text=word, sort=point.slower_by, mark=point.place.value),
            count_cell(point.rounds),
            *(count_cell(count) for count in (row.registers, row.spill_bytes, row.shared_bytes)),
        )
    )


def _param(value: int | str) -> HtmlCell:
    return HtmlCell(text=str(value), sort=float(value) if isinstance(value, int) else value)
