"""Figures that others published, apart from everything that was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from gdnbench.compare import Figure, Source
from gdnbench.report.html.content import Cell, Column, Row, Section, Table

_LEAD = "As they were published, by others, on machines and with methods of their own. Not measured by gdnbench."
_COLUMNS = (
    Column(heading="kernel", numeric=False),
    Column(heading="B"),
    Column(heading="heads", numeric=False),
    Column(heading="time µs", title="with the digits that were published"),
    Column(heading="timer", numeric=False),
    Column(heading="source", numeric=False, title="of the list below the table"),
)


def find_figures(results: Path, wanted: str) -> Path | None:
    """The folder of published figures that `published/<name>`, or a path, names; None for any other name.

    Raises:
        UnknownNameError: if there are no such figures.
    """
    from gdnbench.compare.published import FOLDER, NAME, find_published

    if wanted and (Path(wanted) / NAME).is_file():
        return Path(wanted)
    return find_published(results, wanted) if wanted.startswith(f"{FOLDER}/") else None


def load_figures(folder: Path) -> Source:
    """Reads published figures.

    Raises:
        RunFormatError: if they cannot be read.
    """
    from gdnbench.compare.published import load_published

    return load_published(folder)


def published_section(source: Source, prefix: str) -> Section:
    """One publisher's figures; each names one of the citations below them."""
    citations = list(dict.fromkeys(figure.citation for figure in source.figures if figure.citation))
    table = Table(
        id=f"{prefix}-table",
        caption=f"{source.name}: published figures",
        columns=_COLUMNS,
        rows=tuple(_row(figure, citations) for figure in source.figures),
    )
    return Section(
        id=prefix,
        title=source.name,
        lead=f"{source.gpu or 'GPU unknown'}. {_LEAD}",
        badge="published",
        warnings=source.warnings,
        table=table,
        lines=(
            *(f"[{number}] {citation}" for number, citation in enumerate(citations, start=1)),
            *(f"{name}: {value}" for name, value in source.conditions.items()),
        ),
    )


def _row(figure: Figure, citations: Sequence[str]) -> Row:
    shape, number = figure.shape, citations.index(figure.citation) + 1 if figure.citation else 0
    return Row(
        cells=(
            Cell(text=figure.label, sort=figure.label),
            Cell(text=str(shape.B), sort=shape.B),
            Cell(text=str(shape).partition(" ")[2], sort=str(shape)),
            _time(figure),
            Cell(text=figure.timer, sort=figure.timer),
            Cell(text=f"[{number}]" if number else "", sort=number or None),
        )
    )


def _time(figure: Figure) -> Cell:
    """As it was published: digits of our own would promise what nobody measured."""
    if math.isnan(figure.time_us):
        return Cell(text=figure.reason or figure.status.value)
    return Cell(text=f"{figure.time_us:g}", sort=figure.time_us)
