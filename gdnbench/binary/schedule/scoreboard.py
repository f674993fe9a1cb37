"""Who waits for whom: the six scoreboards of a warp, followed through its code.

A scoreboard counts: each instruction that names it adds one, and takes it away when it is done. Waiting for it waits
until it is 0, and so for every instruction that has named it since it was last waited for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gdnbench.binary.instruction import Instruction
from gdnbench.binary.schedule.control import Control

# `DEPBAR.LE SB0, 0x1` waits until at most one is left, and results of one kind come in order; `DEPBAR {5,4}` names
# scoreboards as the wait mask does.
_AT_MOST = re.compile(r"SB(\d),\s*(0x[0-9a-f]+)")
_SET = re.compile(r"\{([\d,\s]+)\}")


@dataclass(frozen=True)
class Hold:
    """An instruction that holds a scoreboard.

    Attributes:
        instruction: which.
        cycle: at which it issues, if nothing were waited for.
        reads: it holds it until its operands are read, not until its result is there.
    """

    instruction: Instruction
    cycle: int
    reads: bool


@dataclass(frozen=True)
class Wait:
    """A scoreboard that an instruction waits for.

    Attributes:
        scoreboard: its number.
        holds: by whom it is held, first to last; empty if by none since it was waited for before.
    """

    scoreboard: int
    holds: tuple[Hold, ...]


class Scoreboards:
    """Who holds which, while instructions pass in order."""

    def __init__(self) -> None:
        self._held: defaultdict[int, list[Hold]] = defaultdict(list)

    def pass_by(self, instruction: Instruction, control: Control, cycle: int) -> tuple[Wait, ...]:
        """What an instruction waits for; it then holds what it names itself."""
        waits = tuple(Wait(number, self._free(number, left)) for number, left in _waited(instruction, control))
        for number, reads in ((control.write_scoreboard, False), (control.read_scoreboard, True)):
            if number is not None:
                self._held[number].append(Hold(instruction, cycle, reads))
        return waits

    def _free(self, number: int, left: int) -> tuple[Hold, ...]:
        held = self._held[number]
        done = len(held) - min(left, len(held))
        self._held[number] = held[done:]
        return tuple(held[:done])


def _waited(instruction: Instruction, control: Control) -> Iterator[tuple[int, int]]:
    """Scoreboards, and how many may still hold each."""
    yield from ((number, 0) for number in control.waits)
    if instruction.name == "DEPBAR":
        for number, left in _AT_MOST.findall(instruction.operands):
            yield int(number), int(left, 16)
        for numbers in _SET.findall(instruction.operands):
            yield from ((int(number), 0) for number in sorted(numbers.split(",")))
