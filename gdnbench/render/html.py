"""Makes a table that readers of a page can sort; templates lay it out and escape every text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from gdnbench.render.codec import is_interval
from gdnbench.render.table import Column, Table
from gdnbench.render.units import half_text

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
class HtmlColumn:
    """One column of a table: its heading, the heading's meaning, and whether its texts may be folded."""

    heading: str
    numeric: bool = True
    title: str = ""
    folds: bool = False


@dataclass(frozen=True, kw_only=True)
class HtmlRow:
    """One row of a table; `kind` is `floor`, `baseline` or empty."""

    cells: tuple[HtmlCell, ...]
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class HtmlTable:
    """A table that readers can sort."""

    id: str
    caption: str
    columns: tuple[HtmlColumn, ...]
    rows: tuple[HtmlRow, ...]


def html_table(table: Table[R], name: str, caption: str, kind: Callable[[R], str] = lambda _row: "") -> HtmlTable:
    """Makes the page's table of the columns that people see; `name` is its id, `kind` tells floors and the baseline."""
    columns = [column for column in table.columns if column.heading]
    heads = (
        HtmlColumn(heading=column.heading, numeric=column.right, title=column.meaning, folds=column.fold)
        for column in columns
    )
    rows = (HtmlRow(cells=tuple(_cell(column, row) for column in columns), kind=kind(row)) for row in table.rows)
    return HtmlTable(id=name, caption=caption, columns=tuple(heads), rows=tuple(rows))


def _cell(column: Column[Any], row: Any) -> HtmlCell:
    value, text = column.value(row), column.cell(row).plain
    if isinstance(value, Enum):
        return HtmlCell(text=text, sort=str(value.value), mark=str(value.value))
    if is_interval(value):
        aside = half_text(value.relative_half_width)
        return HtmlCell(text=text.removesuffix(f" {aside}"), aside=aside, sort=_finite(value.estimate))
    if isinstance(value, int | float):
        return HtmlCell(text=text, sort=_finite(value))
    return HtmlCell(text=text, sort=text or None)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
