"""A table for a terminal of any width: columns that a reader can do without go before a name or a number is cut."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

LONGEST_NAME = 19  # columns that a name takes before numbers go; a longer one is folded
_UNLIMITED = 1000  # columns, in which any table shows how wide it would be


class Fitted:
    """A table that leaves columns out where there is no room for them, and says which.

    Args:
        table: with all of its columns.
        droppable: their headings, those that go first in front; one that the table lacks is none.
    """

    def __init__(self, table: Table, droppable: Sequence[str]) -> None:
        self._table = table
        self._droppable = droppable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, dropped = self._table, []
        for heading in self._droppable:
            if _width(console, options, table) <= options.max_width:
                break
            narrower = _without(table, heading)
            if len(narrower.columns) < len(table.columns):
                dropped.append(heading)
            table = narrower
        yield table
        if dropped:
            yield Text(f"no room here for {', '.join(dropped)}", style="dim")


def _width(console: Console, options: ConsoleOptions, table: Table) -> int:
    """Of the table, with names that may be folded taking no more than their share."""
    unlimited = options.update(width=_UNLIMITED)
    names = table.columns[0]
    longest = max((console.measure(cell, options=unlimited).maximum for cell in names.cells), default=0)
    spared = max(0, longest - LONGEST_NAME) if names.overflow == "fold" else 0
    return console.measure(table, options=unlimited).maximum - spared


def _without(table: Table, heading: str) -> Table:
    kept = [copy(column) for column in table.columns if _heading(column.header) != heading]
    for place, column in enumerate(kept):
        column._index = place  # decides about the padding at the table's edge
    narrower = copy(table)
    narrower.columns = kept
    return narrower


def _heading(header: object) -> str:
    """A column's heading in one line."""
    text = header.plain if isinstance(header, Text) else str(header)
    return " ".join(text.split()).replace(" /", "/")
