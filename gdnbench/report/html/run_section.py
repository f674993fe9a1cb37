"""The report's section of a run: its charts, and per workload its bars, samples and table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from gdnbench.model.case import tell_serialized
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.render.html import HtmlCell, HtmlColumn, HtmlRow, HtmlTable
from gdnbench.render.units import flops_bind, settling_notes, tflops_text, traffic
from gdnbench.report.charts import samples, sol, times
from gdnbench.report.charts.layout import workload_slug
from gdnbench.report.charts.selection import choices_of, slots_of, timed
from gdnbench.report.charts.theme import PAGE, page_spec, slot_params
from gdnbench.report.html.content import (
    KERNEL_TITLE,
    STREAM_TITLE,
    HtmlChart,
    HtmlPart,
    HtmlSection,
    bound_cell,
    bound_title,
    control_line,
    count_cell,
    failures_of,
    filled_table,
    speedup_cell,
    text_cell,
    time_cell,
    unit_of_rows,
    verdict_cell,
    whole_cell,
)
from gdnbench.report.html.report import ReportedRun, lead_line
from gdnbench.stats import FloatArray
from gdnbench.store.builds import BuildRow

TIMES_HEIGHT, SAMPLES_LEAST = 400, 320  # pixels
NO_SAMPLES = "No samples were kept with this run, so their distribution is not shown."

FillCell = Callable[[Measurement], HtmlCell]

_BUILD_COLUMNS = (
    HtmlColumn(heading="kernel", numeric=False),
    HtmlColumn(heading="series", numeric=False, title="what the workloads have in common"),
    HtmlColumn(heading="target", numeric=False),
    HtmlColumn(heading="regs", title="registers a thread"),
    HtmlColumn(heading="spill B", title="bytes a thread that do not fit registers"),
    HtmlColumn(heading="smem B", title="static shared memory a block, bytes"),
    HtmlColumn(heading="load bits", title="width of the widest global load"),
    HtmlColumn(
        heading="interpreter",
        numeric=False,
        title="verdict of an interpreter, without a GPU",
    ),
    HtmlColumn(heading="status", numeric=False, folds=True),
)


def run_section(stored: ReportedRun, prefix: str) -> HtmlSection:
    """Makes the section of one run; `prefix` begins all of its ids."""
    info = stored.info
    picker = f"{prefix}-kernels"
    choices = choices_of(stored.rows, info.baseline)
    shown = slots_of([choice for choice in choices if choice.chosen])
    quantiles = samples.read_quantiles(stored.folder)
    leading = stored.leading(stored.rows)
    charts = times_charts(leading, prefix=prefix, picker=picker, shown=shown, baseline=info.baseline)
    parts = tuple(_part(stored, workload, prefix, picker, shown, quantiles) for workload in stored.workloads)
    following = [chart for chart in (*charts, *(chart for part in parts for chart in part.charts)) if chart.picker]
    return HtmlSection(
        id=prefix,
        title=info.run_id,
        lead=lead_line(stored),
        badge="" if info.complete else "partial",
        warnings=tuple(info.warnings),
        choices=choices if following else (),
        charts=tuple(charts),
        lines=() if quantiles or not any(row.timing for row in stored.rows) else (NO_SAMPLES,),
        table=None if stored.on_gpu else _builds_table(stored.builds, f"{prefix}-builds"),
        parts=parts,
    )


def times_charts(
    rows: Sequence[Measurement], *, prefix: str, picker: str, shown: Sequence[str], baseline: str
) -> list[HtmlChart]:
    """Draws two charts per line of workloads that was measured at two x values or more."""
    found = []
    for line in dict.fromkeys(row.case.workload.line for row in rows):
        here = [row for row in rows if row.case.workload.line == line]
        points, titles = times.time_points(here), here[0].case.workload.spec
        if len({point["x"] for point in points}) < 2:
            continue
        params, slug = slot_params(shown, baseline), here[0].case.workload.line_slug
        kind = times.kind_of(here).capitalize()
        absolute = times.time_chart(points, titles, PAGE, times.kind_of(here)).add_params(*params)
        found.append(
            HtmlChart(
                id=f"{prefix}-times-{slug}",
                title=f"{kind} against {titles.x_title}, {line}",
                note="Both axes logarithmic. Dashed: the floors, below which no kernel of this grid or traffic can "
                "come. Bars are intervals; most are narrower than their point.",
                spec=page_spec(absolute, TIMES_HEIGHT, f"{kind} against {titles.x_name}, {line}"),
                height=TIMES_HEIGHT,
                picker=picker,
            )
        )
        if times.above_floor(points):
            relative = times.relative_chart(points, titles, PAGE).add_params(*params)
            found.append(
                HtmlChart(
                    id=f"{prefix}-above-{slug}",
                    title=f"{kind} over the copying floor, {line}",
                    note="The same times, divided by the copying floor's at the same one: 1 is the bound"
                    f"{' where copying is the bound' if flops_bind(here) else ''}.",
                    spec=page_spec(relative, TIMES_HEIGHT, f"{kind} over the copying floor, {line}"),
                    height=TIMES_HEIGHT,
                    picker=picker,
                )
            )
    return found


def _part(
    stored: ReportedRun,
    workload: Workload,
    prefix: str,
    picker: str,
    shown: Sequence[str],
    quantiles: Mapping[str, FloatArray],
) -> HtmlPart:
    rows, name = stored.at(workload), f"{prefix}-{workload_slug(workload)}"
    ordered = timed(rows)
    bars = _bars(timed(stored.leading(ordered)), f"{name}-sol", workload)
    height = max(SAMPLES_LEAST, bars.height if bars else 0)
    points = samples.curve_points(ordered, quantiles)
    chart = samples.curves_chart(points, PAGE).add_params(*slot_params(shown, stored.info.baseline))
    curves = HtmlChart(
        id=f"{name}-samples",
        title="All samples",
        note="The share of samples that took at most so long, of the middle 99%. Steep is steady.",
        spec=page_spec(chart, height, f"Distribution of samples, {workload}"),
        height=height,
        picker=picker,
    )
    return HtmlPart(
        id=name,
        title=f"{workload}  ({traffic(max(row.nbytes for row in rows))}{_bound_words(stored, rows)})",
        lines=tuple(filter(None, [control_line(rows)])),
        charts=(*([bars] if bars else []), *([curves] if points else [])),
        table=_run_table(stored, ordered, name=f"{name}-table", where=str(workload)) if ordered else None,
        failures=failures_of(rows),
    )


def _bound_words(stored: ReportedRun, rows: Sequence[Measurement]) -> str:
    """Returns what bounds a workload, in a run where FLOPs bound one; empty in others."""
    if not flops_bind(stored.rows) or not any(row.timing for row in rows):
        return ""
    return f", bound by {'FLOPs' if flops_bind(rows) else 'copying'}"


def _bars(rows: Sequence[Measurement], name: str, workload: Workload) -> HtmlChart | None:
    bars = sol.page_bars(rows)
    if not bars:
        return None
    height = sol.BAR * len(bars) + sol.AROUND
    return HtmlChart(
        id=name,
        title="Share of the bound",
        note=f"Time of the {'bound: FLOPs at peak' if flops_bind(rows) else 'copying floor'} / time of the kernel, "
        f"{'by kernel times' if rows[0].clock else 'launch on both sides'}. "
        "The sign is the verdict against the baseline, the contrasting bar.",
        spec=page_spec(sol.sol_chart(bars, PAGE), height, f"Share of the bound of each kernel, {workload}"),
        height=height,
    )


def _run_table(stored: ReportedRun, rows: Sequence[Measurement], *, name: str, where: str) -> HtmlTable:
    """Makes the table of one workload, without columns that no row fills."""
    order = {row.case.id: place for place, row in enumerate(timed(stored.kernel_times_of(rows)))}
    ordered = sorted(rows, key=lambda row: order.get(row.case.id, len(order)))
    return filled_table(name, f"{where}, fastest first", ordered, _columns(stored, rows), _kind)


def _columns(stored: ReportedRun, rows: Sequence[Measurement]) -> list[tuple[HtmlColumn, FillCell]]:
    """Returns the columns; where the run has kernel times they come first, and rates and shares are theirs."""
    info, flops, by_kernel = stored.info, flops_bind(stored.rows), bool(stored.kernel_times)
    baseline, bound = info.baseline.removeprefix(f"{info.op}-"), "bound" if flops else "copying floor"
    unit, kernel_unit = unit_of_rows(rows), unit_of_rows(stored.kernel_times_of(rows))
    name, per = ("stream", "kernel time") if by_kernel else ("time" if info.on_gpu else "CPU time", "time")

    def leading(row: Measurement) -> Measurement | None:
        return stored.kernel_times.get(row.case.id) if by_kernel else row

    return [
        (HtmlColumn(heading="kernel", numeric=False), _name),
        (
            HtmlColumn(heading=f"kernel {kernel_unit.name}", title=KERNEL_TITLE),
            lambda row: time_cell(leading(row), kernel_unit) if by_kernel else HtmlCell(text=""),
        ),
        (HtmlColumn(heading=f"{name} {unit.name}", title=STREAM_TITLE), lambda row: time_cell(row, unit)),
        (
            HtmlColumn(heading="GB/s", title=f"the least traffic of the op / {per}"),
            lambda row: _bandwidth(leading(row)),
        ),
        *(
            [
                (
                    HtmlColumn(heading="TFLOP/s", title=f"the op's floating-point operations / {per}"),
                    lambda row: _tflops(leading(row)),
                )
            ]
            if flops
            else []
        ),
        (
            HtmlColumn(heading="of bound", title=bound_title(bound, by_kernel=by_kernel)),
            lambda row: bound_cell(leading(row)),
        ),
        (
            HtmlColumn(
                heading=f"{'stream ' if by_kernel else ''}vs {baseline}",
                title="baseline time / time; above 1 is faster",
            ),
            _speedup,
        ),
        (HtmlColumn(heading="verdict", numeric=False, title="against the baseline"), _verdict),
        (HtmlColumn(heading="regs", title="registers a thread"), lambda row: count_cell(row.registers)),
        (HtmlColumn(heading="spill B", title="bytes a thread that do not fit registers"), _spills),
        (HtmlColumn(heading="smem B", title="static shared memory a block, bytes"), _shared),
        (HtmlColumn(heading="launches", title="kernels that one call launches"), _launches),
        (HtmlColumn(heading="MHz", title="median SM clock during the samples"), _clock),
        (HtmlColumn(heading="notes", numeric=False, folds=True), _notes),
    ]


def _kind(row: Measurement) -> str:
    return row.role.value if row.role is Role.BASELINE or not row.role.does_the_work else ""


def _name(row: Measurement) -> HtmlCell:
    return HtmlCell(text=row.case.label, sort=row.case.label)


def _bandwidth(row: Measurement | None) -> HtmlCell:
    return whole_cell(row.timing.bandwidth_gbs if row and row.timing else math.nan)


def _tflops(row: Measurement | None) -> HtmlCell:
    tflops = row.timing.tflops if row and row.timing else math.nan
    return HtmlCell(text="") if math.isnan(tflops) else HtmlCell(text=tflops_text(tflops), sort=tflops)


def _speedup(row: Measurement) -> HtmlCell:
    return HtmlCell(text="1", sort=1.0) if row.role is Role.BASELINE else speedup_cell(row.versus)


def _verdict(row: Measurement) -> HtmlCell:
    if row.role is Role.BASELINE or not row.role.does_the_work:
        return HtmlCell(text=row.role.value, sort=row.role.value, mark="role")
    return verdict_cell(row.versus.verdict) if row.versus else HtmlCell(text="")


def _spills(row: Measurement) -> HtmlCell:
    return count_cell(row.spill_bytes)


def _shared(row: Measurement) -> HtmlCell:
    return count_cell(row.shared_bytes)


def _launches(row: Measurement) -> HtmlCell:
    return count_cell(row.launches or -1)


def _clock(row: Measurement) -> HtmlCell:
    return whole_cell(row.timing.sm_mhz if row.timing else math.nan)


def _notes(row: Measurement) -> HtmlCell:
    notes = [row.case.variant.in_full] if row.case.variant.is_picked else []
    notes += row.warnings
    return HtmlCell(text="; ".join(notes + settling_notes(row.versus)))


def _builds_table(builds: Sequence[BuildRow], name: str) -> HtmlTable | None:
    if not builds:
        return None
    return HtmlTable(
        id=name,
        caption="GPU kernels: compiled here, not timed",
        columns=_BUILD_COLUMNS,
        rows=tuple(map(_build_row, builds)),
    )


def _build_row(build: BuildRow) -> HtmlRow:
    texts = (build.title, build.series, build.arch)
    counts = (build.registers, build.spill_bytes, build.shared_bytes, build.load_bits)
    status = build.status if build.status == "ok" else f"{build.status}: {build.reason}"
    if build.serialized_because:
        status += f", {tell_serialized(build.serialized_because)}"
    last = (build.interpreter, status)
    return HtmlRow(cells=(*map(text_cell, texts), *map(count_cell, counts), *map(text_cell, last)))
