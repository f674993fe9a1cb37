"""The two streams: data on stdout, progress and messages on stderr.

Rich honours `NO_COLOR` and pipes by itself; a width is set only where a pipe would cut a table. Control characters in
stored text are dropped everywhere: an escape sequence in a run's label must not move the terminal's cursor.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment

from gdnbench.codec import finite

_PIPE_WIDTH = 160
_FORMULA = re.compile(r"[=+\t]|-(?![\d.]+$)|@(?!!?U?P[\dT] )")  # as spreadsheets see one; `@P0` is a predicate of SASS

_C0 = {*range(0x20), 0x7F} - {ord("\n"), ord("\t")}
_C1 = set(range(0x80, 0xA0))
_BIDIRECTIONAL = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # they reorder the text beside them
_DROPPED = dict.fromkeys(_C0 | _C1 | _BIDIRECTIONAL)


def data_console() -> Console:
    """The console for tables: stdout."""
    return _Console(width=_width(sys.stdout), highlight=False)


def message_console(*, quiet: bool = False) -> Console:
    """The console for progress, warnings and errors: stderr; silent if `quiet`."""
    return _Console(stderr=True, quiet=quiet, width=_width(sys.stderr), highlight=False)


def _width(stream: Any) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH


class _Console(Console):
    """A console that drops control characters from text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.push_render_hook(_DropControls())

    def on_broken_pipe(self) -> None:
        """If nobody reads messages, the command goes on without them; if nobody reads data, it ends."""
        if self.stderr:
            self.quiet = True
        else:
            super().on_broken_pipe()


class _DropControls(RenderHook):
    """Drops control characters from everything that a console prints, except the console's own."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Each of them, cleaned where it is rendered."""
        return [_Cleaned(renderable) for renderable in renderables]


class _Cleaned:
    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self._renderable, options):
            yield Segment(text if control else without_controls(text), style, control)


def without_controls(text: str) -> str:
    """The text without characters that a terminal obeys instead of printing; line feeds and tabs stay."""
    return text.translate(_DROPPED)


def print_json(document: Any) -> None:
    """Writes one JSON document to stdout; NaN and infinities, which JSON does not have, become null."""
    print(json.dumps(finite(document), indent=2, default=str))


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows as CSV to stdout; cells that are lists or objects as JSON, missing ones empty; no rows, no output."""
    if not rows:
        return  # without rows there are no columns: the header would be an empty line
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})


def print_text(text: str) -> None:
    """Writes lines to stdout as they are, whatever the terminal's width, without control characters."""
    print(without_controls(text))


def print_next(console: Console, words: Sequence[str]) -> None:
    """Prints the command to run next, in one line that can be copied."""
    console.print(f"next: {shlex.join(words)}", markup=False, soft_wrap=True)


def _cell(value: Any) -> Any:
    """A cell as text; an apostrophe in front keeps a spreadsheet from reading text as a formula."""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        plain = without_controls(value)
        return f"'{plain}" if _FORMULA.match(plain) else plain
    return value
