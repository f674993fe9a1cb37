"""The parts of the page, and its tables' cells; templates lay them out and escape every text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gdnbench.model.measurement import Measurement, Versus
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.render.html import HtmlCell, HtmlColumn, HtmlRow, HtmlTable
from gdnbench.render.units import MICROSECONDS, TimeUnit, half_text, relative_half_width, time_unit
from gdnbench.report.charts.selection import KernelChoice, time_parts
from gdnbench.report.charts.theme import GLYPHS

T = TypeVar("T")

KERNEL_TITLE = "first block's start to last block's end (CUPTI), and its interval"
STREAM_TITLE = "median over rounds, and its interval; launch included"


@dataclass(frozen=True, kw_only=True)
class HtmlChart:
    """A chart of Vega-Lite, with `note` on how to read it.

    `height`, in pixels, is reserved before drawing; `picker` is the id of the list of kernels that it follows, or
    empty.
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
    """A part of a section: a workload of a run, or a plateau of a sweep; `id` is its heading's.

    `lines` stand above the table; `folded` names the fold that holds the table, and is empty for an open one.
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

    `id` is its heading's; `badge` is a word beside the heading, `partial` or `published`. `choices` has the kernels to
    pick from, empty without charts that follow them; `scale` tells whether to explain the colours of a heat map.
    `charts`, and `table` with `lines` below, are across all `parts`; `failures` were not measured at any workload.
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
    """One line of the provenance, with a value per run."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the runs disagree."""
        return len(set(self.values)) > 1


@dataclass(frozen=True, kw_only=True)
class HtmlPage:
    """The whole report; `leads` has each run's description, by the id of its section."""

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
    """Returns columns for a workload's place along the x axis of charts, and for the rest of it."""
    return HtmlColumn(heading=spec.x, title=spec.x_doc), HtmlColumn(heading=spec.series_title, numeric=False)


def workload_cells(workload: Workload) -> tuple[HtmlCell, HtmlCell]:
    """Returns a workload's cells for `workload_columns`."""
    return HtmlCell(text=workload.x_value, sort=workload.x), HtmlCell(text=workload.series_inputs, sort=str(workload))


def text_cell(text: str) -> HtmlCell:
    """Makes a text cell that sorts by its text."""
    return HtmlCell(text=text, sort=text or None)


def filled_table(
    name: str,
    caption: str,
    items: Sequence[T],
    columns: Sequence[tuple[HtmlColumn, Callable[[T], HtmlCell]]],
    kind: Callable[[T], str] = lambda _: "",
) -> HtmlTable:
    """Makes a table with a row per item, without columns that no row fills."""
    every = [(column, [fill(item) for item in items]) for column, fill in columns]
    filled = [(column, cells) for column, cells in every if not items or any(cell.text for cell in cells)]
    rows = (tuple(cells[place] for _, cells in filled) for place in range(len(items)))
    return HtmlTable(
        id=name,
        caption=caption,
        columns=tuple(column for column, _ in filled),
        rows=tuple(HtmlRow(cells=cells, kind=kind(item)) for item, cells in zip(items, rows, strict=True)),
    )


def unit_of_rows(rows: Iterable[Measurement | None]) -> TimeUnit:
    """Returns the unit of a column of these rows' times."""
    return time_unit(row.timing.time_us for row in rows if row and row.timing)


def time_cell(row: Measurement | None, unit: TimeUnit = MICROSECONDS) -> HtmlCell:
    """Makes a cell of a time with its interval; empty without a time. Rows sort by microseconds."""
    timing = row.timing if row else None
    if timing is None:
        return HtmlCell(text="")
    text, aside = time_parts(timing.time_us, timing.time_lo_us, timing.time_hi_us, unit)
    return HtmlCell(text=text, aside=aside, sort=timing.time_us if text else None)


def over_copy_cell(row: Measurement | None) -> HtmlCell:
    """Makes a cell of a time over that of the run's copying floor, `1.029`."""
    over = row.timing.over_copy if row and row.timing else math.nan
    return HtmlCell(text="") if math.isnan(over) else HtmlCell(text=f"{over:.3f}", sort=over)


def bound_cell(row: Measurement | None) -> HtmlCell:
    """Makes a cell of the bound's time over this time, `91.7%`; empty for a floor."""
    return share_cell(row.timing.sol if row and row.timing and row.role.does_the_work else math.nan)


def bound_title(bound: str, *, by_kernel: bool) -> str:
    """Returns the meaning of the heading `of bound`."""
    return f"time of the {bound} / {'kernel time' if by_kernel else 'time, the launch in both'}"


def speedup_cell(versus: Versus | None) -> HtmlCell:
    """Makes a cell of baseline time / this time with half of its relative interval; without it if that is infinite."""
    if versus is None or math.isnan(versus.speedup):
        return HtmlCell(text="")
    text = f"{versus.speedup:.{3 if versus.speedup < 10 else 2}f}x"
    aside = half_text(relative_half_width(versus.speedup, versus.low, versus.high))
    return HtmlCell(text=text, aside=aside, sort=versus.speedup)


def verdict_cell(verdict: str) -> HtmlCell:
    """Makes a cell of a verdict in capitals, with a sign, so that colour alone does not tell verdicts apart."""
    return HtmlCell(text=f"{GLYPHS.get(verdict, '')} {verdict.upper()}".strip(), sort=verdict, mark=verdict)


def share_cell(share: float) -> HtmlCell:
    """Makes a cell of a share, `91.7%`."""
    return HtmlCell(text="") if math.isnan(share) else HtmlCell(text=f"{share:.1%}", sort=share)


def count_cell(count: int) -> HtmlCell:
    """Makes a cell of a whole number; below 0 stands for unknown."""
    return HtmlCell(text="") if count < 0 else HtmlCell(text=f"{count}", sort=count)


def whole_cell(value: float) -> HtmlCell:
    """Makes a cell of a number without decimals."""
    return HtmlCell(text="") if math.isnan(value) else HtmlCell(text=f"{value:.0f}", sort=value)


def failures_of(rows: Sequence[Measurement], *, workloads: bool = False) -> tuple[FailureGroup, ...]:
    """Groups cases without a time by status and reason."""
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
    """Makes a cell of a workload's A/A comparison; the verdict is shown only if it is not SAME."""
    versus = _control(rows)
    if versus is None:
        return HtmlCell(text="")
    same = versus.verdict == "same"
    verdict = "" if same else f" {verdict_cell(versus.verdict).text}"
    mark = "" if same else versus.verdict
    cell = speedup_cell(versus)
    return HtmlCell(text=f"{cell.text}{verdict}", aside=cell.aside, sort=cell.sort, mark=mark)


def control_line(rows: Sequence[Measurement]) -> str:
    """Returns the A/A comparison as a sentence; empty without one."""
    versus = _control(rows)
    if versus is None:
        return ""
    cell = speedup_cell(versus)
    name = next(row.case.variant.label for row in rows if row.role is Role.CONTROL)
    return f"A/A: {name} against itself {cell.text} {cell.aside}, {versus.verdict.upper()}"


def _control(rows: Sequence[Measurement]) -> Versus | None:
    return next((row.versus for row in rows if row.role is Role.CONTROL and row.versus), None)
