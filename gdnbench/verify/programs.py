"""Programs of events over a pool of states: what an engine does with sequences, as text; and shrinks one.

    p3:65,7:2   prefill: 65 tokens of the sequence in slot 3, 2 of that in slot 7
    p3:130>9    prefill with checkpoints: slot 9 gets the last one of sequence 3, and goes on from there
    d7,0,3      decode: a token each, in this order of the batch; 0 and -1 are padding
    v3:2,7:4    verify drafts: of the first sequence 2 are accepted, of the other 4
    v3:0.1.1/2  verify a tree of drafts, by the number of each one's parent, 0 for none: the path to draft 2 is accepted
    c3>9,7>8    copy states from slot 3 to slot 9 and from 7 to 8: a checkpoint, or a restored one
    x7          NaN from here on: its state, and its tokens
    f3          free: the slot is nobody's

A sequence has the number of its slot. It begins, from a state of zeros, where a launch first names it; a copy takes
over the history of its source and goes on with the same tokens. An event whose sequences are not there, or that the op
does not define, does nothing, so that a program stays one when events are taken out of it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from gdnbench.errors import UsageError
from gdnbench.model.sequences import CALLS, Call

EventKind = Literal[Call, "free", "poison"]
LETTERS: dict[str, EventKind] = {
    "p": "prefill", "d": "decode", "v": "verify", "c": "copy", "f": "free", "x": "poison",
}  # fmt: skip
_LETTER_OF = {kind: letter for letter, kind in LETTERS.items()}
_ROW = re.compile(r"(-?\d{1,9})(?::(?:(\d{1,3}(?:\.\d{1,3})*)/)?(\d{1,6}))?(?:>(\d{1,9}))?")
_HINT = "write events as in 'p3:65,7:2 c3>9 d7,0,3 v3:2,7:4 x7 f7'"
_NEAR_CHUNKS = (0, 1, 2, 3, 5, 16, 63, 64, 65, 130)  # tokens of a prefill: kernels take 16 or 64 at once
_OFTEN = 4  # times as often as each of these, prefills that end at a checkpoint
_MOST_POISONED = 2
_USED = 40  # slots of a pool in which programs have sequences
_PADDED = 0.3  # share of batches with padding
_POISONED = 0.5  # share with all sequences that hold NaN, where there are some
_RESTORED = 0.5  # share of prefills with a checkpoint from which another sequence goes on
_WEIGHTS: dict[EventKind, int] = {"prefill": 3, "decode": 6, "verify": 5, "copy": 3, "free": 2, "poison": 1}


@dataclass(frozen=True)
class EventRow:
    """A sequence, by its slot, in an event; padding of the batch at 0 or less.

    `count` is the number of tokens that are prefilled, or of drafts that are accepted, of a tree the number of the last
    one; `to` is the slot of a copy, or of the last checkpoint; `tree` has the number of each draft's parent.
    """

    slot: int
    count: int = 1
    to: int = 0
    tree: tuple[int, ...] = ()


@dataclass(frozen=True)
class PoolEvent:
    """One event, for the sequences of a batch in their order."""

    kind: EventKind
    rows: tuple[EventRow, ...]

    def __str__(self) -> str:
        return _LETTER_OF[self.kind] + ",".join(self._write(row) for row in self.rows)

    def _write(self, row: EventRow) -> str:
        if self.kind == "copy":
            return f"{row.slot}>{row.to}"
        if self.kind not in {"prefill", "verify"} or row.slot <= 0:
            return str(row.slot)
        tree = f"{'.'.join(map(str, row.tree))}/" if row.tree else ""
        return f"{row.slot}:{tree}{row.count}" + (f">{row.to}" if row.to else "")


@dataclass(frozen=True)
class EventProgram:
    """Events in their order."""

    events: tuple[PoolEvent, ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.events))

    @classmethod
    def parse(cls, text: str, extent: Extent) -> Self:
        """Reads what `str` writes; UsageError for another text, or a slot or count beyond the extent."""
        return cls(tuple(_parse_event(term, extent) for term in text.split()))


@dataclass(frozen=True)
class Extent:
    """How large programs are; `slots` are numbered from 1, and `drafts` are the tokens of a verified sequence.

    `every` are the tokens between two checkpoints, 0 without; drafts are a tree each if it `has_trees`.
    """

    events: int
    slots: int
    batch: int
    tokens: int
    drafts: int
    every: int = 0
    has_trees: bool = False


def step_of(place: int, event: PoolEvent) -> str:
    """What a worker says of the event that it is on: `event 3, d7,0,3`."""
    return f"event {place + 1}, {event}"


def place_in(step: str) -> int:
    """The place in a step's name, from 0; -1 for another step."""
    match = re.match(r"event (\d+),", step)
    return int(match[1]) - 1 if match else -1


def _parse_event(term: str, extent: Extent) -> PoolEvent:
    kind, matches = LETTERS.get(term[0]), [_ROW.fullmatch(each) for each in term[1:].split(",")]
    found = [match for match in matches if match]
    if kind is None or len(found) < len(matches):
        raise UsageError(f"--sequences: {term[:40]} is not an event", _HINT)
    rows = tuple(
        EventRow(int(slot), int(count or 1), int(to or 0), tuple(map(int, tree.split("."))) if tree else ())
        for slot, tree, count, to in (match.groups() for match in found)
    )
    named = [row.slot for row in rows if row.slot > 0] + [row.to for row in rows if row.to or kind == "copy"]
    problem = ""
    if twice := [slot for slot in named if named.count(slot) > 1]:
        problem = f"slot {twice[0]} is there twice"
    elif beyond := [slot for slot in named if not 1 <= slot <= extent.slots]:
        problem = f"there is no slot {beyond[0]}, there are 1 to {extent.slots}"
    elif kind not in {"decode", "verify"} and any(row.slot <= 0 for row in rows):
        problem = "padding is of d and v alone"
    elif kind == "verify" and any(not 1 <= row.count <= extent.drafts for row in rows):
        problem = f"1 to {extent.drafts} drafts are accepted"
    elif kind == "verify" and not all(_is_tree(row, extent) for row in rows if row.slot > 0):
        chain = ".".join(map(str, range(extent.drafts)))
        wanted = f"a tree names {extent.drafts} parents, each draft one before it: v3:{chain}/1"
        problem = wanted if extent.has_trees else "these drafts are not a tree"
    elif kind == "prefill" and not any(row.count for row in rows):
        problem = "it has no token"
    elif kind == "prefill" and all(row.count < extent.every for row in rows):
        problem = f"a checkpoint takes {extent.every} tokens"
    elif kind == "prefill" and any(row.to and not 0 < extent.every <= row.count for row in rows):
        problem = f"a checkpoint takes {extent.every} tokens" if extent.every else "prefills have no checkpoints"
    if problem:
        raise UsageError(f"--sequences: {term[:40]}: {problem}", _HINT)
    return PoolEvent(kind, rows)


def _is_tree(row: EventRow, extent: Extent) -> bool:
    """Whether a row has a tree of all drafts, each behind its parent, or none where there are none."""
    wanted = extent.drafts if extent.has_trees else 0
    return len(row.tree) == wanted and all(parent <= place for place, parent in enumerate(row.tree))


def draw_program(seed: int, calls: Collection[Call], extent: Extent) -> EventProgram:
    """Draws a program of these calls, the same for a seed; `copy` is always among its events."""
    return EventProgram(tuple(_Drawing(random.Random(seed), extent).events(calls)))


class _Drawing:
    """The state of a program while it is drawn: which slots are live, and which of these hold NaN."""

    def __init__(self, random_: random.Random, extent: Extent) -> None:
        self._random, self._extent = random_, extent
        # The last one, too: the largest offsets are there.
        some = random_.sample(range(1, extent.slots), min(_USED, extent.slots) - 1)
        self._slots = sorted({*some, extent.slots})
        self._live: list[int] = []
        self._poisoned: set[int] = set()

    def events(self, calls: Collection[Call]) -> Iterator[PoolEvent]:
        launches = [call for call in CALLS if call in calls and call != "copy"]
        for _ in range(self._extent.events):
            yield self._event(launches)

    def _event(self, launches: Sequence[Call]) -> PoolEvent:
        kinds: list[EventKind] = [*launches]
        clean = [slot for slot in self._live if slot not in self._poisoned]
        if clean and self._free:
            kinds.append("copy")
        if len(self._live) > self._extent.batch // 2:
            kinds.append("free")
        if len(clean) > 1 and len(self._poisoned) < _MOST_POISONED:
            kinds.append("poison")
        [kind] = self._random.choices(kinds, [_WEIGHTS[each] for each in kinds])
        match kind:
            case "copy":
                return PoolEvent(kind, tuple(self._copies(clean)))
            case "free":
                slot = self._random.choice(self._live)
                self._live.remove(slot)
                self._poisoned.discard(slot)
                return PoolEvent(kind, (EventRow(slot),))
            case "poison":
                slot = self._random.choice(clean)
                self._poisoned.add(slot)
                return PoolEvent(kind, (EventRow(slot),))
        return PoolEvent(kind, tuple(self._batch(kind)))

    @property
    def _free(self) -> list[int]:
        return [slot for slot in self._slots if slot not in self._live]

    def _copies(self, clean: Sequence[int]) -> Iterator[EventRow]:
        free = self._free
        for source in self._random.sample(clean, min(len(clean), len(free), self._random.randint(1, 2))):
            target = self._random.choice(free)
            free.remove(target)
            self._live.append(target)
            yield EventRow(source, to=target)

    def _batch(self, kind: EventKind) -> Iterator[EventRow]:
        size, free = self._random.randint(1, self._extent.batch), self._free
        begun = self._random.randint(0 if self._live else 1, min(2, size)) if free else 0
        begun = min(begun, len(free))
        chosen = self._random.sample(free, begun)
        # Those that hold NaN come up often, among others: no launch may carry it over.
        first = [*self._poisoned] if self._random.random() < _POISONED else []
        rest = [slot for slot in self._live if slot not in first]
        chosen += (first + self._random.sample(rest, len(rest)))[: size - begun]
        self._live += chosen[:begun]
        self._random.shuffle(chosen)
        pads = [0, -1] if kind != "prefill" and self._random.random() < _PADDED else []
        for pad in pads[: self._random.randint(1, 2)]:
            chosen.insert(self._random.randint(0, len(chosen)), pad)
        counts = [self._count(kind) if slot > 0 else 1 for slot in chosen]
        if kind == "prefill" and max(counts) < max(1, self._extent.every):
            counts[0] = max(1, self._extent.every)
        for slot, count in zip(chosen, counts, strict=True):
            to = self._restored(slot, count) if kind == "prefill" and self._extent.every else 0
            tree = self._tree() if kind == "verify" and self._extent.has_trees and slot > 0 else ()
            yield EventRow(slot, count, to, tree)

    def _restored(self, slot: int, count: int) -> int:
        """A slot that goes on from the last checkpoint of a prefill, for some that have one; else 0."""
        free = self._free
        if count < self._extent.every or slot in self._poisoned or not free or self._random.random() > _RESTORED:
            return 0
        self._live.append(self._random.choice(free))
        return self._live[-1]

    def _tree(self) -> tuple[int, ...]:
        return tuple(self._random.randint(0, place) for place in range(self._extent.drafts))

    def _count(self, kind: EventKind) -> int:
        match kind:
            case "prefill":
                often = [self._extent.every] * (_OFTEN if self._extent.every else 0)
                return self._random.choice([*(each for each in _NEAR_CHUNKS if each <= self._extent.tokens), *often])
            case "verify":
                return self._random.randint(1, self._extent.drafts)
        return 1


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
