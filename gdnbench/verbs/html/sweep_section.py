"""The report's section of a sweep: the answer for each kernel and workload, a heat map, and every point."""

from __future__ import annotations

from gdnbench.model.measurement import Plateau, Sweep
from gdnbench.render.table import Table
from gdnbench.report.charts.selection import workload_slug
from gdnbench.report.charts.sweep import sweep_chart, varied
from gdnbench.report.charts.theme import page_spec
from gdnbench.verbs.html.content import HtmlChart, HtmlPart, HtmlSection, failures_of, html_table
from gdnbench.verbs.html.report import ReportedRun, lead_line
from gdnbench.verbs.run_notes import control_lines
from gdnbench.verbs.sweep import one_for_all_text, plateau_text, point_columns


def sweep_section(stored: ReportedRun, sweep: Sweep, prefix: str) -> HtmlSection:
    """Makes the section of one sweep; `prefix` begins all of its ids."""
    return HtmlSection(
        id=prefix,
        title=stored.info.run_id,
        lead=f"{lead_line(stored)}. Tried: {sweep.tried}.",
        badge="" if stored.info.complete else "partial",
        warnings=tuple(stored.info.warnings),
        scale=any(len(varied(axes)) > 1 for axes in sweep.axes.values()),
        lines=tuple(one_for_all_text(sweep, one).plain for one in sweep.one_for_all),
        parts=tuple(
            _part(stored, sweep, plateau, f"{prefix}-{number}-{workload_slug(plateau.workload)}")
            for number, plateau in enumerate(sweep.plateaus, start=1)
        ),
        failures=failures_of(stored.rows, workloads=True),
    )


def _part(stored: ReportedRun, sweep: Sweep, plateau: Plateau, name: str) -> HtmlPart:
    points, title = sweep.of(plateau), f"{plateau.kernel}, {plateau.workload}"
    rows = {(row.case.label, row.case.workload): row for row in stored.rows}
    table = Table(point_columns(sweep, plateau, points, rows), points)
    controls = control_lines(stored.at(plateau.workload))
    chart = _chart(sweep, plateau, f"{name}-chart")
    return HtmlPart(
        id=name,
        title=title,
        lines=(*plateau_text(sweep, plateau, rows).plain.splitlines(), *(line.plain for line in controls)),
        charts=(chart,) if chart else (),
        table=html_table(table, f"{name}-table", f"{title}, fastest first"),
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
