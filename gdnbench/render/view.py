"""The view of a verb's tables: which columns, sorted by which, with their meanings or not, as Markdown or not.

The command that runs has one view; its function does not get these options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar

from gdnbench.errors import UnknownNameError
from gdnbench.render.table import Block, Column, Note, Table, TextTable
from gdnbench.render.units import is_interval

R = TypeVar("R")

_NUMBER = re.compile(r"([+-]?\d[\d,]*\.?\d*)(?=$|[x%\s±])")


@dataclass(frozen=True)
class TableView:
    """Columns by heading, all if empty; the one to sort by, `-` in front of it for the largest first."""

    columns: tuple[str, ...] = ()
    sort: str = ""
    legend: bool = False
    markdown: bool = False

    def of_blocks(self, blocks: Sequence[Block]) -> list[Block]:
        """Returns what is shown of blocks; raises UnknownNameError for a column that no table has.

        A table that has none of the columns is left out; one that lacks the column to sort by keeps its order.
        """
        tables = [table for block in blocks if (table := table_of(block)) and table.headed]
        self._check([column.heading for table in tables for column in table.columns if column.heading.strip()])
        return [self._shown(block) for block in blocks if not self._hides(block)]

    def of_records(self, records: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Returns the rows of CSV, whose columns are keys; raises UnknownNameError for one that no row has."""
        keys = list(dict.fromkeys(key for record in records for key in record))
        self._check(keys)
        if by := _find(self.sort.removeprefix("-"), keys):
            records = self._in_order(records, lambda record: _key(record.get(keys[by[0]])))
        picked = [keys[at] for name in self.columns for at in _find(name, keys)] or keys
        return [{key: record[key] for key in picked if key in record} for record in records]

    def _check(self, headings: Sequence[str]) -> None:
        for name in filter(None, (*self.columns, self.sort.removeprefix("-"))):
            if not _find(name, headings):
                known = ", ".join(dict.fromkeys(" ".join(heading.split()) for heading in headings))
                hint = f"the columns are {known}" if known else "no table is printed"
                raise UnknownNameError(f"there is no column {name}", hint)

    def _hides(self, block: Block) -> bool:
        """Whether it is a meaning that was not requested; in Markdown they are folded."""
        return isinstance(block, Note) and block.level == "meaning" and not (self.legend or self.markdown)

    def _shown(self, block: Block) -> Block:
        table = table_of(block)
        if table is None:
            return block
        table = replace(table, notes=[note for note in table.notes if not self._hides(note)])
        headings = [column.heading for column in table.columns]
        if table.headed and (by := _find(self.sort.removeprefix("-"), headings)):
            column: Column[Any] = table.columns[by[0]]
            rows = self._in_order(table.rows, lambda row: row and _key(column.value(row), column.cell(row).plain))
            table = replace(table, rows=rows)
        if table.headed and self.columns:
            picked = [table.columns[at] for name in self.columns for at in _find(name, headings)]
            table = replace(table, columns=picked) if picked else replace(table, columns=(), rows=(), title="")
        return TextTable(table) if isinstance(block, TextTable) and table.rows else table

    def _in_order(self, rows: Sequence[R], key: Callable[[R], Any]) -> list[R]:
        """Returns the rows by a key, those without one as they are at the end."""
        keyed = [(key(row), row) for row in rows]
        known = sorted((each for each in keyed if each[0]), key=itemgetter(0), reverse=self.sort.startswith("-"))
        return [row for _, row in (*known, *(each for each in keyed if not each[0]))]


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
    """Returns this command's view; by default all columns in their own order, without meanings."""
    return _VIEW.get() or TableView()


def table_of(block: Block) -> Table[Any] | None:
    """Returns the table of a block, or None for another block."""
    return block.table if isinstance(block, TextTable) else block if isinstance(block, Table) else None


def _find(name: str, headings: Sequence[str]) -> list[int]:
    """Returns the place of the column of that name, or of the first that begins with it, `time µs` for `time`; or none.

    `us` stands for `µs`.
    """
    wanted = re.sub(r" us$", " µs", " ".join(name.lower().split()))
    plain = [" ".join(heading.lower().split()) for heading in headings]
    begins = [at for at, heading in enumerate(plain) if wanted and heading.startswith(f"{wanted} ")]
    return ([plain.index(wanted)] if wanted and wanted in plain else begins)[:1]


def _key(value: object, text: str = "") -> tuple[float, str] | None:
    """Returns what a row is sorted by: numbers before words, and None for what is unknown."""
    exact = value.estimate if is_interval(value) else value
    found = None if isinstance(exact, (int, float)) else _NUMBER.match(text or str(exact or ""))
    number = float(found[1].replace(",", "")) if found else exact
    if isinstance(number, (int, float)):
        return None if math.isnan(number) else (number, "")
    word = text or str(exact or "")
    return (math.inf, word) if word else None
