"""`gdnbench ledger`: writes experiments down, lists them, shows, closes and restores one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gdnbench.errors import UsageError
from gdnbench.origin import LEDGER, PROFILES, RESULTS, ledger_option, out_option
from gdnbench.render.console import message_console
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.verbs.options import JsonOption, LedgerOption, OpOption, ProfilesOption, ResultsOption, complete_kernels
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.catalog.entry import CatalogEntry
    from gdnbench.ledger.entry import Expectation, ExpectationResult, LedgerEntry
    from gdnbench.ledger.file import Change, Entries


_FORMS = "gdnbench ledger, gdnbench ledger 3, gdnbench ledger close 3 [RUN], gdnbench ledger add … or restore 3"


def ledger(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID | close ID [RUN] | add … | restore ID]",
            help="An entry to show, or to close by what was measured.",
            show_default=False,
        ),
    ] = None,
    learned: Annotated[str, typer.Option(metavar="TEXT", help="With close: what was learned, in a sentence.")] = "",
    results: ResultsOption = RESULTS,
    profiles: ProfilesOption = PROFILES,
    ledger: LedgerOption = LEDGER,
    every: Annotated[bool, typer.Option("--all", help="List all entries, not the newest 100 alone.")] = False,
    json: JsonOption = False,
) -> None:
    """Write experiments down, list them, show one, or close one by what was measured.

    `gdnbench ledger add` writes one down, and has its own help. `gdnbench ledger 3`
    shows entry 3 in full, with what it changed in the kernel's sources. `gdnbench ledger
    close 3 RUN` holds a run of the kernel as it is now against its expectations:
    confirmed or refuted where the whole interval lies on one side of the bound,
    undecided otherwise. Builds and errors are measured then; phases and counters are
    those of stored profiles. Without RUN, times stay undecided. `gdnbench ledger restore
    3` writes its sources back. Needs no GPU.
    """
    from gdnbench.ledger.file import find_entry, read_ledger

    typed = words or []
    if typed[:1] == ["close"]:
        if len(typed) not in {2, 3}:
            raise UsageError("one entry is closed, by one run", "as in gdnbench ledger close 3 RUN")
        _close(typed[1], typed[2] if typed[2:] else "", learned, results, profiles, ledger, json=json)
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
        answer = _entry_answer(entry, current, ledger, results)
    else:
        answer = _list_answer(entries, ledger, results, every=every)
    print_answer(answer, json=json)


def _close(wanted: str, run: str, learned: str, results: Path, profiles: Path, ledger: Path, *, json: bool) -> None:
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.ledger.entry import Closed
    from gdnbench.ledger.events import closed_event
    from gdnbench.ledger.file import append_event, find_entry, read_ledger
    from gdnbench.store.find import find_run
    from gdnbench.verbs.progress import watch

    entries = read_ledger(ledger)
    entry = find_entry(entries, wanted, ledger)
    folder = find_run(results, run) if run else None
    with watch(quiet=json) as observer:  # builds and verifies, for which no other process is to wait
        event = closed_event(entry, folder, load_catalog(), learned, profiles, observer)

    def make(entries: Entries) -> Closed:
        if find_entry(entries, wanted, ledger) != entry:
            raise UsageError(f"entry {wanted} was closed meanwhile", f"see gdnbench ledger {wanted}")
        return event

    closed = append_event(ledger, make)
    entry = read_ledger(ledger)[closed.id]
    answer = Answer(
        text=lambda _: [_heading(entry), *_closings(entry)],
        document=lambda: _document(entry),
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
        typer.Option(
            metavar="BOUND",
            help="'vs decode-v8 >= 1.02 at B=1', 'registers <= 64 and spills = 0' or another; several may be.",
        ),
    ],
    stop: Annotated[str, typer.Option(metavar="TEXT", help="When to give it up, in words.")] = "",
    effort: Annotated[
        str, typer.Option(metavar="LIMIT", help="When it is given up if undecided: '3 closings', '2 h', '90 min'.")
    ] = "",
    after: Annotated[int, typer.Option(metavar="ID", min=0, help="The entry that it follows.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Also what an entry refuted; it is said, and done.")] = False,
    op: OpOption = "",
    ledger: LedgerOption = LEDGER,
    json: JsonOption = False,
) -> None:
    """Write an experiment down before it is measured: why, and what is expected.

    The entry keeps the sources as they are now, the commit and the time. When the
    change is made and measured, `gdnbench ledger close ID RUN` holds the run's
    intervals against each `--expect`, and what a build, the oracle or a stored profile
    says. A number with a sign, `registers <= -8`, is a change from now. What an entry
    refuted is not tried again without `--again`. Needs no GPU.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.ledger.entry import Opened
    from gdnbench.ledger.events import opened_event, plan_try, refuted_before
    from gdnbench.ledger.file import append_event, read_ledger
    from gdnbench.verbs.progress import watch

    catalog, limits = load_catalog(), {"stop": stop, "effort": effort}
    with watch(quiet=json) as observer:
        planned = plan_try(catalog, hypothesis, kernel, expect, op=op, after=after, observer=observer, **limits)
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
    print_answer(_opened_answer(read_ledger(ledger)[opened.id], ledger), json=json)


SHOWN = 100
"""Rows of a list: as many as one scrolls through; Rich takes two milliseconds for each."""

_STYLES = {"open": "cyan", "confirmed": "green", "refuted": "red", "undecided": "yellow"}


def _list_answer(entries: Entries, ledger: Path, results: Path, *, every: bool) -> Answer:
    """Makes a row per entry, oldest first: of the newest `SHOWN`, or of all with `every`; JSON always has all."""
    if not entries:
        return Answer(
            text=lambda _: [f"{ledger} has no entries"],
            document=lambda: {"ledger": str(ledger), "entries": []},
            next=command("ledger", "add", "--help"),
        )
    shown = list(entries.values())[0 if every else -SHOWN :]
    counts = Counter(entry.state.value for entry in entries.values())
    states = ", ".join(f"{counts[state]} {state}" for state in _STYLES if counts[state])
    notes = [Note(f"{plural(len(entries), 'entry', 'entries')}: {states}", "legend")]
    if len(shown) < len(entries):
        notes.insert(0, Note(f"the last {len(shown)} of {len(entries)}: --all shows the others, too", "legend"))
    waiting = next((each for each in entries.values() if each.state == "open" and not each.is_given_up()), None)
    return Answer(
        text=lambda _: [Table(_COLUMNS, shown, notes=notes)],
        document=lambda: {"ledger": str(ledger), "entries": list(map(_document, entries.values()))},
        next=_measuring(waiting, results, ledger) if waiting else command("ledger", str(max(entries)), ledger=ledger),
    )


def _measuring(entry: LedgerEntry, results: Path, ledger: Path) -> tuple[str, ...]:
    """Returns the command that measures what an entry expects, with the folders that it takes."""
    from gdnbench.ledger.entry import measure_command

    argv = measure_command(entry.opened)
    if argv[1] == "ledger":
        return command(*argv[1:], results=results, ledger=ledger)
    return (*argv, *(out_option(results) if argv[1] == "run" else ()))


def _opened_answer(entry: LedgerEntry, ledger: Path) -> Answer:
    run = " RUN" if any(each.measured.is_time for each in entry.opened.expectations) else ""
    closing = " ".join([f"gdnbench ledger close {entry.opened.id}{run}", *ledger_option(ledger)])
    return Answer(
        text=lambda _: [_heading(entry), *_expected(entry), Note(f"when it is measured: {closing}", "legend")],
        document=lambda: _document(entry),
        next=_measuring(entry, RESULTS, ledger),
    )


def _entry_answer(entry: LedgerEntry, current: CatalogEntry | None, ledger: Path, results: Path) -> Answer:
    """Shows an entry in full; `current` is its kernel now, or None if it is gone."""
    from gdnbench.ledger.file import change_of

    change = change_of(entry, current)
    following = command("ledger", ledger=ledger) if entry.is_decided else _measuring(entry, results, ledger)
    if entry.last and entry.last.run:
        following = command("show", entry.last.run, results=results)
    return Answer(
        text=lambda _: _entry_text(entry, change),
        document=lambda: {**_document(entry), "ledger": str(ledger), "diff": "\n".join(change.lines)},
        next=following,
    )


def _entry_text(entry: LedgerEntry, change: Change) -> Iterator[Block]:
    opened = entry.opened
    commit = opened.git.get("commit")
    facts = {
        "opened": opened.time,
        "kernel": opened.label,
        "commit": f"{commit[:12]}{' and changes' if opened.git.get('dirty') else ''}" if commit else "",
        "after": f"entry {opened.after}" if opened.after else "",
        "stop": opened.stop,
        "effort": f"{opened.effort}{', spent: given up' if entry.is_given_up() else ''}" if str(opened.effort) else "",
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
        yield f"closed    {closed.time} by {closed.run or 'what was measured without a run'}"
        for each, expectation in zip(closed.findings, entry.opened.expectations, strict=True):
            line = Text(f"  {each.outcome.value:10}", style=_STYLES[each.outcome])
            how = f", {each.how}" if each.how else ""
            yield line.append(f" {each.expectation}: {_measured(each, expectation)}{how}", style="default")
        yield from (Note(f"  note: {note}", "caution") for note in closed.notes)
        if closed.learned:
            yield f"learned: {closed.learned}"


def _state(entry: LedgerEntry) -> str:
    """Returns `open` or `confirmed`; for an undecided entry whose effort is spent, that it was given up."""
    return "given up" if entry.is_given_up() else entry.state.value


def _last_measured(entry: LedgerEntry) -> str:
    if not entry.last:
        return ""
    findings = list(zip(entry.last.findings, entry.opened.expectations, strict=True))
    return _measured(*next((each for each in findings if each[0].outcome is entry.last.outcome), findings[0]))


def _measured(finding: ExpectationResult, expectation: Expectation) -> str:
    """Returns `0.961x (0.945 to 0.978)` for a speedup, `64` for what has no interval, or why it was not measured."""
    if finding.value is None:
        return finding.reason
    quantity = expectation.measured
    form = "+.6g" if expectation.is_change else ".4g" if quantity.is_time else ".6g"
    unit = "x" if expectation.baseline else quantity.unit if quantity.is_time else f" {quantity.unit}".rstrip()
    value = f"{finding.value:{form}}{unit}"
    if finding.low == finding.high == finding.value:
        return value
    low = "-" if finding.low is None else f"{finding.low:{form}}"
    high = "-" if finding.high is None else f"{finding.high:{form}}"
    return f"{value} ({low} to {high})"


_COLUMNS: list[Column[LedgerEntry]] = [
    Column("", lambda row: row.opened.id, "id", right=True),
    Column("", lambda row: row.opened.time[:10], "date", drop=2),
    Column("", lambda row: row.opened.label, "kernel", drop=1),
    Column("", lambda row: row.opened.hypothesis, "hypothesis", fold=True, most=48),
    Column("", lambda row: row.state, "state", lambda row: Text(_state(row), style=_STYLES[row.state])),
    Column("", _last_measured, "measured", fold=True, most=36),
    Column("", lambda row: row.last.run if row.last else "", "run", drop=3),
]


def _document(entry: LedgerEntry) -> dict[str, Any]:
    opened = {name: value for name, value in asdict(entry.opened).items() if name not in {"sources", "event"}}
    closings = [
        {name: value for name, value in asdict(each).items() if name not in {"sources", "event"}}
        for each in entry.closings
    ]
    return {**opened, "state": entry.state.value, "closings": closings}


def restore(
    entry: Annotated[str, typer.Argument(metavar="ID", help="The entry whose sources are wanted.")],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="The new folder; restored-ID here by default.")
    ] = None,
    opened: Annotated[
        bool, typer.Option("--opened", help="As they were when it was opened, not as they were measured last.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="In place: over the files of the kernel's own folder as they are now.")
    ] = False,
    ledger: LedgerOption = LEDGER,
    json: JsonOption = False,
) -> None:
    """Write the sources of an entry back, into a new folder or over the kernel's own.

    As they were measured last, else as they were when it was opened. The new folder
    is one of kernels, as `GDNBENCH_KERNELS` takes it, with the headers beside the
    kernel. With --force the files of the kernel's own folder are written over what
    is there now: each one that changes is named, and files that the entry does not
    have, and headers that other kernels share, are left. Needs no GPU and no git.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.ledger.file import find_entry, kept_sources, read_ledger, restore_beside, restore_in_place
    from gdnbench.render.output import print_written
    from gdnbench.render.units import short_path

    if force and to:
        raise UsageError("--force writes in place, and --to into another folder", "leave one of them out")
    found = find_entry(read_ledger(ledger), entry, ledger)
    catalog, files = load_catalog(), kept_sources(found, opened=opened)
    kernel, op = found.opened.kernel, found.opened.op
    if force:
        restored = restore_in_place(files, catalog.entries.get(kernel), kernel)
    else:
        op_folder = catalog.op_folders[op].name if op in catalog.op_folders else op
        restored = restore_beside(files, to or Path(f"restored-{found.opened.id}"), op_folder)
    document = {"entry": found.opened.id, "kernel": kernel, "folder": restored.folder, "files": restored.files}
    written = [short_path(restored.folder / name) for name in restored.files] or ["every file is as it was"]
    steps = [f"gdnbench verify {kernel}" if force else f"gdnbench ledger {found.opened.id}"]
    print_written(written, steps, document, restored.notes, json=json, quiet=False)
