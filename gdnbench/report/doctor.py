"""Prints the findings of `gdnbench doctor`: a table, a summary, and the next command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from gdnbench.doctor.check import Level, MachineCheck
from gdnbench.report.console import data_console, print_json, print_next

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def print_checks(checks: Sequence[MachineCheck], gpu: str, *, json: bool) -> None:
    """Prints the findings; the next command repeats `gpu`, the `--gpu` that they are for."""
    if json:
        print_json([asdict(check) for check in checks])
        return
    console = data_console()
    console.print(doctor_table(checks))
    counts = {level: sum(check.level == level for check in checks) for level in ("ok", "warn", "fail")}
    summary = ", ".join(f"{count} {level}" for level, count in counts.items())
    fatal = any(check.is_fatal for check in checks)
    told = ": nothing can be measured until the failed checks are fixed" if fatal else ""
    console.print(f"\n{summary}{told}", markup=False)
    option = [] if gpu == "auto" else ["--gpu", gpu]
    print_next(console, ["gdnbench", *(["doctor"] if fatal else ["run", "--kernel", "all"]), *option])


def doctor_table(checks: Sequence[MachineCheck]) -> Table:
    """Makes a row per check: name, level and finding; a remedy has a row of its own."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a long path is wrapped, not cut
    for check in checks:
        # Text, not str: Rich would take the [fla] of `pip install 'gdnbench[fla]'` for a style.
        table.add_row(Text(check.name), Text(check.level, style=_STYLES[check.level]), Text(check.finding))
        if check.remedy:
            table.add_row("", Text("→", justify="right"), Text(check.remedy, style="cyan"))
    return table
