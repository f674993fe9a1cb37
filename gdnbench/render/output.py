"""Prints what a verb found, in the form that was requested: the one place for `--json` and `--csv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.render.console import data_console, message_console, print_csv, print_json, print_next
from gdnbench.render.table import Answer, Block, Note, Table
from gdnbench.render.text import TextTable


def print_answer(answer: Answer, *, json: bool = False, csv: bool = False) -> None:
    """Prints an answer on stdout: as one of these forms, else as text with the next command below."""
    if json:
        print_json(answer.document() if answer.document else _document(answer.tables))
    elif csv:
        print_csv(answer.records() if answer.records else _records(answer.tables))
    else:
        console = data_console()
        for block in answer.text(console.width) if answer.text else answer.tables:
            print_block(console, block)
        if answer.next:
            print_next(console, answer.next)


def print_line(text: str) -> None:
    """Prints one line on stdout."""
    print_block(data_console(), Note(text))


def print_written(
    files: Sequence[str],
    steps: Sequence[str],
    document: Mapping[str, object],
    notes: Sequence[str],
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Prints files that were written and what to do next, in lines to be copied, or JSON; notes on stderr."""
    console = message_console(quiet=quiet)
    for note in notes:
        console.print(f"note: {note}", markup=False)
    lines = [Note(line, whole=True) for line in (*files, "", *(f"next: {step}" for step in steps))]
    print_answer(Answer(text=lambda _: lines, document=lambda: document), json=json)


def _document(tables: Sequence[Table[Any]]) -> object:
    return tables[0].document if len(tables) == 1 else [table.document for table in tables]


def _records(tables: Sequence[Table[Any]]) -> list[dict[str, object]]:
    return [record for table in tables for record in table.records("csv")]


def print_block(console: Console, block: Block) -> None:
    """Prints a part of what a terminal shows."""
    if isinstance(block, Table):
        if block.title:
            console.print(Text(block.title, style="bold") if isinstance(block.title, str) else block.title)
        if block.rows and any(column.heading for column in block.columns):
            console.print(TextTable(block))
        for note in block.notes:
            print_block(console, note)
    elif isinstance(block, Note):
        console.print(block.line, soft_wrap=block.whole)
    elif callable(block) and not hasattr(block, "__rich_console__"):
        block(console)
    else:
        console.print(block, markup=False)
