"""Describes what a verb prints: columns and rows, notes, and the next command; and writes a table for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from gdnbench.origin import LEDGER, RESULTS, ledger_option, out_option
from gdnbench.render.console import LONGEST_NAME, NameText, plain_table
from gdnbench.render.units import cell, fields

R = TypeVar("R")

Cell = str | Text

Level = Literal["", "caution", "failure", "legend", "meaning", "summary", "title", "warning"]
NOTE_STYLES: Mapping[Level, str] = {
    "": "",
    "caution": "yellow",
    "failure": "red",
    "legend": "dim",
    "meaning": "dim",  # of columns and verdicts: shown with `--legend` alone
    "summary": "bold",
    "title": "bold",
    "warning": "yellow",
}


@dataclass(frozen=True)
class Column(Generic[R]):
    """One column of a table, for people and for programs."""

    keys: str  # name for programs; three of an `Interval`; `*` for a mapping's keys; empty: for people alone
    value: Callable[[R], object]  # exact: a number, text, Interval, Verdict, Status or mapping; None if unknown
    heading: str = ""  # for people; empty for a column that CSV and JSON alone have
    show: Callable[[R], Cell] | None = None  # what people see, by default `units.cell` of the value
    drop: int = 0  # 0: always stays; where the terminal is too narrow, the highest goes first
    only: str = ""  # the one of `csv` and `json` that has it; empty for both
    style: str = ""  # of all of its cells; a cell that `show` gives as Text keeps its own
    right: bool = False
    fold: bool = False  # long cells go on in the next line, never cut
    rest: bool = False  # it takes the room that others leave; longer cells are cut
    most: int = 0  # greatest width of a column that folds, in characters; 0 for any
    wraps: bool = False  # long cells go on in the next line, longer words are cut
    bottom: bool = False  # heading and cells stand at the bottom

    def fields(self, row: R) -> dict[str, object]:
        """Returns the row's values by name, as CSV and JSON have them."""
        return fields(self.keys.split(), self.value(row))

    def cell(self, row: R) -> Text:
        """Returns what people see of a row."""
        shown = self.show(row) if self.show else cell(self.keys.partition(" ")[0], self.value(row))
        text = shown if isinstance(shown, Text) else Text(shown)
        text.style = text.style or self.style
        return text


@dataclass(frozen=True)
class Note:
    """A line above or below tables; `whole` keeps it in one line, as what is copied must be."""

    text: Cell
    level: Level = ""
    whole: bool = False

    @property
    def line(self) -> Text:
        """The line with its style."""
        if isinstance(self.text, Text):
            return self.text
        return Text(f"warning: {self.text}" if self.level == "warning" else self.text, style=NOTE_STYLES[self.level])


@dataclass(frozen=True)
class Table(Generic[R]):
    """Columns and rows; `title` and `notes` stand above and below it in a terminal, `head` beside its rows in JSON.

    `rows_key` names the rows in JSON; if empty, the document is the list of rows alone. `style` is that of a whole row.
    """

    columns: Sequence[Column[R]]
    rows: Sequence[R]
    title: Cell = ""
    notes: Sequence[Note] = ()
    head: Mapping[str, object] = field(default_factory=dict)
    rows_key: str = ""
    headed: bool = True
    gap: int = 2
    style: Callable[[R], str] | None = None

    def records(self, form: str = "json") -> list[dict[str, object]]:
        """Returns the rows as `csv` or `json` have them."""
        columns = [column for column in self.columns if column.keys and column.only in {"", form}]
        return [{name: value for column in columns for name, value in column.fields(row).items()} for row in self.rows]

    @property
    def document(self) -> object:
        """The table as JSON has it."""
        records = self.records()
        return {**self.head, self.rows_key: records} if self.rows_key else records


def plain_rows(
    rows: Sequence[Sequence[Cell]], *, right: Collection[int] = (), style: str = "", title: Cell = ""
) -> Table[Sequence[Cell]]:
    """Makes a table of cells without headings: the last column folds, those of `right` stand at the right."""
    last = len(rows[0]) - 1 if rows else -1
    columns: list[Column[Sequence[Cell]]] = [
        Column("", itemgetter(n), " ", right=n in right, fold=n == last, style="" if n else style)
        for n in range(last + 1)
    ]
    return Table(columns, rows, title, headed=False)


def check_rows(checks: Iterable[tuple[Cell, Cell, Cell, str]]) -> Table[Sequence[Cell]]:
    """Makes a row of three cells for each check, and one below it for its remedy, unless that is empty."""
    rows: list[Sequence[Cell]] = []
    for *cells, remedy in checks:
        rows.append(cells)
        if remedy:
            rows.append(("", Text("→", justify="right"), Text(remedy, style="cyan")))
    return plain_rows(rows)


TitledRow = tuple[str, Sequence[Cell]]
"""A title and its cells; without cells it heads the rows below it."""


def titled_table(
    headings: Sequence[str],
    rows: Sequence[TitledRow],
    *,
    fold: int = 0,
    wrap: int = 0,
    bottom: int = 0,
    folds_titles: bool = False,
    least: int = 1,
    most: int = 0,
) -> Table[TitledRow]:
    """Returns a table of things side by side: a title a row, a column a thing; a blank heading is of words.

    `fold`, `wrap` and `bottom` are numbers of first columns; `least` and `most` are widths in characters.
    """

    def at(place: int) -> Callable[[TitledRow], Cell]:
        return lambda row: row[1][place] if place < len(row[1]) else ""

    titles: Column[TitledRow] = Column("", lambda row: row[0], " " * least, fold=folds_titles)
    columns = [
        Column(
            "",
            at(place),
            head,
            right=bool(head.strip()),
            fold=place < fold,
            most=most if place < fold else 0,
            wraps=place < wrap,
            bottom=place < bottom,
        )
        for place, head in enumerate(headings)
    ]
    return Table([titles, *columns], rows, style=lambda row: "" if row[1] else "bold")


Block = Table[Any] | Note | RenderableType | Callable[[Console], None]
"""A part of what a terminal shows: a function prints what is neither text nor table."""


@dataclass(frozen=True)
class Answer:
    """What a verb prints, in every form that it has; a form's parts are made if it is requested."""

    tables: Sequence[Table[Any]] = ()  # one below the other; the forms below are for what is not the tables'
    text: Callable[[int], Iterable[Block]] | None = None  # takes the terminal's width in characters
    document: Callable[[], object] | None = None
    records: Callable[[], Sequence[Mapping[str, object]]] | None = None
    markdown: Callable[[], Iterable[Block]] | None = None
    next: Sequence[str] | None = None


def command(verb: str, *args: str, results: Path = RESULTS, ledger: Path = LEDGER) -> tuple[str, ...]:
    """Returns a command line of gdnbench; a folder of runs, or a ledger, is named unless it is the default."""
    return ("gdnbench", verb, *args, *out_option(results), *ledger_option(ledger))


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
