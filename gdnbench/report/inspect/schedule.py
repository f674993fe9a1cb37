"""How ptxas scheduled a kernel: the schedule's numbers as a table, and the code beside the encodings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from rich.table import Table
from rich.text import Text

from gdnbench.codegen.control import Control, OutstandingInstruction, ScoreboardWait
from gdnbench.codegen.schedule import EncodedInstruction, InstructionSchedule, IssuedInstruction
from gdnbench.codegen.schedule_summary import ScheduleSummary, SharedScoreboard
from gdnbench.inspection.quantities import SCHEDULE_SECTIONS, SCHEDULE_WAITS
from gdnbench.wording import plural

_LEGEND = (
    "cycles: sums of stall counts from the first instruction, as if nothing were waited for; waits: instructions that "
    "wait, by what they wait for. Conditional branches fall through, and counts are static: a loop's body counts once. "
    "What stands behind the final EXIT does not count."
)

CountRow = tuple[str, list[int | None]]


def schedule_table(columns: Sequence[tuple[str, ScheduleSummary]]) -> Table:
    """Makes a column of numbers per schedule; for two also the change from the first to the second."""
    found = [one for _, one in columns]
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    grid.add_column("")
    for heading, _ in columns:
        grid.add_column(Text(heading), justify="right", overflow="fold")
    if len(found) == 2:
        grid.add_column("change", justify="right", no_wrap=True)
    for title, rows in _sections(found):
        _section(grid, title, rows)
    return grid


def schedule_remarks(found: ScheduleSummary, name: str = "") -> Iterable[str]:
    """Yields lines on what no number says: loads that wait together or come late, and code that was not followed.

    `name` is given for one kernel of several; late loads, which may be many, are then not listed.
    """
    late = () if name else _late(found)
    head = f"{name}: " if name else ""
    for text in (*map(_shared, found.shared), *late, *_unfollowed(found)):
        yield from wrap(f"{head}{text}", WIDTH, subsequent_indent="  ")


def schedule_legend() -> Iterable[str]:
    """Returns the meaning of the cycles."""
    return wrap(_LEGEND, WIDTH)


def _sections(found: Sequence[ScheduleSummary]) -> Iterable[tuple[str, list[CountRow]]]:
    for title, quantities in SCHEDULE_SECTIONS.items():
        yield title, [(each.title, [each.read(one) for one in found]) for each in quantities]
    for title, read in SCHEDULE_WAITS.values():
        counts = [read(one) for one in found]
        names = dict.fromkeys(name for one in counts for name in one)
        yield title, [(f"for {name}", [one.get(name, 0) for one in counts]) for name in names]


def _section(grid: Table, title: str, rows: Sequence[CountRow]) -> None:
    if rows:
        grid.add_row(Text(title, style="bold"))
    for name, values in rows:
        cells = ["-" if value is None else str(value) for value in values]
        grid.add_row(Text(f"  {name}"), *cells, *([_change(*values)] if len(values) == 2 else []))


def _change(before: int | None, after: int | None) -> str:
    return "" if before is None or after is None or before == after else f"{after - before:+d}"


def _shared(shared: SharedScoreboard) -> str:
    fewest, most = min(shared.sizes), max(shared.sizes)
    sizes = f"{most} bytes" if fewest == most else f"{fewest} to {most} bytes"
    loads = f"{len(shared.loads)} loads of {sizes} share scoreboard {shared.scoreboard}"
    return f"{loads}: the first use of any, at cycle {shared.cycle}, waits for all"


def _late(found: ScheduleSummary) -> Iterable[str]:
    for step in found.late_loads:
        yield f"behind a wait, at cycle {step.cycle}: {step.instruction}"


def _unfollowed(found: ScheduleSummary) -> Iterable[str]:
    if found.loops:
        yield f"{plural(found.loops, 'branch', 'branches')} back: what is between counts once"
    if found.calls:
        yield f"{plural(found.calls, 'call')} on the way: the code of what is called does not count"


WIDTH = 80
"""Columns of printed schedules, as of a terminal."""

_HEADINGS = ("at", "cycle", "stall", "sets", "waits for", "instruction")

LISTING_LEGEND = (
    "// sets w5: holds scoreboard 5 until its result is there; r5: until it has read",
    "// its operands, so that they may be overwritten. cycle -: not on the way",
)


def schedule_listing(schedule: InstructionSchedule) -> Iterator[str]:
    """Yields the heading and lines, as wide as a terminal."""
    cells = [_line_cells(one) for one in schedule.code]
    width = max([len(_HEADINGS[4]), *(len(wait) for _, waits, _ in cells for wait in waits)])
    yield from _wrapped(_HEADINGS[:4], [_HEADINGS[4]], _HEADINGS[5], width)
    for numbers, waits, instruction in cells:
        yield from _wrapped(numbers, waits, instruction, width)


def _wrapped(numbers: Iterable[str], waits: list[str], instruction: str, width: int) -> Iterator[str]:
    address, cycle, stall, sets = numbers
    head = f"{address:>4} {cycle:>5} {stall:>5} {sets:5}"
    texts = wrap(instruction, WIDTH - len(head) - width - 2, subsequent_indent="  ", break_on_hyphens=False)
    for at, (wait, text) in enumerate(zip_longest(waits, texts, fillvalue="")):
        yield f"{head if at == 0 else '':{len(head)}} {wait:{width}} {text}".rstrip()


def _line_cells(one: EncodedInstruction) -> tuple[tuple[str, str, str, str], list[str], str]:
    step = one if isinstance(one, IssuedInstruction) else None
    numbers = (one.instruction.address, str(step.cycle) if step else "-", str(one.control.stall), _sets(one.control))
    named = [line for wait in step.waits for line in _waits_for(wait)] if step else [_numbers(one.control.waits)]
    # The encoding also says which operands the register cache keeps, which would only widen the lines.
    return numbers, named or [""], str(one.instruction).replace(".reuse", "")


def _numbers(scoreboards: Iterable[int]) -> str:
    return " ".join(map(str, scoreboards))


def _sets(control: Control) -> str:
    """Returns the scoreboards that an instruction holds: `w5` until its result, `r5` until its operands are read."""
    held = (("w", control.write_scoreboard), ("r", control.read_scoreboard))
    return " ".join(f"{kind}{number}" for kind, number in held if number is not None)


def _waits_for(wait: ScoreboardWait) -> Iterator[str]:
    """Yields what an instruction waits for: `w5 LDG`, `w5 7 LDG` for seven; only the number if nothing holds it."""
    counts = Counter((_kind(hold), hold.instruction.name) for hold in wait.holds)
    for (kind, name), count in counts.items():
        yield f"{kind}{wait.scoreboard} {name}" if count == 1 else f"{kind}{wait.scoreboard} {count} {name}"
    if not counts:
        yield str(wait.scoreboard)


def _kind(hold: OutstandingInstruction) -> str:
    return "r" if hold.reads else "w"
