"""Prints what a verb found, in the form that was requested: the one place for `--json`, `--csv`, `--markdown`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.render.console import data_console, message_console, print_csv, print_json, print_next, print_text
from gdnbench.render.table import Answer, Block, Note, Table, TextTable
from gdnbench.render.view import current_view, table_of


def print_answer(answer: Answer, *, json: bool = False, csv: bool = False) -> None:
    """Prints an answer on stdout: as one of these forms, else by the command's view, with the next command below."""
    view = current_view()
    if json:
        documents = [table.document for table in answer.tables] if not answer.document else [answer.document()]
        print_json(documents[0] if len(documents) == 1 else documents)
    elif csv:
        records = [record for table in answer.tables for record in table.records("csv")]
        print_csv(view.of_records(answer.records() if answer.records else records))
    elif view.markdown:
        blocks = answer.markdown() if answer.markdown else answer.text(_WIDEST) if answer.text else answer.tables
        page = "\n".join(_markdown(view.of_blocks(list(blocks))))
        print_text(re.sub(r"\n{3,}", "\n\n", page).strip())
    else:
        console = data_console()
        for block in view.of_blocks(list(answer.text(console.width) if answer.text else answer.tables)):
            print_block(console, block)
        if answer.next:
            print_next(console, answer.next)


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


_WIDEST = 1000  # characters: a page of Markdown has room for every column


def _markdown(blocks: Sequence[Block]) -> Iterator[str]:
    """Yields the lines of tables, with their titles, and of the texts around them as lists; charts are left out."""
    for block in blocks:
        if table := table_of(block):
            if table.rows:
                yield from _markdown([Note(str(table.title), "title")])
                yield from ("", *markdown_table(table), "")
            yield from _markdown(table.notes)
        elif isinstance(block, Note | Text | str):
            note = block if isinstance(block, Note) else Note(block)
            lines = [escape_markdown(line.strip()) for line in str(note.line).splitlines() if line.strip()]
            if note.level == "meaning":
                yield from ("", "<details><summary>How to read it</summary>", "", *lines, "", "</details>", "")
            else:
                yield from (f"**{line}**\n" if note.level == "title" else f"- {line}" for line in lines)


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
        # A compiler's excerpt points with carets at columns: its lines are never broken.
        console.print(block, markup=False, soft_wrap=isinstance(block, Text) and "\n" in block.plain)


def markdown_table(table: Table[Any]) -> list[str]:
    """Returns the lines of a table of GitHub's Markdown: the columns that people see."""
    columns = [column for column in table.columns if column.heading]
    marks = ["--:" if column.right else ":--" for column in columns]
    rows = [[column.cell(row).plain for column in columns] for row in table.rows]
    return [_line([column.heading for column in columns]), f"| {' | '.join(marks)} |", *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape_markdown, cells))} |"


def escape_markdown(text: str) -> str:
    """Returns text as Markdown shows it, in one line."""
    for sign in "\\|*_<>`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
