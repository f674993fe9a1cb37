"""Makes a table that readers of a page can sort; templates lay it out and escape every text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from gdnbench.model.status import Role
from gdnbench.render.codec import GLYPHS, is_interval
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
