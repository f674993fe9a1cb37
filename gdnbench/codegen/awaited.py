"""Which instructions each instruction waits for, along every path through a kernel's blocks.

A schedule follows one path, and passes a loop once. Here what is outstanding at the end of a block is outstanding at
the start of all its successors, so a wait at the top of a loop names the loads of the iteration before. What a wait
names may be outstanding along some path, not necessarily along all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gdnbench.codegen.control import awaited_scoreboards
from gdnbench.codegen.graph import Block
from gdnbench.codegen.schedule import EncodedInstruction

# Hopper's warpgroup products (wgmma) are counted in groups apart from the scoreboards: the last product of a group
# names its counter, and `WARPGROUP.DEPBAR.LE gsb0, 0x1` waits until at most one group is under way.
_PRODUCTS = re.compile(r"\b(gsb\d)\b")
_PRODUCTS_AT_MOST = re.compile(r"\b(gsb\d),\s*(0x[0-9a-f]+)")


@dataclass(frozen=True, order=True)
class Hold:
    """An instruction, at index `place` of the code, that may be outstanding.

    `reads` tells whether it is waited for until its operands are read, rather than until its result is there.
    """

    place: int
    reads: bool


_State = Mapping[str, frozenset[Hold]]  # by the scoreboard that is held


def awaited_along(code: Sequence[EncodedInstruction], blocks: Sequence[Block]) -> tuple[tuple[Hold, ...], ...]:
    """Returns, by index, what each instruction waits for: in the order of the code, an instruction named once.

    A wait that lets some be outstanding (`DEPBAR.LE SB0, 0x1`) names all that may be: which of them are done by then
    depends on the path.
    """
    entries: list[_State] = [{} for _ in blocks]
    found: dict[int, tuple[Hold, ...]] = {}
    pending = list(reversed(range(len(blocks))))
    while pending:
        at = pending.pop()
        state = dict(entries[at])
        for place in blocks[at].places:
            found[place] = _issue(code[place], place, state)
        for successor in blocks[at].successors:
            merged = _merge(entries[successor], state)
            if merged != entries[successor]:
                entries[successor] = merged
                pending.append(successor)
    return tuple(found.get(place, ()) for place in range(len(code)))


def holds_something(one: EncodedInstruction) -> bool:
    """Returns whether others may wait for an instruction."""
    return next(_held(one), None) is not None


def _issue(one: EncodedInstruction, place: int, state: dict[str, frozenset[Hold]]) -> tuple[Hold, ...]:
    waited: set[Hold] = set()
    for key, left in _waited(one):
        waited |= state.get(key, frozenset())
        if not left:
            state.pop(key, None)
    for key, reads in _held(one):
        state[key] = state.get(key, frozenset()) | {Hold(place, reads)}
    # An instruction whose result is there has read its operands, too.
    results = {hold.place for hold in waited if not hold.reads}
    return tuple(sorted(hold for hold in waited if not (hold.reads and hold.place in results)))


def _merge(entry: _State, state: _State) -> _State:
    return {key: entry.get(key, frozenset()) | state.get(key, frozenset()) for key in entry.keys() | state.keys()}


def _waited(one: EncodedInstruction) -> Iterator[tuple[str, int]]:
    """Yields what an instruction waits for, and how many may still hold each."""
    for number, left in awaited_scoreboards(one.instruction, one.control):
        yield str(number), left
    if one.instruction.name == "WARPGROUP":
        for key, most in _PRODUCTS_AT_MOST.findall(one.instruction.operands):
            yield key, int(most, 16)


def _held(one: EncodedInstruction) -> Iterator[tuple[str, bool]]:
    """Yields what an instruction holds, and whether only until its operands are read."""
    for number, reads in ((one.control.write_scoreboard, False), (one.control.read_scoreboard, True)):
        if number is not None:
            yield str(number), reads
    if one.instruction.name != "WARPGROUP":
        for key in _PRODUCTS.findall(one.instruction.operands):
            yield key, False
