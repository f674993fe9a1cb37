"""The parts of the page, and its tables, which readers can sort; templates lay them out and escape every text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status
from gdnbench.render.table import Column, Table
from gdnbench.render.units import GLYPHS, factor, half_text, is_interval, relative_half_width
from gdnbench.report.charts.selection import KernelChoice

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class HtmlCell:
    """One cell of a table.

    `aside` is smaller text behind it, the half width of an interval. Rows sort by `sort`, None last in either
    direction. `mark`, a verdict or status that `text` says, too, sets the style; `link` is an id on the page.
    """

    text: str
    aside: str = ""
    sort: float | str | None = None
    mark: str = ""
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class HtmlTable:
    """A table that readers can sort: each row has its cells, and its kind: `floor`, `baseline` or empty."""

    id: str
    caption: str
    columns: Sequence[Column[Any]]
    rows: Sequence[tuple[str, Sequence[HtmlCell]]]


def html_table(
    table: Table[R], name: str, caption: str, kind: Callable[[R], str] = lambda _row: "", *, filled: bool = False
) -> HtmlTable:
    """Makes the page's table `name`; `kind` tells floors and the baseline, `filled` leaves empty columns out."""
    columns = [(column, [_cell(column, row) for row in table.rows]) for column in table.columns if column.heading]
    if filled and table.rows:
        columns = [(column, cells) for column, cells in columns if any(cell.text for cell in cells)]
    rows = [(kind(row), [cells[place] for _, cells in columns]) for place, row in enumerate(table.rows)]
    return HtmlTable(id=name, caption=caption, columns=[column for column, _ in columns], rows=rows)


def _cell(column: Column[Any], row: Any) -> HtmlCell:
    value = column.value(row)
    if isinstance(value, HtmlCell):
        return value
    text = column.cell(row).plain
    if isinstance(value, Enum):
        word = str(value.value)
        mark = "role" if isinstance(value, Role) else word
        return HtmlCell(text=f"{GLYPHS.get(word, '')} {text}".strip(), sort=word, mark=mark)
    if is_interval(value):
        aside = half_text(value.relative_half_width)
        return HtmlCell(text=text.removesuffix(f" {aside}"), aside=aside, sort=_finite(value.estimate))
    if isinstance(value, int | float):
        return HtmlCell(text=text, sort=_finite(value) if text else None)
    return HtmlCell(text=text, sort=text or None)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, kw_only=True)
class HtmlChart:
    """A chart of Vega-Lite, `height` pixels high; `picker` is the id of the list of kernels that it follows."""

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
    """A workload of a run, or a plateau of a sweep, by its heading's `id`; `folded` names the fold of its table."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    charts: tuple[HtmlChart, ...] = ()
    table: HtmlTable | None = None
    folded: str = ""
    failures: tuple[FailureGroup, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HtmlSection:
    """One run or one sweep.

    `id` is its heading's; `badge` is a word beside the heading, `partial`. `choices` has the kernels to pick from,
    empty without charts that follow them. `charts`, and `lines` above them, are across all `parts`; `failures` were not
    measured at any workload.
    """

    id: str
    title: str
    lead: str = ""
    badge: str = ""
    warnings: tuple[str, ...] = ()
    choices: tuple[KernelChoice, ...] = ()
    charts: tuple[HtmlChart, ...] = ()
    lines: tuple[str, ...] = ()
    parts: tuple[HtmlPart, ...] = ()
    failures: tuple[FailureGroup, ...] = ()

    @property
    def all_charts(self) -> list[HtmlChart]:
        """Its charts and those of its parts, in order."""
        return [*self.charts, *(chart for part in self.parts for chart in part.charts)]


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
    versus = next((row.versus for row in rows if row.role is Role.CONTROL and row.versus), None)
    if versus is None:
        return HtmlCell(text="")
    verdict = "" if versus.verdict == "same" else versus.verdict
    text = f"{factor(versus.speedup)} {GLYPHS.get(verdict, '')} {verdict.upper()}".strip()
    return HtmlCell(
        text=text,
        aside=half_text(relative_half_width(versus.speedup, versus.low, versus.high)),
        sort=versus.speedup,
        mark=verdict,
    )
