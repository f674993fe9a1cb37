"""`gdnbench ledger`: writes experiments down, lists them, shows one, and closes one by a stored run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gdnbench.origin import LEDGER, RESULTS, ledger_option, out_option
from gdnbench.render.console import message_console
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.verbs.complete import complete_kernels
from gdnbench.verbs.options import JsonOption, LedgerOption, OpOption, ResultsOption
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.catalog.entry import CatalogEntry
    from gdnbench.ledger.entry import ExpectationResult, Gate, LedgerEntry
    from gdnbench.ledger.file import Change, Entries


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

    typed = words or []
    if typed[:1] == ["close"]:
        if len(typed) != 3:
            raise UsageError("an entry is closed by one run", "as in gdnbench ledger close 3 RUN")
        _close(typed[1], typed[2], learned, results, ledger, json=json)
        return
    if learned:
        raise UsageError("--learned is for an entry that is closed", "as in gdnbench ledger close 3 RUN --learned TEXT")
    if len(typed) > 1:
        raise UsageError(f"{' '.join(typed)}: one entry is shown at a time", f"one of {_FORMS}")
    entries = read_ledger(ledger)
    if typed:
        from gdnbench.catalog.catalog import load_catalog

        entry = find_entry(entries, typed[0], ledger)
        current = load_catalog().entries.get(entry.opened.kernel)
        answer = _entry_answer(entry, entries, current, ledger, results)
    else:
        answer = _list_answer(entries, ledger, results, every=every)
    print_answer(answer, json=json)


def _close(wanted: str, run: str, learned: str, results: Path, ledger: Path, *, json: bool) -> None:
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.ledger.entry import Closed, gate_of, refuse_blocked
    from gdnbench.ledger.events import closed_event
    from gdnbench.ledger.file import append_event, find_entry, read_ledger
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
    entry = entries[closed.id]
    answer = Answer(
        text=lambda _: [_heading(entry), *_closings(entry)],
        document=lambda: _document(entry, gate_of(entry, entries)),
        next=command("ledger", str(closed.id), ledger=ledger),
    )
    print_answer(answer, json=json)


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
    from gdnbench.ledger.events import opened_event, plan_try, refuted_before
    from gdnbench.ledger.file import append_event, read_ledger

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
    print_answer(_opened_answer(entries[opened.id], entries, ledger), json=json)


SHOWN = 100
"""Rows of a list: as many as one scrolls through; Rich takes two milliseconds for each."""

_STYLES = {"open": "cyan", "confirmed": "green", "refuted": "red", "undecided": "yellow"}


def _list_answer(entries: Entries, ledger: Path, results: Path, *, every: bool) -> Answer:
    """Makes a row per entry, oldest first: of the newest `SHOWN`, or of all with `every`; JSON always has all."""
    from gdnbench.ledger.entry import gates_of, run_command

    if not entries:
        return Answer(
            text=lambda _: [f"{ledger} has no entries"],
            document=lambda: {"ledger": str(ledger), "entries": []},
            next=command("ledger", "add", "--help"),
        )
    gates = gates_of(entries)
    shown = list(entries) if every else list(entries)[-SHOWN:]
    counts = Counter(entry.state.value for entry in entries.values())
    states = ", ".join(f"{counts[state]} {state}" for state in _STYLES if counts[state])
    notes = [Note(f"{plural(len(entries), 'entry', 'entries')}: {states}", "legend")]
    if len(shown) < len(entries):
        notes.insert(0, Note(f"the last {len(shown)} of {len(entries)}: --all shows the others, too", "legend"))
    still_open = ((number, entry) for number, entry in entries.items() if entry.state == "open")
    waiting = next((entry for number, entry in still_open if gates[number].is_open), None)
    return Answer(
        text=lambda _: [Table(_COLUMNS, [(entries[number], gates[number]) for number in shown], notes=notes)],
        document=lambda: {
            "ledger": str(ledger),
            "entries": [_document(entry, gates[number]) for number, entry in entries.items()],
        },
        next=[*run_command(waiting.opened), *out_option(results)]
        if waiting
        else command("ledger", str(max(entries)), ledger=ledger),
    )


_COLUMNS: list[Column[tuple[LedgerEntry, Gate]]] = [
    Column("", lambda row: row[0].opened.id, "id", right=True),
    Column("", lambda row: row[0].opened.time[:10], "date", drop=2),
    Column("", lambda row: row[0].opened.label, "kernel", drop=1),
    Column("", lambda row: row[0].opened.hypothesis, "hypothesis", fold=True, most=48),
    Column("", lambda row: row[0].state, "state", lambda row: Text(_state(*row), style=_STYLES[row[0].state])),
    Column("", lambda row: _last_measured(row[0]), "measured"),
    Column("", lambda row: row[0].last.run if row[0].last else "", "run", drop=3),
]


def _opened_answer(entry: LedgerEntry, entries: Entries, ledger: Path) -> Answer:
    from gdnbench.ledger.entry import gate_of, run_command

    gate = gate_of(entry, entries)
    closing = " ".join([f"gdnbench ledger close {entry.opened.id} RUN", *ledger_option(ledger)])
    notes = [Note(f"when it is measured: {closing}", "legend")]
    if not gate.is_open:
        notes.append(Note(f"{gate}, and is measured after that", "legend"))
    return Answer(
        text=lambda _: [_heading(entry), *_expected(entry), *notes],
        document=lambda: _document(entry, gate),
        next=run_command(entry.opened) if gate.is_open else command("ledger", str(gate.blocking[0]), ledger=ledger),
    )


def _entry_answer(
    entry: LedgerEntry, entries: Entries, current: CatalogEntry | None, ledger: Path, results: Path
) -> Answer:
    """Shows an entry in full; `current` is its kernel now, or None if it is gone."""
    from gdnbench.ledger.entry import gate_of, run_command
    from gdnbench.ledger.file import change_of

    gate, change = gate_of(entry, entries), change_of(entry, current)
    argv = command("show", entry.last.run) if entry.last else run_command(entry.opened)
    return Answer(
        text=lambda _: _entry_text(entry, gate, change),
        document=lambda: {**_document(entry, gate), "ledger": str(ledger), "diff": "\n".join(change.lines)},
        next=[*argv, *out_option(results)],
    )


def _entry_text(entry: LedgerEntry, gate: Gate, change: Change) -> Iterator[Block]:
    opened = entry.opened
    commit = opened.git.get("commit")
    facts = {
        "opened": opened.time,
        "kernel": opened.label,
        "commit": f"{commit[:12]}{' and changes' if opened.git.get('dirty') else ''}" if commit else "",
        "after": f"entry {opened.after}" if opened.after else "",
        "gate": str(gate) if opened.gates else "",
        "stop": opened.stop,
    }
    yield _heading(entry)
    yield from (f"{name:9} {value}" for name, value in facts.items() if value)
    yield from () if entry.closings else _expected(entry)
    yield from _closings(entry)
    yield ""
    if change.note:
        yield Note(change.note, "legend")
    for line in change.lines:
        yield Note(Text(line, style={"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")), whole=True)


def _heading(entry: LedgerEntry) -> Text:
    heading = Text(f"{entry.opened.id}  {entry.opened.hypothesis}  ", style="bold")
    return heading.append(entry.state.value, style=f"not bold {_STYLES[entry.state]}")


def _expected(entry: LedgerEntry) -> list[Block]:
    return [f"expected  {expectation.text}" for expectation in entry.opened.expectations]


def _closings(entry: LedgerEntry) -> Iterator[Block]:
    for closed in entry.closings:
        yield f"closed    {closed.time} by {closed.run}"
        for each in closed.findings:
            line = Text(f"  {each.outcome.value:10}", style=_STYLES[each.outcome])
            yield line.append(f" {each.expectation}: {_measured(each)}", style="default")
        yield from (Note(f"  note: {note}", "caution") for note in closed.notes)
        if closed.learned:
            yield f"learned: {closed.learned}"


def _state(entry: LedgerEntry, gate: Gate) -> str:
    """Returns `open` or `confirmed`; for an undecided entry, what it waits for."""
    return entry.state.value if entry.is_decided or gate.is_open else str(gate)


def _last_measured(entry: LedgerEntry) -> str:
    if not entry.last:
        return ""
    findings = entry.last.findings
    return _measured(next((each for each in findings if each.outcome is entry.last.outcome), findings[0]))


def _measured(finding: ExpectationResult) -> str:
    """Returns `0.961x (0.945 to 0.978)` for a speedup, `4.55us (4.51 to 4.59)` for a time."""
    if finding.value is None:
        return finding.reason
    low = "-" if finding.low is None else f"{finding.low:.4g}"
    high = "-" if finding.high is None else f"{finding.high:.4g}"
    unit = "us" if finding.expectation.startswith("time ") else "x"
    return f"{finding.value:.4g}{unit} ({low} to {high})"


def _document(entry: LedgerEntry, gate: Gate) -> dict[str, Any]:
    opened = {name: value for name, value in asdict(entry.opened).items() if name not in {"sources", "event"}}
    closings = [
        {name: value for name, value in asdict(each).items() if name not in {"sources", "event"}}
        for each in entry.closings
    ]
    return {**opened, "state": entry.state.value, "gate": str(gate), "closings": closings}
