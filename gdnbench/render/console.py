"""The two streams, tables that fit any terminal, and output files, refused before the work begins or written whole.

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
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.containers import Lines
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from gdnbench.codec import finite
from gdnbench.errors import MachineError, UsageError
from gdnbench.origin import is_file, is_folder, on_option

LONGEST_NAME = 19  # characters of a kernel's name that stay on one line before other columns are dropped
_PART_OF_NAME = re.compile(r"(?<=[-_])(?=\w)|(?<=\w)(?=[/:])")  # where the next part of a name begins
_PIPE_WIDTH = 160
_FORMULA = re.compile(r"[=+\t]|-(?![\d.]+$)|@(?!!?U?P[\dT] )")  # as spreadsheets see one; `@P0` is a predicate of SASS

_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,40}m)")

_C0 = {*range(0x20), 0x7F} - {ord("\n"), ord("\t")}
_C1 = set(range(0x80, 0xA0))
_BIDIRECTIONAL = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # they reorder the text beside them
_DROPPED = dict.fromkeys(_C0 | _C1 | _BIDIRECTIONAL)


def data_console() -> Console:
    """Returns the console for tables: stdout."""
    return _Console(width=_width(sys.stdout), highlight=False)


def message_console(*, quiet: bool = False) -> Console:
    """Returns the console for progress, warnings and errors: stderr; silent if `quiet`."""
    return _Console(stderr=True, quiet=quiet, width=_width(sys.stderr), highlight=False)


def _width(stream: Any) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH


class _Console(Console):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.push_render_hook(_DropControls())

    def on_broken_pipe(self) -> None:
        """Goes on without messages if nobody reads them; ends the command if nobody reads data."""
        if self.stderr:
            self.quiet = True
        else:
            super().on_broken_pipe()


class _DropControls(RenderHook):
    """Drops control characters from everything that a console prints, except the console's own."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Wraps each renderable, so that it is cleaned where it is rendered."""
        return [_Cleaned(renderable) for renderable in renderables]


class _Cleaned:
    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self._renderable, options):
            yield Segment(text if control else without_controls(text), style, control)


def without_controls(text: str) -> str:
    """Drops characters that a terminal obeys instead of printing; line feeds and tabs stay."""
    return text.translate(_DROPPED)


def without_commands(text: str) -> str:
    """Drops control characters of text that another machine has coloured, but keeps its colours."""
    parts = _COLOUR.split(text)
    return "".join(part if _COLOUR.fullmatch(part) else without_controls(part) for part in parts)


def print_json(document: Any) -> None:
    """Writes one JSON document to stdout; NaN and infinities become null."""
    print(json.dumps(finite(document), indent=2, default=str))


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows as CSV to stdout: lists and objects as JSON, missing cells empty; nothing without rows."""
    if not rows:
        return  # without rows there are no columns: the header would be an empty line
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})


def print_text(text: str) -> None:
    """Writes text to stdout without control characters, whatever the terminal's width."""
    print(without_controls(text))


def print_next(console: Console, words: Sequence[str]) -> None:
    """Prints the next command in one line that can be copied."""
    argv = [*words, *on_option(words)]
    console.print(f"next: {shlex.join(argv)}", markup=False, soft_wrap=True)


def _cell(value: Any) -> Any:
    """Formats a cell; a leading apostrophe keeps a spreadsheet from reading text as a formula."""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        plain = without_controls(value)
        return f"'{plain}" if _FORMULA.match(plain) else plain
    return value


def plain_table(*, header: bool = True, gap: int = 2) -> Table:
    """Makes an empty table without lines; `gap` is the number of blanks between two columns."""
    return Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold", show_header=header)


class NameText(Text):
    """A name of a kernel or launch, which wraps between its parts, not inside a word."""

    def wrap(self, console: Console, width: int, **options: Any) -> Lines:
        """Returns the lines that a column of this width holds."""
        lines = Lines()
        for line in self.split(allow_blank=True):
            for part in line.divide(_breaks(line.plain, width)):
                lines.extend(part.wrap(console, width, **options))
        return lines


def _breaks(name: str, width: int) -> list[int]:
    """Returns where to break a name so that no line exceeds `width`, unless one part does."""
    found, begin, last = [], 0, 0
    for end in (*(match.start() for match in _PART_OF_NAME.finditer(name)), len(name)):
        if end - begin > width and last > begin:
            found.append(last)
            begin = last
        last = end
    return found


def check_output_file(path: Path, option: str, suffixes: Sequence[str], example: str) -> None:
    """Refuses a file of `option` that cannot be written; `suffixes` are in lower case, `example` is for hints."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option} {path}: the name ends in {' or '.join(suffixes)}", f"as in {option} {example}")
    if not is_folder(path.parent):
        raise UsageError(f"{option} {path}: there is no folder {path.parent}", "make it first")
    if os.path.lexists(path) and not is_file(path):
        raise UsageError(f"{option} {path} is not a regular file", "name one that is, or that does not exist yet")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _cannot_write(path, "it is read-only")


def write_output_file(path: Path, content: bytes) -> None:
    """Writes a file in one step, through a symbolic link; raises MachineError, and an existing file stays."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".gdnbench-{token_hex(8)}.new")
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    except OSError as error:
        raise _cannot_write(path, error.strerror or str(error)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _cannot_write(path: Path, why: str) -> MachineError:
    return MachineError(
        f"cannot write {path}: {why}", "name a file in a folder that you can write to, on a disk with room"
    )
