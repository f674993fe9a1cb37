"""The report's sections beside the runs: other GPUs, and published figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from gdnbench.analyse.figure import Figure, FigureSource
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.render.table import Column, Table
from gdnbench.report.charts.selection import timed, workload_slug
from gdnbench.verbs.html.content import HtmlCell, HtmlPart, HtmlSection, HtmlTable, html_table, workload_columns
from gdnbench.verbs.html.report import ReportedRun
from gdnbench.verbs.measured_columns import KERNEL_MEANING, bound_column, over_copy_column, time_column

_CAUTION = (
    "Each GPU was measured in a process of its own, so nothing here is paired, and stream times hold the launch of its "
    "host, which may differ by more than the kernels do. So these are kernel times (CUPTI) where every run has them, "
    "else stream times over the same run's copying floor: gdnbench compare has the verdicts."
)
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
        id=name, title=str(workload), table=_table(columns, f"{name}-table", str(workload), by_kernel=by_kernel)
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
