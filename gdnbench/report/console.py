"""The two streams: data on stdout, progress and messages on stderr.

Rich honours `NO_COLOR` and non-terminals by itself; a width is set only where a pipe would cut a table.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from gdnbench.finite import finite

if TYPE_CHECKING:
    from rich.table import Table

_PIPE_WIDTH = 160
_UNLIMITED = 1000  # columns, in which any table shows how wide it would be


def _width(stream: Any) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH


def data_console() -> Console:
    """Where tables go: stdout."""
    return Console(width=_width(sys.stdout), highlight=False)


def message_console(*, quiet: bool = False) -> Console:
    """Where progress, warnings and errors go: stderr; silent if `quiet`."""
    return Console(stderr=True, quiet=quiet, width=_width(sys.stderr), highlight=False)


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


def _cell(value: Any) -> Any:
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else value
