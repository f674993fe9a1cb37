"""Shrinks a program that fails to one that fails, too, and says less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from gdnbench.verify.programs import EventProgram, EventRow, PoolEvent

FirstFailing = Callable[[EventProgram], int | None]
"""Runs a program, and returns the place of the first event that fails, from 0, or None if all hold."""


def shrink(program: EventProgram, first_failing: FirstFailing, is_over: Callable[[], bool]) -> EventProgram:
    """Takes out of a program that fails what it fails without, until nothing more can go, or `is_over`.

    Any failure counts, the first one's or another: a shorter program that shows another fault is as good. The result
    fails at its last event.
    """
    failing = _cut(program, first_failing)
    found = failing
    while failing and not is_over():
        found = failing
        failing = next((cut for each in _shorter(found) if not is_over() and (cut := _cut(each, first_failing))), None)
    if found is None:
        return program
    renamed = renumbered(found)
    return _cut(renamed, first_failing) or found


def _cut(program: EventProgram, first_failing: FirstFailing) -> EventProgram | None:
    """The program up to the first event that fails, or None if all hold."""
    place = first_failing(program)
    return None if place is None else EventProgram(program.events[: place + 1])


def _shorter(program: EventProgram) -> Iterator[EventProgram]:
    """Yields programs that say less: without halves, quarters and single events, without rows, with fewer tokens."""
    events = program.events
    size = len(events)
    while size > 1:
        size = (size + 1) // 2 if size > 2 else 1
        for begin in range(0, len(events), size):
            if rest := events[:begin] + events[begin + size :]:
                yield EventProgram(rest)
    for place, event in enumerate(events):
        for fewer in _less(event):
            yield EventProgram((*events[:place], fewer, *events[place + 1 :]))


def _less(event: PoolEvent) -> Iterator[PoolEvent]:
    for place, row in enumerate(event.rows):
        before, after = event.rows[:place], event.rows[place + 1 :]
        rest = before + after
        if rest and (event.kind != "prefill" or any(each.count for each in rest)):
            yield replace(event, rows=rest)
        less = [replace(row, count=count) for count in dict.fromkeys((1, row.count // 2, row.count - 1))]
        less = [each for each in less if 1 <= each.count < row.count]
        if event.kind == "prefill" and row.to:
            less.append(replace(row, to=0))
        chain = tuple(range(len(row.tree)))
        less += [replace(row, tree=chain)] if row.tree != chain else []
        for each in less:
            yield replace(event, rows=(*before, each, *after))


def renumbered(program: EventProgram) -> EventProgram:
    """The same program with its slots numbered from 1 on, in the order in which they come up."""
    named = (slot for event in program.events for row in event.rows for slot in (row.slot, row.to) if slot > 0)
    number = {slot: place for place, slot in enumerate(dict.fromkeys(named), 1)}
    return EventProgram(tuple(replace(event, rows=tuple(_renamed(event.rows, number))) for event in program.events))


def _renamed(rows: Iterable[EventRow], number: Mapping[int, int]) -> Iterator[EventRow]:
    for row in rows:
        yield replace(row, slot=number.get(row.slot, row.slot), to=number.get(row.to, 0))
