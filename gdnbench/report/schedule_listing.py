"""The code with what its encodings say: a line an instruction, more where it waits for several things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from textwrap import wrap

from gdnbench.binary.schedule import Coded, Hold, Schedule, Step, Wait
from gdnbench.binary.schedule.control import Control
from gdnbench.report.schedule_facts import WIDTH

_HEADINGS = ("at", "cycle", "stall", "sets", "waits for", "instruction")

LEGEND = (
    "// sets w5: holds scoreboard 5 until its result is there; r5: until it has read",
    "// its operands, so that they may be overwritten. cycle -: not on the way",
)


def schedule_listing(schedule: Schedule) -> Iterator[str]:
    """Heading and lines, as wide as a terminal."""
    cells = [_cells(one) for one in schedule.code]
    width = max([len(_HEADINGS[4]), *(len(wait) for _, waits, _ in cells for wait in waits)])
    yield from _lines(_HEADINGS[:4], [_HEADINGS[4]], _HEADINGS[5], width)
    for numbers, waits, instruction in cells:
        yield from _lines(numbers, waits, instruction, width)


def _lines(numbers: Iterable[str], waits: list[str], instruction: str, width: int) -> Iterator[str]:
    address, cycle, stall, sets = numbers
    head = f"{address:>4} {cycle:>5} {stall:>5} {sets:5}"
    texts = wrap(instruction, WIDTH - len(head) - width - 2, subsequent_indent="  ", break_on_hyphens=False)
    for at, (wait, text) in enumerate(zip_longest(waits, texts, fillvalue="")):
        yield f"{head if at == 0 else '':{len(head)}} {wait:{width}} {text}".rstrip()


def _cells(one: Coded) -> tuple[tuple[str, str, str, str], list[str], str]:
    step = one if isinstance(one, Step) else None
    numbers = (one.instruction.address, str(step.cycle) if step else "-", str(one.control.stall), sets(one.control))
    named = [line for wait in step.waits for line in waits_for(wait)] if step else [_numbers(one.control.waits)]
    # Which operands the register cache keeps is in the encoding, too, and here it only widens the lines.
    return numbers, named or [""], str(one.instruction).replace(".reuse", "")


def _numbers(scoreboards: Iterable[int]) -> str:
    return " ".join(map(str, scoreboards))


def sets(control: Control) -> str:
    """The scoreboards that an instruction holds: `w5` until its result is there, `r5` until its operands are read."""
    held = (("w", control.write_scoreboard), ("r", control.read_scoreboard))
    return " ".join(f"{kind}{number}" for kind, number in held if number is not None)


def waits_for(wait: Wait) -> Iterator[str]:
    """Whom an instruction waits for: `w5 LDG`, `w5 7 LDG` for seven of them; the number alone if nobody holds it."""
    counts = Counter((_kind(hold), hold.instruction.name) for hold in wait.holds)
    for (kind, name), count in counts.items():
        yield f"{kind}{wait.scoreboard} {name}" if count == 1 else f"{kind}{wait.scoreboard} {count} {name}"
    if not counts:
        yield str(wait.scoreboard)


def _kind(hold: Hold) -> str:
    return "r" if hold.reads else "w"
