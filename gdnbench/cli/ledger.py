"""`gdnbench ledger`: lists the experiments, shows one, and closes one by a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import JsonOption, LedgerOption, ResultsOption
from gdnbench.places import LEDGER, RESULTS

_FORMS = "gdnbench ledger, gdnbench ledger 3, or gdnbench ledger close 3 RUN"


def ledger(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID | close ID RUN]", help="An entry to show, or to close by a stored run.", show_default=False
        ),
    ] = None,
    learned: Annotated[str, typer.Option(metavar="TEXT", help="With close: what was learned, in a sentence.")] = "",
    results: ResultsOption = RESULTS,
    ledger: LedgerOption = LEDGER,
    every: Annotated[bool, typer.Option("--all", help="List all entries, not the newest 100 alone.")] = False,
    json: JsonOption = False,
) -> None:
    """List the experiments that `gdnbench try` wrote down, show one, or close one.

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
    from gdnbench.ledger.gates import refuse_blocked
    from gdnbench.ledger.judge import closed_event
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
