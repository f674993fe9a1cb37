"""Writes a table for a terminal: a column that has no room there goes, and is named below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from gdnbench.render.console import LONGEST_NAME, NameText, plain_table
from gdnbench.render.table import Column, Table


class TextTable:
    """A table of Rich's of the columns that have room; names in a first column that folds, to LONGEST_NAME at most."""

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        columns = [column for column in table.columns if column.heading]
        self._cells = [(column, [column.cell(row) for row in table.rows]) for column in columns]

    @property
    def width(self) -> int:
        """Characters that all columns need, names counting as long as they are."""
        return self._width(self._cells, spared=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells, dropped = self._cells, list[str]()
        while self._width(cells) > options.max_width and (last := max(column.drop for column, _ in cells)):
            dropped += [column.heading for column, _ in cells if column.drop == last]
            cells = [each for each in cells if each[0].drop != last]
        yield self._rich(cells)
        if dropped:
            names = dict.fromkeys(" ".join(heading.split()).replace(" /", "/") for heading in dropped)
            yield Text(f"no room here for {', '.join(names)}", style="dim")

    def _width(self, cells: Sequence[tuple[Column[Any], Sequence[Text]]], *, spared: bool = True) -> int:
        widths = [self._column_width(column, texts) for column, texts in cells]
        if spared and cells and cells[0][0].fold:
            longest = max((_widest(text) for text in cells[0][1]), default=0)
            widths[0] -= max(0, longest - LONGEST_NAME)
        return sum(widths) + self.table.gap * max(0, len(widths) - 1)

    def _column_width(self, column: Column[Any], texts: Sequence[Text]) -> int:
        heading = [Text(column.heading)] if self.table.headed else []
        texts = () if column.rest else texts
        widest = max((_widest(text) for text in (*heading, *texts)), default=0)
        return min(widest, column.most) if column.most else widest

    def _rich(self, cells: Sequence[tuple[Column[Any], Sequence[Text]]]) -> RichTable:
        rich = plain_table(header=self.table.headed, gap=self.table.gap)
        rich.expand = any(column.rest for column, _ in cells)
        for column, _ in cells:
            rich.add_column(
                (NameText if column.fold else Text)(column.heading, style="bold"),
                justify="right" if column.right else "left",
                no_wrap=not (column.fold or column.wraps),
                overflow="fold" if column.fold else "ellipsis",
                max_width=column.most or None,
                vertical="bottom" if column.bottom else "top",
                ratio=1 if column.rest else None,
            )
        for place, row in enumerate(self.table.rows):
            texts = [texts[place] for _, texts in cells]
            if cells[0][0].fold:
                texts[0] = NameText(texts[0].plain, style=texts[0].style, spans=list(texts[0].spans))
            rich.add_row(*texts, style=self.table.style(row) if self.table.style else None)
        return rich


def _widest(text: Text) -> int:
    return max((line.cell_len for line in text.split(allow_blank=True)), default=0)
