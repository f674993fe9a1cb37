"""The report's sections beside the runs: other GPUs, published figures, and counters of Nsight Compute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.analyse.figure import Figure, FigureSource
from gdnbench.codec import finite
from gdnbench.errors import collect_left_out
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.profile.ncu.functions import Function, functions_of
from gdnbench.profile.ncu.profile import NcuReport
from gdnbench.profile.ncu.quantities import QUANTITIES, STALL_MEANINGS
from gdnbench.profile.ncu.store import StoredProfiles, find_profiles
from gdnbench.render.html import HtmlCell, HtmlTable, html_table
from gdnbench.render.table import Column, Table
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import interval_text, timed, workload_slug
from gdnbench.report.charts.theme import BASELINE_MARKER, MARKERS, PAGE, Datum, expr, page_spec
from gdnbench.report.ncu import NOT_A_TIME, heading, quantity_text, stall_reasons, stall_text, titled
from gdnbench.verbs.html.content import HtmlChart, HtmlPart, HtmlSection, workload_columns
from gdnbench.verbs.html.report import ReportedRun
from gdnbench.verbs.measured_columns import KERNEL_MEANING, bound_column, over_copy_column, time_column

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
    compared = [run for run in runs if not run.sweep and run.info.on_gpu]
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
    roles = {row.case.label: row.role for _, rows in reversed(columns) for row in rows}
    labels = list(dict.fromkeys(row.case.label for _, rows in columns for row in rows))
    shown: list[Column[str]] = [Column("", lambda label: label, "kernel")]
    for run, rows in columns:
        of = {row.case.label: row for row in rows}.get
        if by_kernel:
            shown.append(time_column(f"{run} kernel", labels, of, KERNEL_MEANING))
            shown.append(bound_column(f"{run} of bound", of, "share of that GPU's floor, by kernel times"))
        else:
            shown.append(over_copy_column(f"{run} / copy", of))

    def kind(label: str) -> str:
        role = roles[label]
        return role.value if role is Role.BASELINE or not role.does_the_work else ""

    return html_table(Table(shown, labels), name, f"{where}: each kernel on each GPU", kind)


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
    columns: tuple[Column[Figure], ...] = (
        Column("", lambda figure: figure.label, "kernel"),
        *workload_columns(source.figures[0].workload.spec, lambda figure: figure.workload),
        Column("", _published_time, "time µs", right=True, meaning="with the digits that were published"),
        Column("", lambda figure: figure.timer, "timer"),
        Column("", partial(_citation, citations=citations), "source", meaning="of the list below the table"),
    )
    table = html_table(Table(columns, source.figures), f"{prefix}-table", f"{source.name}: published figures")
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


def _citation(figure: Figure, citations: Sequence[str]) -> HtmlCell:
    number = citations.index(figure.citation) + 1 if figure.citation else 0
    return HtmlCell(text=f"[{number}]" if number else "", sort=number or None)


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
    columns: list[Column[_CounterRow]] = [
        Column("", lambda row: row.group, " "),
        Column("", lambda row: row.title, "quantity"),
    ]
    for place, function in enumerate(functions):
        head = " ".join(heading(function, functions))
        columns.append(Column("", partial(_counter, place=place), head, right=True))
    table = Table(columns, (*_quantities(functions), *_stalls(functions)))
    caption = f"{gpu}, {workload}: counters by kernel"
    return HtmlPart(id=name, title=f"{gpu}, {workload}", lines=notes, table=html_table(table, f"{name}-table", caption))


@dataclass(frozen=True)
class _CounterRow:
    """A counter, or a reason of stalls, with a cell for each function."""

    group: str
    title: str
    cells: tuple[HtmlCell, ...]


def _counter(row: _CounterRow, place: int) -> HtmlCell:
    return row.cells[place]


def _quantities(functions: Sequence[Function]) -> Iterator[_CounterRow]:
    for quantity in QUANTITIES:
        cells = (
            HtmlCell(text=quantity_text(function, quantity), sort=finite(function.median(quantity)))
            for function in functions
        )
        yield _CounterRow(quantity.group, titled(quantity.title, quantity.unit), tuple(cells))


def _stalls(functions: Sequence[Function]) -> Iterator[_CounterRow]:
    stalls = [function.stalls() for function in functions]
    for reason in stall_reasons(functions):
        cells = (
            HtmlCell(text=stall_text(each.get(reason, 0.0), sum(each.values())), sort=each.get(reason))
            for each in stalls
        )
        meaning = STALL_MEANINGS.get(reason, "")
        title = f"{reason}: {meaning}" if meaning else reason
        yield _CounterRow("cycles/instruction", title, tuple(cells))
