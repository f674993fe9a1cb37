"""Prints the checks of `gdnbench verify --ready`: a line each, the verdict, and the next command."""

from __future__ import annotations

import shlex

from rich.text import Text

from gdnbench.ready.check import CheckStatus, Readiness
from gdnbench.render.console import data_console, plain_table, print_json, print_next
from gdnbench.wording import plural

_STYLES = {CheckStatus.PASSED: "green", CheckStatus.FAILED: "bold red", CheckStatus.UNCHECKED: "yellow"}
_SIGNS = dict(zip(_STYLES, "✓✗–", strict=True))  # noqa: RUF001 - a dash, as in a table
_WORDS = dict(zip(_STYLES, ("ok", "FAIL", "-"), strict=True))
"""For encodings of terminals that lack these signs."""


def print_readiness(found: Readiness, *, json: bool) -> None:
    """Prints the checks of a kernel."""
    if json:
        print_json(_document(found))
        return
    console = data_console()
    signs = _SIGNS if console.encoding.startswith("utf") else _WORDS
    table = plain_table(header=False)
    for column in ("sign", "name", "what"):
        table.add_column(column, no_wrap=column != "what", overflow="fold")
    for check in found.checks:
        table.add_row(Text(signs[check.status], style=_STYLES[check.status]), Text(check.name), Text(check.what))
        if check.status is not CheckStatus.PASSED:
            table.add_row("", Text("→", justify="right"), Text(shlex.join(check.command), style="cyan"))
    console.print(Text(found.kernel, style="bold"))
    console.print(table)
    console.print()
    console.print(Text(_verdict(found)))
    print_next(console, found.next_command)


def _verdict(found: Readiness) -> str:
    if found.is_ready:
        return "ready"
    counts = {
        "failed": len(found.of_status(CheckStatus.FAILED)),
        "not checked": len(found.of_status(CheckStatus.UNCHECKED)),
    }
    told = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    return f"not ready: {sum(counts.values())} of {plural(len(found.checks), 'check')}: {told}"


def _document(found: Readiness) -> dict[str, object]:
    return {
        "kernel": found.kernel,
        "op": found.op,
        "suite": found.suite,
        "ready": found.is_ready,
        "checks": [
            {
                "name": check.name,
                "status": check.status.value,
                "what": check.what,
                "command": shlex.join(check.command),
            }
            for check in found.checks
        ],
        "next": shlex.join(found.next_command),
    }
