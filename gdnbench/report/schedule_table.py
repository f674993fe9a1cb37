"""What schedules come to: one of them, or two side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from rich.table import Table
from rich.text import Text

from gdnbench.binary.schedule import Milestones, Shared
from gdnbench.report.schedule_facts import SECTIONS, WAITS, WIDTH
from gdnbench.wording import plural

_LEGEND = (
    "cycles: sums of stall counts from the first instruction, as if nothing were waited for; waits: instructions that "
    "wait, by what they wait for. Conditional branches fall through, and counts are static: a loop's body counts once. "
    "What stands behind the final EXIT does not count."
)

Row = tuple[str, list[int | None]]


def table(columns: Sequence[tuple[str, Milestones]]) -> Table:
    """The numbers, a column each under its heading; with two, also what changed from the first to the second."""
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


def remarks(found: Milestones, name: str = "") -> Iterable[str]:
    """What no number says: which loads wait together, which come late, what was not followed; lines that fit.

    Args:
        found: of a kernel.
        name: of it, where it is one of several; late loads, which may be many, are then not listed.
    """
    late = () if name else _late(found)
    head = f"{name}: " if name else ""
    for text in (*map(_shared, found.shared), *late, *_unfollowed(found)):
        yield from wrap(f"{head}{text}", WIDTH, subsequent_indent="  ")


def legend() -> Iterable[str]:
    """What the cycles are."""
    return wrap(_LEGEND, WIDTH)


def _sections(found: Sequence[Milestones]) -> Iterable[tuple[str, list[Row]]]:
    for title, facts in SECTIONS.items():
        yield title, [(fact.title, [fact.read(one) for one in found]) for fact in facts]
    for title, read in WAITS.values():
        counts = [read(one) for one in found]
        names = dict.fromkeys(name for one in counts for name in one)
        yield title, [(f"for {name}", [one.get(name, 0) for one in counts]) for name in names]


def _section(grid: Table, title: str, rows: Sequence[Row]) -> None:
    if rows:
        grid.add_row(Text(title, style="bold"))
    for name, values in rows:
        cells = ["-" if value is None else str(value) for value in values]
        grid.add_row(Text(f"  {name}"), *cells, *([_change(*values)] if len(values) == 2 else []))


def _change(before: int | None, after: int | None) -> str:
    return "" if before is None or after is None or before == after else f"{after - before:+d}"


def _shared(shared: Shared) -> str:
    fewest, most = min(shared.sizes), max(shared.sizes)
    sizes = f"{most} bytes" if fewest == most else f"{fewest} to {most} bytes"
    said = f"{len(shared.loads)} loads of {sizes} share scoreboard {shared.scoreboard}"
    return f"{said}: the first use of any, at cycle {shared.cycle}, waits for all"


def _late(found: Milestones) -> Iterable[str]:
    for step in found.late_loads:
        yield f"behind a wait, at cycle {step.cycle}: {step.instruction}"


def _unfollowed(found: Milestones) -> Iterable[str]:
    if found.loops:
        yield f"{plural(found.loops, 'branch', 'branches')} back: what is between counts once"
    if found.calls:
        yield f"{plural(found.calls, 'call')} on the way: the code of what is called does not count"
