"""`gdnbench try`: writes an experiment down before it is measured."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.complete import complete_kernels
from gdnbench.cli.options import JsonOption, LedgerOption, OpOption
from gdnbench.places import LEDGER


def try_(
    hypothesis: Annotated[str, typer.Argument(metavar="HYPOTHESIS", help="Why it should be so, in a sentence.")],
    kernel: Annotated[
        str,
        typer.Option(
            "--kernel",
            "-k",
            metavar="KERNEL",
            help="What is tried, with params after colons.",
            autocompletion=complete_kernels,
        ),
    ],
    expect: Annotated[
        list[str],
        typer.Option(metavar="BOUND", help="'vs decode-v8 >= 1.02 at B=1' or 'time <= 4.2us at B=1'; several may be."),
    ],
    stop: Annotated[str, typer.Option(metavar="TEXT", help="When to give it up, in words.")] = "",
    after: Annotated[int, typer.Option(metavar="ID", min=0, help="The entry that it follows.")] = 0,
    gate: Annotated[
        list[int] | None,
        typer.Option(
            metavar="ID", min=1, help="An entry that must be confirmed before this may be closed; several may be."
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also what an entry refuted; it is said, and done.")] = False,
    op: OpOption = "",
    ledger: LedgerOption = LEDGER,
    json: JsonOption = False,
) -> None:
    """Write an experiment down before it is measured: why, and what is expected.

    The entry keeps the sources as they are now, the commit and the time. When the
    change is made and measured, `gdnbench ledger close ID RUN` holds the run's
    intervals against each `--expect`. What an entry refuted is not tried again
    without `--again`. With `--gate ID`, steps of a plan can be written down at once:
    go, or no-go. Needs no GPU.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import UsageError
    from gdnbench.ledger.entry import Opened
    from gdnbench.ledger.file import Entries, append_event, read_ledger
    from gdnbench.ledger.opening import opened_event, plan_try, refuted_before
    from gdnbench.report.console import message_console
    from gdnbench.report.ledger import print_opened

    planned = plan_try(load_catalog(), hypothesis, kernel, expect, op=op, stop=stop, after=after, gates=gate or ())
    repeats: list[str] = []

    def make(entries: Entries) -> Opened:
        if why := refuted_before(planned, entries):
            if not again:
                raise UsageError(why, f"see gdnbench ledger; change {planned.label} first, or say --again")
            repeats.append(why)
        return opened_event(planned, entries)

    opened = append_event(ledger, make)
    for why in repeats:
        message_console().print(f"again: {why}", style="yellow", markup=False)
    entries = read_ledger(ledger)
    print_opened(entries[opened.id], entries, ledger, json=json)
