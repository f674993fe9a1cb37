"""The report's sections beside the runs: other GPUs, published figures, and counters of Nsight Compute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.analyse.figure import Figure, FigureSource
from gdnbench.codec import finite
from gdnbench.errors import collect_left_out
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.profile.ncu.functions import Function, functions_of
from gdnbench.profile.ncu.profile import NcuReport
from gdnbench.profile.ncu.quantities import QUANTITIES, STALL_MEANINGS
from gdnbench.profile.ncu.store import StoredProfiles, find_profiles
from gdnbench.render.html import HtmlCell, HtmlColumn, HtmlRow, HtmlTable
from gdnbench.render.units import TimeUnit
from gdnbench.report.charts import theme
from gdnbench.report.charts.layout import workload_slug
from gdnbench.report.charts.selection import interval_text, timed
from gdnbench.report.charts.theme import BASELINE_MARKER, MARKERS, PAGE, Datum, expr, page_spec
from gdnbench.report.html.content import (
    KERNEL_TITLE,
    HtmlChart,
    HtmlPart,
    HtmlSection,
    bound_cell,
    over_copy_cell,
    text_cell,
    time_cell,
    unit_of_rows,
    workload_cells,
    workload_columns,
)
from gdnbench.report.html.report import ReportedRun
from gdnbench.report.ncu import NOT_A_TIME, heading, quantity_text, stall_reasons, stall_text, titled

if TYPE_CHECKING:
    import altair as alt


_CAUTION = (
    "Each GPU was measured in a process of its own, so nothing here is paired, and stream times hold the launch of its "
    "host, which may differ by more than the kernels do. So these are kernel times (CUPTI) where every run has them, "
    "else stream times over the same run's copying floor: gdnbench compare has the verdicts."
)
_ROW, _AROUND = 19, 60  # pixels: of a kernel in the chart of GPUs, and of its axis
_MARKERS = (BASELINE_MARKER, *MARKERS)
_PUBLISHED = "As they were published, by others, on machines and with methods of their own. Not measured by gdnbench."


def across_section(runs: Sequence[ReportedRun]) -> HtmlSection | None:
    """Returns a part per workload measured on several GPUs, or None if all runs are of one GPU."""
    compared = [run for run in runs if not run.sweep and run.on_gpu]
    if len({run.info.gpu for run in compared}) < 2:
        return None
    workloads = sorted({workload for run in compared for workload in run.workloads})
    parts = tuple(part for workload in workloads if (part := _part(compared, workload)))
    return HtmlSection(id="gpus", title="Across GPUs", lead=_CAUTION, parts=parts) if parts else None


def _part(runs: Sequence[ReportedRun], workload: Workload) -> HtmlPart | None:
    found = [(_name(run, runs), run, rows) for run in runs if (rows := timed(run.at(workload)))]
    by_kernel = all(run.kernel_times_of(rows) for _, run, rows in found)
    columns = [(name, run.kernel_times_of(rows) if by_kernel else _over_copy(rows)) for name, run, rows in found]
    columns = [(name, rows) for name, rows in columns if rows]
    if len(columns) < 2:
        return None
    name = f"gpus-{workload_slug(workload)}"
    return HtmlPart(
        id=name,
        title=str(workload),
        charts=(_gpus_chart(columns, f"{name}-chart", str(workload), by_kernel=by_kernel),),
        table=_table(columns, f"{name}-table", str(workload), by_kernel=by_kernel),
    )


def _over_copy(rows: Sequence[Measurement]) -> list[Measurement]:
    return [row for row in rows if row.timing and math.isfinite(row.timing.over_copy)]


def _name(run: ReportedRun, runs: Sequence[ReportedRun]) -> str:
    alone = sum(other.info.gpu == run.info.gpu for other in runs) == 1
    return run.info.gpu if alone else f"{run.info.gpu} {run.info.run_id[:15]}"


def _table(
    columns: Sequence[tuple[str, Sequence[Measurement]]], name: str, where: str, *, by_kernel: bool
) -> HtmlTable:
    labels = dict.fromkeys(row.case.label for _, rows in columns for row in rows)
    by_label = [{row.case.label: row for row in rows} for _, rows in columns]
    units = [unit_of_rows(rows) for _, rows in columns]
    headings = [
        heading
        for (run, _), unit in zip(columns, units, strict=True)
        for heading in (
            (
                HtmlColumn(heading=f"{run} kernel {unit.name}", title=KERNEL_TITLE),
                HtmlColumn(heading=f"{run} of bound", title="share of that GPU's floor, by kernel times"),
            )
            if by_kernel
            else (HtmlColumn(heading=f"{run} / copy", title="stream time over that of the same run's copying floor"),)
        )
    ]
    return HtmlTable(
        id=name,
        caption=f"{where}: each kernel on each GPU",
        columns=(HtmlColumn(heading="kernel", numeric=False), *headings),
        rows=tuple(_row(label, [rows.get(label) for rows in by_label], units, by_kernel) for label in labels),
    )


def _row(label: str, found: Sequence[Measurement | None], units: Sequence[TimeUnit], by_kernel: bool) -> HtmlRow:
    cells = [
        cell
        for row, unit in zip(found, units, strict=True)
        for cell in ((time_cell(row, unit), bound_cell(row)) if by_kernel else (over_copy_cell(row),))
    ]
    role = next(row.role for row in found if row)
    kind = role.value if role is Role.BASELINE or not role.does_the_work else ""
    return HtmlRow(cells=(HtmlCell(text=label, sort=label), *cells), kind=kind)


def _gpus_chart(
    columns: Sequence[tuple[str, Sequence[Measurement]]], name: str, where: str, *, by_kernel: bool
) -> HtmlChart:
    what = "Kernel time" if by_kernel else "Time over the copying floor"
    data = [_point(row, run, index, by_kernel) for index, (run, rows) in enumerate(columns) for row in rows]
    kernels = list(dict.fromkeys(point["kernel"] for point in sorted(data, key=lambda point: float(point["time"]))))
    height = _ROW * len(kernels) + _AROUND
    signs = "; ".join(f"{_MARKERS[index % len(_MARKERS)]}: {run}" for index, (run, _) in enumerate(columns))
    return HtmlChart(
        id=name,
        title=f"{what} by GPU",
        note=f"{signs}.",
        spec=page_spec(_gpus_layers(data, kernels, by_kernel), height, f"{what} by GPU, {where}"),
        height=height,
    )


def _gpus_layers(data: Sequence[Datum], kernels: Sequence[str], by_kernel: bool) -> alt.LayerChart:
    import altair as alt

    scale = alt.Scale(type="log", nice=False, padding=12)
    what = "kernel time, µs" if by_kernel else "time / time of the copying floor"
    axis = alt.Axis(title=f"{what} (log)", format="~g", labelOverlap="greedy", tickCount=8)
    y = alt.Y(field="kernel", type="nominal", sort=list(kernels), axis=alt.Axis(title=None, grid=True))
    x = alt.X(field="time", type="quantitative", scale=scale, axis=axis)
    low = alt.X(field="low", type="quantitative", scale=scale, axis=axis)
    colour = expr(f"{list(PAGE.series)}[datum.index % {len(PAGE.series)}]")
    marker = expr(f"{list(_MARKERS)}[datum.index % {len(_MARKERS)}]")
    base = alt.Chart().encode(y=y)
    intervals = base.mark_rule(stroke=colour).encode(x=low, x2=alt.X2(field="high"))
    times = base.mark_point(filled=True, size=64, opacity=1, fill=colour, shape=marker).encode(
        x=x, tooltip=theme.tips(kernel="kernel", run="run", text=what)
    )
    known = any(point["low"] is not None for point in data)  # Vega warns of a field without any value
    return theme.layered(*([intervals] if known else []), times, data=data)


def _point(row: Measurement, run: str, index: int, by_kernel: bool) -> Datum:
    timing = row.timing
    assert timing
    return {
        "kernel": row.case.label,
        "run": run,
        "index": index,
        "time": timing.time_us if by_kernel else timing.over_copy,
        "low": finite(timing.time_lo_us) if by_kernel else None,
        "high": finite(timing.time_hi_us) if by_kernel else None,
        "text": interval_text(row) if by_kernel else f"{timing.over_copy:.3f}",
    }


def published_section(source: FigureSource, prefix: str) -> HtmlSection:
    """Returns one publisher's figures; each names one of the citations below them."""
    citations = list(dict.fromkeys(figure.citation for figure in source.figures if figure.citation))
    table = HtmlTable(
        id=f"{prefix}-table",
        caption=f"{source.name}: published figures",
        columns=_figure_columns(source.figures[0].workload.spec),
        rows=tuple(_figure_row(figure, citations) for figure in source.figures),
    )
    return HtmlSection(
        id=prefix,
        title=source.name,
        lead=f"{source.gpu or 'GPU unknown'}. {_PUBLISHED}",
        badge="published",
        warnings=source.warnings,
        table=table,
        lines=(
            *(f"[{number}] {citation}" for number, citation in enumerate(citations, start=1)),
            *(f"{name}: {value}" for name, value in source.conditions.items()),
        ),
    )


def _figure_columns(spec: WorkloadSpec) -> tuple[HtmlColumn, ...]:
    return (
        HtmlColumn(heading="kernel", numeric=False),
        *workload_columns(spec),
        HtmlColumn(heading="time µs", title="with the digits that were published"),
        HtmlColumn(heading="timer", numeric=False),
        HtmlColumn(heading="source", numeric=False, title="of the list below the table"),
    )


def _figure_row(figure: Figure, citations: Sequence[str]) -> HtmlRow:
    number = citations.index(figure.citation) + 1 if figure.citation else 0
    return HtmlRow(
        cells=(
            HtmlCell(text=figure.label, sort=figure.label),
            *workload_cells(figure.workload),
            _published_time(figure),
            HtmlCell(text=figure.timer, sort=figure.timer),
            HtmlCell(text=f"[{number}]" if number else "", sort=number or None),
        )
    )


def _published_time(figure: Figure) -> HtmlCell:
    """Returns the time as published: further digits would promise more than was measured."""
    if math.isnan(figure.time_us):
        return HtmlCell(text=figure.reason or figure.status.value)
    return HtmlCell(text=f"{figure.time_us:g}", sort=figure.time_us)


_LEAD = (
    "Counters of single launches, read by Nsight Compute in many replays: they explain a time, and are none; "
    f"{NOT_A_TIME}"
)


@dataclass(frozen=True)
class Profiled:
    """Stored profiles of a report's kernels: by GPU and workload, each once by path.

    `notes` names kernels whose profile is of other code than the run timed; `warnings` has files that cannot be read.
    """

    groups: dict[tuple[str, Workload], dict[Path, StoredProfiles]] = field(default_factory=dict)
    notes: dict[tuple[str, Workload], dict[str, None]] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)


def find_profiled(profiles: Path, runs: Sequence[ReportedRun]) -> Profiled:
    """Finds the newest profile of every case on its GPU: of the code that the run timed, else of other code."""
    found = Profiled()
    for run in runs:
        for case in {(row.case.variant, row.case.workload): None for row in run.rows}:
            _add(found, profiles, run, *case)
    return found


def _add(found: Profiled, profiles: Path, run: ReportedRun, variant: Variant, workload: Workload) -> None:
    timed = run.info.sources.get(variant.kernel, "")
    with collect_left_out() as left_out:
        stored = find_profiles(profiles, variant.label, workload, source=timed, gpu=run.info.gpu)
    found.warnings.update(dict.fromkeys(left_out))
    if stored:
        group = (run.info.gpu, workload)
        found.groups.setdefault(group, {})[stored.path] = stored
        if stored.code is CodeState.CHANGED:
            note = f"{variant.label} was profiled when its code was other than that which {run.info.run_id} timed"
            found.notes.setdefault(group, {})[note] = None


def counters_section(found: Profiled) -> HtmlSection | None:
    """Makes a table per GPU and workload with profiled kernels, or None without profiles."""
    if not found.groups:
        return None
    parts = tuple(
        _counters_part(*group, stored.values(), tuple(found.notes.get(group, ())), f"counters-{number}")
        for number, (group, stored) in enumerate(found.groups.items())
    )
    return HtmlSection(id="counters", title="Counters", lead=_LEAD, parts=parts)


def _counters_part(
    gpu: str, workload: Workload, stored: Iterable[StoredProfiles], notes: tuple[str, ...], name: str
) -> HtmlPart:
    functions = [function for each in stored for function in functions_of(NcuReport(each.path, each.profiles))]
    columns = (
        HtmlColumn(heading="", numeric=False),
        HtmlColumn(heading="quantity", numeric=False),
        *(HtmlColumn(heading=" ".join(heading(function, functions))) for function in functions),
    )
    rows = (*_quantities(functions), *_stalls(functions))
    table = HtmlTable(id=f"{name}-table", caption=f"{gpu}, {workload}: counters by kernel", columns=columns, rows=rows)
    return HtmlPart(id=name, title=f"{gpu}, {workload}", lines=notes, table=table)


def _quantities(functions: Sequence[Function]) -> Iterator[HtmlRow]:
    for quantity in QUANTITIES:
        cells = (
            HtmlCell(text=quantity_text(function, quantity), sort=finite(function.median(quantity)))
            for function in functions
        )
        yield HtmlRow(cells=(text_cell(quantity.group), text_cell(titled(quantity.title, quantity.unit)), *cells))


def _stalls(functions: Sequence[Function]) -> Iterator[HtmlRow]:
    found = [function.stalls() for function in functions]
    for reason in stall_reasons(functions):
        cells = (
            HtmlCell(text=stall_text(stalls.get(reason, 0.0), sum(stalls.values())), sort=stalls.get(reason))
            for stalls in found
        )
        meaning = STALL_MEANINGS.get(reason, "")
        told = f"{reason}: {meaning}" if meaning else reason
        yield HtmlRow(cells=(text_cell("cycles/instruction"), text_cell(told), *cells))
