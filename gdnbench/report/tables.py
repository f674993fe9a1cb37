"""Tables in the house's style, for terminals of any width."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

LONGEST_NAME = 19  # characters of a kernel's name that stay on one line before other columns are dropped
_UNLIMITED = 1000  # characters; wider than any table


def plain_table(*, header: bool = True, gap: int = 2) -> Table:
    """An empty table without lines.

    Args:
        header: whether the columns have headings.
        gap: blanks between two columns.
    """
    return Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold", show_header=header)


def fits(console: Console, table: Table) -> bool:
    """Whether a table is no wider than the console."""
    return console.measure(table, options=console.options.update(width=_UNLIMITED)).maximum <= console.width


class FittedTable:
    """A table that drops its least important columns where the terminal is too narrow, and says which.

    Args:
        table: with all of its columns.
        droppable: headings of the columns to drop, the first one first; headings that the table lacks are ignored.
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
    """The table's width, with names that may be folded counted as LONGEST_NAME at most."""
    unlimited = options.update(width=_UNLIMITED)
    names = table.columns[0]
    longest = max((console.measure(cell, options=unlimited).maximum for cell in names.cells), default=0)
    spared = max(0, longest - LONGEST_NAME) if names.overflow == "fold" else 0
    return console.measure(table, options=unlimited).maximum - spared


def _without(table: Table, heading: str) -> Table:
    kept = [copy(column) for column in table.columns if _heading(column.header) != heading]
    for place, column in enumerate(kept):
        column._index = place  # Rich pads by it at the table's edge
    narrower = copy(table)
    narrower.columns = kept
    return narrower


def _heading(header: object) -> str:
    """A column's heading in one line."""
    text = header.plain if isinstance(header, Text) else str(header)
    return " ".join(text.split()).replace(" /", "/")
