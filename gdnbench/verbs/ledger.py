"""`gdnbench ledger`: writes experiments down, lists them, shows one, and closes one by a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.origin import LEDGER, RESULTS
from gdnbench.verbs.complete import complete_kernels
from gdnbench.verbs.options import JsonOption, LedgerOption, OpOption, ResultsOption

_FORMS = "gdnbench ledger, gdnbench ledger 3, gdnbench ledger close 3 RUN, or gdnbench ledger add …"


def ledger(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID | close ID RUN | add …]",
            help="An entry to show, or to close by a stored run.",
            show_default=False,
        ),
    ] = None,
    learned: Annotated[str, typer.Option(metavar="TEXT", help="With close: what was learned, in a sentence.")] = "",
    results: ResultsOption = RESULTS,
    ledger: LedgerOption = LEDGER,
    every: Annotated[bool, typer.Option("--all", help="List all entries, not the newest 100 alone.")] = False,
    json: JsonOption = False,
) -> None:
    """Write experiments down, list them, show one, or close one by a stored run.

    `gdnbench ledger add` writes one down before it is measured, and has its own help.
    `gdnbench ledger 3` shows entry 3 in full, with what it changed in the kernel's
    sources: up to the run that closed it, else up to now. `gdnbench ledger close 3 RUN`
    holds a run against its expectations: confirmed where the whole interval lies on the
    expected side of the bound, refuted where it lies on the other, undecided otherwise.
    The run must be newer than the entry, and of the kernel as it is now. Needs no GPU.
    """
    from gdnbench.errors import UsageError
    from gdnbench.ledger.file import find_entry, read_ledger
    from gdnbench.report.ledger import print_entry, print_ledger

    given = words or []
    if given[:1] == ["close"]:
        if len(given) != 3:
            raise UsageError("an entry is closed by one run", "as in gdnbench ledger close 3 RUN")
        _close(given[1], given[2], learned, results, ledger, json=json)
        return
    if learned:
        raise UsageError("--learned is for an entry that is closed", "as in gdnbench ledger close 3 RUN --learned TEXT")
    if len(given) > 1:
        raise UsageError(f"{' '.join(given)}: one entry is shown at a time", f"one of {_FORMS}")
    entries = read_ledger(ledger)
    if given:
        from gdnbench.catalog.catalog import load_catalog

        entry = find_entry(entries, given[0], ledger)
        current = load_catalog().entries.get(entry.opened.kernel)
        print_entry(entry, entries, current, ledger, results, json=json)
    else:
        print_ledger(entries, ledger, results, json=json, every=every)


def _close(wanted: str, run: str, learned: str, results: Path, ledger: Path, *, json: bool) -> None:
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.ledger.entry import Closed
    from gdnbench.ledger.file import Entries, append_event, find_entry, read_ledger
    from gdnbench.ledger.judge import closed_event, refuse_blocked
    from gdnbench.report.ledger import print_closed
    from gdnbench.store.find import find_run

    kernels = load_catalog().entries
    entries = read_ledger(ledger)
    refuse_blocked(find_entry(entries, wanted, ledger), entries)  # before a run of a name that may be wrong as well
    folder = find_run(results, run)

    def make(entries: Entries) -> Closed:
        entry = find_entry(entries, wanted, ledger)
        refuse_blocked(entry, entries)
        return closed_event(entry, folder, kernels.get(entry.opened.kernel), learned)

    closed = append_event(ledger, make)
    entries = read_ledger(ledger)
    print_closed(entries[closed.id], entries, ledger, json=json)


def add(
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
    from gdnbench.render.console import message_console
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
