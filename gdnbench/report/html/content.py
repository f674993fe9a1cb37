"""What the page is made of; templates only lay it out, and escape every text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Spec = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Cell:
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
class Column:
    """One column of a table: its heading, what the heading means, and whether its texts may be folded."""

    heading: str
    numeric: bool = True
    title: str = ""
    folds: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table; `kind` is `floor`, `baseline` or nothing."""

    cells: tuple[Cell, ...]
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that its readers can sort."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
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
    spec: Spec
    height: int
    note: str = ""
    picker: str = ""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One kernel of a picker."""

    label: str
    chosen: bool
    baseline: bool


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Cases that were not measured for the same reason."""

    status: str
    grave: bool
    labels: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a section: a shape of a run, or a plateau of a sweep.

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
    charts: tuple[Chart, ...] = ()
    table: Table | None = None
    folded: str = ""
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Section:
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
        parts: its shapes.
        failures: what was not measured at any shape.
    """

    id: str
    title: str
    lead: str = ""
    badge: str = ""
    warnings: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    charts: tuple[Chart, ...] = ()
    scale: bool = False
    table: Table | None = None
    lines: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One line of the provenance: a value for each run."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the runs disagree."""
        return len(set(self.values)) > 1


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole report; `leads` says of each run, by the id of its section, what it is."""

    title: str
    subtitle: str
    summary: Table
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    run_ids: tuple[str, ...]
    leads: tuple[tuple[str, str], ...]
    provenance: tuple[tuple[str, tuple[Fact, ...]], ...]
    details: tuple[tuple[str, tuple[Fact, ...]], ...]
    version: str
    words: tuple[tuple[str, str], ...] = field(default=())

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Every chart, in order."""
        return tuple(
            chart
            for section in self.sections
            for chart in (*section.charts, *(chart for part in section.parts for chart in part.charts))
        )
