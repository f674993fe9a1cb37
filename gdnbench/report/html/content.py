"""What the page is made of, and its tables' cells; templates lay it out, and escape every text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gdnbench.model.measurement import Measurement, Versus
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload, WorkloadSpec
from gdnbench.report.charts.selection import KernelChoice, time_parts
from gdnbench.report.charts.theme import GLYPHS
from gdnbench.report.units import MICROSECONDS, TimeUnit, half_text, relative_half_width, time_unit


@dataclass(frozen=True, kw_only=True)
class HtmlCell:
    """One cell of a table.

    Attributes:
        text: what it says; empty where nothing is known.
        aside: set smaller after the text, the half width of an interval.
        sort: what rows are ordered by; None comes last in either direction.
        mark: a verdict or a status, by which it is styled; it says itself in the text too.
        link: id of what it leads to on the page.
    """

    text: str
    aside: str = ""
    sort: float | str | None = None
    mark: str = ""
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class HtmlColumn:
    """One column of a table: its heading, what the heading means, and whether its texts may be folded."""

    heading: str
    numeric: bool = True
    title: str = ""
    folds: bool = False


@dataclass(frozen=True, kw_only=True)
class HtmlRow:
    """One row of a table; `kind` is `floor`, `baseline` or nothing."""

    cells: tuple[HtmlCell, ...]
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class HtmlTable:
    """A table that its readers can sort."""

    id: str
    caption: str
    columns: tuple[HtmlColumn, ...]
    rows: tuple[HtmlRow, ...]


@dataclass(frozen=True, kw_only=True)
class HtmlChart:
    """A chart.

    Attributes:
        id: of its figure.
        title: what it shows.
        note: how to read it.
        spec: Vega-Lite.
        height: in pixels, reserved before it is drawn.
        picker: id of the list of kernels that it follows; empty if it shows the same always.
    """

    id: str
    title: str
    spec: dict[str, Any]
    height: int
    note: str = ""
    picker: str = ""


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """Cases that were not measured for the same reason."""

    status: str
    grave: bool
    labels: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class HtmlPart:
    """A part of a section: a workload of a run, or a plateau of a sweep.

    Attributes:
        id: of its heading.
        title: its heading.
        lines: what is said above its table.
        charts: drawn side by side where there is room.
        table: its rows.
        folded: whether the table opens on demand, and by what name.
        failures: what was not measured.
    """

    id: str
    title: str
    lines: tuple[str, ...] = ()
    charts: tuple[HtmlChart, ...] = ()
    table: HtmlTable | None = None
    folded: str = ""
    failures: tuple[FailureGroup, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HtmlSection:
    """One run, one sweep, or one comparison.

    Attributes:
        id: of its heading.
        title: its heading.
        lead: what it is, in a line.
        badge: set beside the heading: `partial`, `published`.
        warnings: what qualifies all of it.
        choices: the kernels to pick from; none without charts that follow them.
        charts: across all of its parts.
        scale: whether the colours of a heat map are to be explained.
        table: across all of its parts.
        lines: what is said below that table.
        parts: its workloads.
        failures: what was not measured at any workload.
    """

    id: str
    title: str
    lead: str = ""
    badge: str = ""
    warnings: tuple[str, ...] = ()
    choices: tuple[KernelChoice, ...] = ()
    charts: tuple[HtmlChart, ...] = ()
    scale: bool = False
    table: HtmlTable | None = None
    lines: tuple[str, ...] = ()
    parts: tuple[HtmlPart, ...] = ()
    failures: tuple[FailureGroup, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProvenanceFact:
    """One line of the provenance: a value for each run."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the runs disagree."""
        return len(set(self.values)) > 1


@dataclass(frozen=True, kw_only=True)
class HtmlPage:
    """The whole report; `leads` says of each run, by the id of its section, what it is."""

    title: str
    subtitle: str
    summary: HtmlTable
    warnings: tuple[str, ...]
    sections: tuple[HtmlSection, ...]
    run_ids: tuple[str, ...]
    leads: tuple[tuple[str, str], ...]
    provenance: tuple[tuple[str, tuple[ProvenanceFact, ...]], ...]
    details: tuple[tuple[str, tuple[ProvenanceFact, ...]], ...]
    version: str
    words: tuple[tuple[str, str], ...] = field(default=())

    @property
    def charts(self) -> tuple[HtmlChart, ...]:
        """Every chart, in order."""
        return tuple(
            chart
            for section in self.sections
            for chart in (*section.charts, *(chart for part in section.parts for chart in part.charts))
        )


def workload_columns(spec: WorkloadSpec) -> tuple[HtmlColumn, HtmlColumn]:
    """A workload's place along the axis of charts, and the rest of it."""
    return HtmlColumn(heading=spec.x, title=spec.x_doc), HtmlColumn(heading=spec.series_title, numeric=False)


def workload_cells(workload: Workload) -> tuple[HtmlCell, HtmlCell]:
    """A workload below `shape_columns`."""
    return HtmlCell(text=workload.x_value, sort=workload.x), HtmlCell(text=workload.series_inputs, sort=str(workload))


def text_cell(text: str) -> HtmlCell:
    """A text by which rows can be ordered."""
    return HtmlCell(text=text, sort=text or None)


def unit_of_rows(rows: Iterable[Measurement]) -> TimeUnit:
    """The unit of a column of these rows' times."""
    return time_unit(row.timing.time_us for row in rows if row.timing)


def time_cell(row: Measurement, unit: TimeUnit = MICROSECONDS) -> HtmlCell:
    """The time of a measurement with its interval; empty without one. Rows are ordered by microseconds."""
    timing = row.timing
    if timing is None:
        return HtmlCell(text="")
    text, aside = time_parts(timing.time_us, timing.time_lo_us, timing.time_hi_us, unit)
    return HtmlCell(text=text, aside=aside, sort=timing.time_us if text else None)


def speedup_cell(versus: Versus | None) -> HtmlCell:
    """Baseline time / this time, with half of its interval, relative to it; nothing of one that has no end."""
    if versus is None or math.isnan(versus.speedup):
        return HtmlCell(text="")
    text = f"{versus.speedup:.{3 if versus.speedup < 10 else 2}f}x"
    aside = half_text(relative_half_width(versus.speedup, versus.low, versus.high))
    return HtmlCell(text=text, aside=aside, sort=versus.speedup)


def verdict_cell(verdict: str) -> HtmlCell:
    """A verdict in capitals, with a sign, so that colour is not all that tells them apart."""
    return HtmlCell(text=f"{GLYPHS.get(verdict, '')} {verdict.upper()}".strip(), sort=verdict, mark=verdict)


def share_cell(share: float) -> HtmlCell:
    """`91.7%`."""
    return HtmlCell(text="") if math.isnan(share) else HtmlCell(text=f"{share:.1%}", sort=share)


def count_cell(count: int) -> HtmlCell:
    """A whole number; below 0 stands for unknown."""
    return HtmlCell(text="") if count < 0 else HtmlCell(text=f"{count}", sort=count)


def whole_cell(value: float) -> HtmlCell:
    """A number of which decimals do not matter."""
    return HtmlCell(text="") if math.isnan(value) else HtmlCell(text=f"{value:.0f}", sort=value)


def failures_of(rows: Sequence[Measurement], *, workloads: bool = False) -> tuple[FailureGroup, ...]:
    """Cases without a time; those that share a status and a reason are one."""
    grouped: dict[tuple[Status, str], list[str]] = {}
    for row in rows:
        if row.status is not Status.OK and row.role is not Role.CONTROL:
            where = f" {row.case.workload}" if workloads else ""
            grouped.setdefault((row.status, row.reason), []).append(f"{row.case.label}{where}")
    return tuple(
        FailureGroup(status=status.value, grave=status.is_failure, labels=", ".join(labels), reason=reason.strip())
        for (status, reason), labels in grouped.items()
    )


def control_cell(rows: Sequence[Measurement]) -> HtmlCell:
    """The A/A comparison of a workload; its verdict only where it is not the one that must be."""
    versus = _control(rows)
    if versus is None:
        return HtmlCell(text="")
    same = versus.verdict == "same"
    verdict = "" if same else f" {verdict_cell(versus.verdict).text}"
    mark = "" if same else versus.verdict
    cell = speedup_cell(versus)
    return HtmlCell(text=f"{cell.text}{verdict}", aside=cell.aside, sort=cell.sort, mark=mark)


def control_line(rows: Sequence[Measurement]) -> str:
    """The same as a sentence; empty where there is none."""
    versus = _control(rows)
    if versus is None:
        return ""
    cell = speedup_cell(versus)
    name = next(row.case.variant.label for row in rows if row.role is Role.CONTROL)
    return f"A/A: {name} against itself {cell.text} {cell.aside}, {versus.verdict.upper()}"


def _control(rows: Sequence[Measurement]) -> Versus | None:
    return next((row.versus for row in rows if row.role is Role.CONTROL and row.versus), None)
