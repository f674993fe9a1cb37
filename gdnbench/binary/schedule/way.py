"""The way through a kernel's code that its listing shows: from the first instruction to the final EXIT.

Conditional branches fall through, so the way goes through what they may skip; unconditional ones are followed. Whether
a warp goes that way is not in the code: a path for rare values is passed if it stands in line. What stands behind the
final EXIT is not on the way: retries of a wait, functions that are called, padding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdnbench.binary.instruction import Instruction

_JUMPS = frozenset({"BRA", "JMP"})
_TARGET = re.compile(r"(?:^|\s)(0x[0-9a-f]+)$")


def way_through(code: Sequence[Instruction]) -> tuple[int, ...]:
    """The places in the code of the instructions on the way, in order; each is passed once, those of a loop too."""
    last = _final_exit(code)
    targets = _targets(code[: last + 1])
    places, at = [], 0
    while at <= last:
        places.append(at)
        at = _next(code, targets, at)
    return tuple(places)


def loops(code: Sequence[Instruction]) -> tuple[range, ...]:
    """The places of each loop: from what a branch before the final EXIT goes back to, until that branch."""
    branches = _targets(code[: _final_exit(code) + 1]).items()
    return tuple(range(target, at + 1) for at, target in branches if target <= at)


def padding(code: Sequence[Instruction]) -> int:
    """The place where nothing but padding follows: a branch to itself that keeps the fetcher in, and NOPs."""
    end = len(code)
    while end and (code[end - 1].name == "NOP" or _goes_nowhere(code[end - 1])):
        end -= 1
    return end


def _goes_nowhere(one: Instruction) -> bool:
    target = _target(one)
    return _always(one) and target is not None and target == int(one.address, 16)


def _final_exit(code: Sequence[Instruction]) -> int:
    exits = [at for at, one in enumerate(code) if one.name == "EXIT" and not one.predicate]
    return exits[-1] if exits else padding(code) - 1


def _targets(code: Sequence[Instruction]) -> dict[int, int]:
    """Where each branch goes, place by place; only those within the code."""
    places = {int(one.address, 16): at for at, one in enumerate(code)}
    known = {at: places.get(target) for at, one in enumerate(code) if (target := _target(one)) is not None}
    return {at: place for at, place in known.items() if place is not None}


def _target(one: Instruction) -> int | None:
    found = _TARGET.search(one.operands) if one.name in _JUMPS else None
    return int(found[1], 16) if found else None


def _always(one: Instruction) -> bool:
    # A condition is a predicate before the opcode or an operand before the target: `BRA.U UP0, 0x90`.
    return not one.predicate and _TARGET.fullmatch(one.operands) is not None


def _next(code: Sequence[Instruction], targets: dict[int, int], at: int) -> int:
    target = targets.get(at, at)
    skips = target > at and _always(code[at]) and not _enters_loop(targets, at, target)
    return target if skips else at + 1


def _enters_loop(targets: dict[int, int], at: int, target: int) -> bool:
    """Whether a jump goes to the test at the end of a loop, whose body it seems to skip."""
    return any(at < back < target <= place for place, back in targets.items())
