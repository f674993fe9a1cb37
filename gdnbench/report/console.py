"""The two streams: data on stdout, progress and messages on stderr.

Rich honours `NO_COLOR` and non-terminals by itself; a width is set only where a pipe would cut a table.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from gdnbench.finite import finite
from gdnbench.report.controls import DropControls, without_controls

if TYPE_CHECKING:
    from rich.table import Table

_PIPE_WIDTH = 160
_FORMULA = re.compile(r"[=+\t]|-(?![\d.]+$)|@(?!!?U?P[\dT] )")  # as spreadsheets see one; `@P0` is a predicate of SASS
_UNLIMITED = 1000  # columns, in which any table shows how wide it would be


def _width(stream: Any) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH


def data_console() -> Console:
    """Where tables go: stdout."""
    return _Console(width=_width(sys.stdout), highlight=False)


def message_console(*, quiet: bool = False) -> Console:
    """Where progress, warnings and errors go: stderr; silent if `quiet`."""
    return _Console(stderr=True, quiet=quiet, width=_width(sys.stderr), highlight=False)


class _Console(Console):
    """A console that control characters in text do not reach."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.push_render_hook(DropControls())

    def on_broken_pipe(self) -> None:
        """Where nobody reads messages, the command goes on without them; data that nobody reads end it."""
        if self.stderr:
            self.quiet = True
        else:
            super().on_broken_pipe()


def fits(console: Console, table: Table) -> bool:
    """Whether a table is no wider than the console."""
    return console.measure(table, options=console.options.update(width=_UNLIMITED)).maximum <= console.width


def print_json(document: Any) -> None:
    """Writes one JSON document to stdout; NaN and infinities become null, which JSON has and they are not."""
    print(json.dumps(finite(document), indent=2, default=str))


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows as CSV to stdout, nothing if there are none; structured cells as JSON, missing ones empty."""
    if not rows:
        return  # no rows have no columns, and a heading of none is an empty line
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})


def print_text(text: str) -> None:
    """Writes lines to stdout as they are, whatever the terminal's width, without control characters."""
    print(without_controls(text))


def print_next(console: Console, words: Sequence[str]) -> None:
    """The command to go on with, in one line that can be copied."""
    console.print(f"next: {shlex.join(words)}", markup=False, soft_wrap=True)


def _cell(value: Any) -> Any:
    """A cell as text; text that a spreadsheet would compute with is marked as text by the apostrophe that it knows."""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        plain = without_controls(value)
        return f"'{plain}" if _FORMULA.match(plain) else plain
    return value
