"""What changed from one kernel to another, side by side."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gdnbench.inspection.difference import Change, Pair
from gdnbench.report.inspect_cells import number


def changed(pair: Pair) -> Group:
    """One pair: the numbers that differ, or that none does."""
    heading = title(pair)
    if not pair.built:
        return Group(heading, not_both())
    if pair.same:
        return Group(heading, Text("  the same: every number, and the code but for names of registers and addresses"))
    if not pair.changes:
        return Group(heading, Text("  the numbers are the same, the code is not: --sass shows where"))
    alike = [] if pair.sass_diff() else [Text("  the code is the same", style="dim")]
    return Group(heading, _table(pair), *alike)


def not_both() -> Text:
    """What stands for a comparison where one of a pair did not build."""
    return Text("  one of them did not build", style="red")


def title(pair: Pair) -> Text:
    """What is compared with what."""
    subject = pair.after.subject
    said = f"{subject.name}  {subject.shape}  {pair.after.arch}, beside {pair.before.subject.name}"
    return Text(said, style="bold")


def _table(pair: Pair) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    table.add_column(Text(pair.before.subject.name), justify="right", overflow="fold")
    table.add_column(Text(pair.after.subject.name), justify="right", overflow="fold")
    table.add_column("change", justify="right", no_wrap=True)
    for change in pair.changes:
        table.add_row(Text(change.title), number(change.before), number(change.after), Text(difference(change)))
    return table


def difference(change: Change) -> str:
    """By how much a number changed, `+4`; empty for what is no number."""
    before, after = change.before, change.after
    if isinstance(before, str) or isinstance(after, str) or before is None or after is None:
        return ""
    return f"{after - before:+.3g}" if isinstance(after - before, float) else f"{after - before:+d}"
