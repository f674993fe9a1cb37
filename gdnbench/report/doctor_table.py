"""The doctor's findings as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdnbench.doctor.check import Check, Level

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def doctor_table(checks: Sequence[Check]) -> Table:
    """One row a check: its name, its level as a word, and what was found; a remedy follows on lines of its own."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a path too long for the line goes on in the next, uncut
    for check in checks:
        # Text, not str: Rich would take the [fla] of `pip install 'gdnbench[fla]'` for a style.
        table.add_row(Text(check.name), Text(check.level, style=_STYLES[check.level]), Text(check.finding))
        if check.remedy:
            table.add_row("", Text("→", justify="right"), Text(check.remedy, style="cyan"))
    return table
