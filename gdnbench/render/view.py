"""What the user wants of a verb's tables: columns, order, the meanings of columns, Markdown.

It is the view of the command that runs, for every verb has these options and no verb's function knows of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from gdnbench.errors import UnknownNameError
from gdnbench.render.codec import is_interval
from gdnbench.render.table import Block, Column, Note, Table
from gdnbench.render.text import TextTable

_NUMBER = re.compile(r"[+-]?\d[\d,]*\.?\d*")


@dataclass(frozen=True)
class TableView:
    """Columns by heading, all if empty; the one to sort by, `-` in front of it for the largest first."""

    columns: tuple[str, ...] = ()
    sort: str = ""
    legend: bool = False
    markdown: bool = False

    def of_blocks(self, blocks: Sequence[Block]) -> list[Block]:
        """Returns what is shown of blocks; raises UnknownNameError for a column that no table has.

        A table without any of the columns is left out, and stays as it is without the one to sort by.
        """
        tables = [table for block in blocks if (table := table_of(block)) and table.headed]
        self._check([column.heading for table in tables for column in table.columns if column.heading.strip()])
        return [shown for block in blocks for shown in self._shown(block)]

    def of_records(self, records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Returns the rows of CSV, whose columns are keys; raises UnknownNameError for one that no row has."""
        keys = list(dict.fromkeys(key for record in records for key in record))
        self._check(keys)
        if (place := _find(self._sort_name, keys)) is not None:
            records = sorted(records, key=lambda record: _rank(record.get(keys[place]), "", self._reversed))
        picked = [keys[at] for name in self.columns if (at := _find(name, keys)) is not None] or keys
        return [{key: record[key] for key in picked if key in record} for record in records]

    @property
    def _sort_name(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def _reversed(self) -> bool:
        return self.sort.startswith("-")

    def _check(self, headings: Collection[str]) -> None:
        for name in (*self.columns, *filter(None, [self._sort_name])):
            if _find(name, list(headings)) is None:
                known = ", ".join(dict.fromkeys(" ".join(heading.split()) for heading in headings))
                raise UnknownNameError(
                    f"there is no column {name}", f"the columns are {known}" if known else "no table is printed"
                )

    def _shown(self, block: Block) -> Iterator[Block]:
        table = table_of(block)
        if table is None:
            yield from () if self._hides(block) else (block,)
            return
        table = replace(table, notes=[note for note in table.notes if not self._hides(note)])
        if table.headed:
            table = self._sorted(table)
            headings = [column.heading for column in table.columns]
            found = [at for name in self.columns if (at := _find(name, headings)) is not None]
            if self.columns:
                table = replace(table, columns=[table.columns[at] for at in found], rows=table.rows if found else ())
        yield TextTable(table) if isinstance(block, TextTable) and table.rows else table

    def _hides(self, block: Block) -> bool:
        """Whether it is a meaning that was not asked for; Markdown has them in a fold."""
        return isinstance(block, Note) and block.level == "meaning" and not (self.legend or self.markdown)

    def _sorted(self, table: Table[Any]) -> Table[Any]:
        place = _find(self._sort_name, [column.heading for column in table.columns])
        if place is None:
            return table
        column: Column[Any] = table.columns[place]

        def rank(row: Any) -> tuple[int, float, str]:
            return (3, 0.0, "") if row is None else _rank(column.value(row), column.cell(row).plain, self._reversed)

        return replace(table, rows=sorted(table.rows, key=rank))


_VIEW: ContextVar[TableView | None] = ContextVar("view", default=None)


@contextmanager
def viewed(view: TableView) -> Iterator[None]:
    """Prints answers by a view."""
    token = _VIEW.set(view)
    try:
        yield
    finally:
        _VIEW.reset(token)


def current_view() -> TableView:
    """Returns the view of this command: all columns, as they are, without their meanings, unless it has one."""
    return _VIEW.get() or TableView()


def table_of(block: Block) -> Table[Any] | None:
    """Returns the table of a block, or None for another block."""
    return block.table if isinstance(block, TextTable) else block if isinstance(block, Table) else None


def _find(name: str, headings: Sequence[str]) -> int | None:
    """Returns the place of the column of that name, or else of the first that begins with it: `time` of `time µs`."""
    wanted = " ".join(name.lower().split()).removesuffix(" us")
    plain = [" ".join(heading.lower().split()) for heading in headings]
    same = [at for at, heading in enumerate(plain) if heading == " ".join(name.lower().split())]
    begins = [at for at, heading in enumerate(plain) if heading.startswith(f"{wanted} ")]
    return next(iter((*same, *begins) if wanted else ()), None)


def _rank(value: object, text: str, descending: bool) -> tuple[int, float, str]:
    """Returns what a row is sorted by: numbers first, then words, then cells that are empty."""
    exact = value.estimate if is_interval(value) else value
    found = _NUMBER.match(text) if text and not isinstance(exact, (int, float)) else None
    number = float(found[0].replace(",", "")) if found else exact
    if isinstance(number, (int, float)) and not math.isnan(number):
        return 0, -number if descending else number, ""
    word = text or ("" if value is None or isinstance(value, float) else str(value))
    return (1, 0.0, word) if word else (2, 0.0, "")
