"""Prints the ledger of experiments: a row per entry, or one in full with the changes of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.ledger.entry import EntryState, ExpectationResult, LedgerEntry
from gdnbench.ledger.file import Entries
from gdnbench.ledger.judge import Gate, gate_of, gates_of, run_command
from gdnbench.ledger.sources import Change, change_of
from gdnbench.origin import ledger_option, out_option
from gdnbench.render.console import FittedTable, data_console, plain_table, print_json, print_next
from gdnbench.wording import plural

_STYLES = {
    EntryState.OPEN: "cyan",
    EntryState.CONFIRMED: "green",
    EntryState.REFUTED: "red",
    EntryState.UNDECIDED: "yellow",
}


SHOWN = 100
"""Rows of a list: as many as one scrolls through; Rich takes two milliseconds for each."""


def print_ledger(entries: Entries, ledger: Path, results: Path, *, json: bool, every: bool = False) -> None:
    """Prints a row per entry, oldest first: of the newest `SHOWN`, or of all with `every`; JSON always has all."""
    gates = gates_of(entries)
    if json:
        documents = [_document(entry, gates[number]) for number, entry in entries.items()]
        print_json({"ledger": str(ledger), "entries": documents})
        return
    console = data_console()
    if not entries:
        console.print(f"{ledger} has no entries", markup=False)
        print_next(console, ["gdnbench", "ledger", "add", "--help"])
        return
    shown = list(entries) if every else list(entries)[-SHOWN:]
    console.print(_table([(entries[number], gates[number]) for number in shown]))
    if len(shown) < len(entries):
        console.print(Text(f"the last {len(shown)} of {len(entries)}: --all shows the others, too", style="dim"))
    counts = {state: sum(entry.state is state for entry in entries.values()) for state in EntryState}
    told = ", ".join(f"{count} {state.value}" for state, count in counts.items() if count)
    console.print(Text(f"{plural(len(entries), 'entry', 'entries')}: {told}", style="dim"))
    still_open = ((number, entry) for number, entry in entries.items() if entry.state is EntryState.OPEN)
    waiting = next((entry for number, entry in still_open if gates[number].is_open), None)
    if waiting:
        print_next(console, [*run_command(waiting.opened), *out_option(results)])
    else:
        print_next(console, ["gdnbench", "ledger", str(max(entries)), *ledger_option(ledger)])


def print_opened(entry: LedgerEntry, entries: Entries, ledger: Path, *, json: bool) -> None:
    """Prints a new entry, and how to measure it, or the gate that it waits for."""
    if json:
        print_json(_document(entry, gate_of(entry, entries)))
        return
    console = data_console()
    _print_heading(console, entry)
    for expectation in entry.opened.expectations:
        console.print(Text(f"expected  {expectation.text}"))
    told = f"when it is measured: gdnbench ledger close {entry.opened.id} RUN"
    console.print(Text(" ".join([told, *ledger_option(ledger)]), style="dim"))
    gate = gate_of(entry, entries)
    if not gate.is_open:
        console.print(Text(f"{gate}, and is measured after that", style="dim"))
        print_next(console, ["gdnbench", "ledger", str(gate.blocking[0]), *ledger_option(ledger)])
        return
    print_next(console, run_command(entry.opened))


def print_closed(entry: LedgerEntry, entries: Entries, ledger: Path, *, json: bool) -> None:
    """Prints a run's findings on an entry."""
    if json:
        print_json(_document(entry, gate_of(entry, entries)))
        return
    console = data_console()
    _print_heading(console, entry)
    _print_closings(console, entry)
    print_next(console, ["gdnbench", "ledger", str(entry.opened.id), *ledger_option(ledger)])


def print_entry(
    entry: LedgerEntry, entries: Entries, current: CatalogEntry | None, ledger: Path, results: Path, *, json: bool
) -> None:
    """Prints an entry in full; `current` is its kernel now, or None if it is gone."""
    opened = entry.opened
    change = change_of(entry, current)
    if json:
        print_json(
            {**_document(entry, gate_of(entry, entries)), "ledger": str(ledger), "diff": "\n".join(change.lines)}
        )
        return
    console = data_console()
    _print_heading(console, entry)
    commit = opened.git.get("commit")
    facts = {
        "opened": opened.time,
        "kernel": opened.label,
        "commit": f"{commit[:12]}{' and changes' if opened.git.get('dirty') else ''}" if commit else "",
        "after": f"entry {opened.after}" if opened.after else "",
        "gate": str(gate_of(entry, entries)) if opened.gates else "",
        "stop": opened.stop,
    }
    for name, value in facts.items():
        if value:
            console.print(Text(f"{name:9} {value}"))
    if not entry.closings:
        for expectation in opened.expectations:
            console.print(Text(f"expected  {expectation.text}"))
    _print_closings(console, entry)
    console.print()
    _print_change(console, change)
    last = entry.last
    if last:
        print_next(console, ["gdnbench", "show", last.run, *out_option(results)])
    else:
        print_next(console, [*run_command(opened), *out_option(results)])


def _table(entries: Sequence[tuple[LedgerEntry, Gate]]) -> FittedTable:
    table = plain_table()
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("date", no_wrap=True)
    table.add_column("kernel", no_wrap=True)
    table.add_column("hypothesis", overflow="fold", max_width=48)
    table.add_column("state", no_wrap=True)
    table.add_column("measured", no_wrap=True)
    table.add_column("run", no_wrap=True)
    for entry, gate in entries:
        opened, last = entry.opened, entry.last
        table.add_row(
            str(opened.id),
            opened.time[:10],
            Text(opened.label),
            Text(opened.hypothesis),
            Text(_state(entry, gate), style=_STYLES[entry.state]),
            Text(_measured(_telling(last.findings, last.outcome)) if last else ""),
            Text(last.run if last else ""),
        )
    return FittedTable(table, ("run", "date", "kernel"))


def _state(entry: LedgerEntry, gate: Gate) -> str:
    """Returns `open` or `confirmed`; for an undecided entry, what it waits for."""
    return entry.state.value if entry.is_decided or gate.is_open else str(gate)


def _telling(findings: Sequence[ExpectationResult], outcome: EntryState) -> ExpectationResult:
    return next((each for each in findings if each.outcome is outcome), findings[0])


def _measured(finding: ExpectationResult) -> str:
    """Returns `0.961x (0.945 to 0.978)` for a speedup, `4.55us (4.51 to 4.59)` for a time."""
    if finding.value is None:
        return finding.reason
    low = "-" if finding.low is None else f"{finding.low:.4g}"
    high = "-" if finding.high is None else f"{finding.high:.4g}"
    unit = "us" if finding.expectation.startswith("time ") else "x"
    return f"{finding.value:.4g}{unit} ({low} to {high})"


def _print_heading(console: Console, entry: LedgerEntry) -> None:
    heading = Text(f"{entry.opened.id}  {entry.opened.hypothesis}  ", style="bold")
    console.print(heading.append(entry.state.value, style=f"not bold {_STYLES[entry.state]}"))


def _print_closings(console: Console, entry: LedgerEntry) -> None:
    for closed in entry.closings:
        console.print(Text(f"closed    {closed.time} by {closed.run}"))
        for each in closed.findings:
            line = Text(f"  {each.outcome.value:10}", style=_STYLES[each.outcome])
            console.print(line.append(f" {each.expectation}: {_measured(each)}", style="default"))
        for note in closed.notes:
            console.print(Text(f"  note: {note}", style="yellow"))
        if closed.learned:
            console.print(Text(f"learned: {closed.learned}"))


def _print_change(console: Console, change: Change) -> None:
    if change.note:
        console.print(Text(change.note, style="dim"))
    for line in change.lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        console.print(Text(line, style=style), soft_wrap=True)


def _document(entry: LedgerEntry, gate: Gate) -> dict[str, Any]:
    opened = {name: value for name, value in asdict(entry.opened).items() if name not in {"sources", "event"}}
    closings = [
        {name: value for name, value in asdict(each).items() if name not in {"sources", "event"}}
        for each in entry.closings
    ]
    return {**opened, "state": entry.state.value, "gate": str(gate), "closings": closings}
