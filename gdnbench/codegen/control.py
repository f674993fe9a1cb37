"""The control fields of an instruction, which no listing prints, and the scoreboards that they name.

Since Volta an instruction has 128 bits, and bits 105 to 125 are the compiler's: the hardware checks no dependence but
those that they name. The fields are described by Jia, Maggioni, Staiger and Scarpazza, "Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking" (arXiv:1804.06826), in its section on control information, and alike in the public
notes of the assemblers CuAssembler and TuringAs. NVIDIA documents them nowhere.

A scoreboard counts: each instruction that names it adds one, and takes it away when it is done. A wait lasts until it
is 0, and so for every instruction that has named it since the last wait.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gdnbench.codegen.sass import Instruction
from gdnbench.errors import MachineError

SCOREBOARDS = 6
"""Scoreboards of a warp; an instruction without a fixed latency holds one until it is done."""

_FIRST_BIT = 105 - 64  # of the fields, in the high half of an instruction
_NO_SCOREBOARD = 7

# `cuobjdump -sass` prints both halves of every instruction, the low one first.
_HALF = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
# `DEPBAR.LE SB0, 0x1` waits until at most one is left, and results of one kind come in order; `DEPBAR {5,4}` names
# scoreboards as the wait mask does.
_AT_MOST = re.compile(r"SB(\d),\s*(0x[0-9a-f]+)")
_SET = re.compile(r"\{([\d,\s]+)\}")


@dataclass(frozen=True)
class Control:
    """The control fields of one instruction.

    Attributes:
        stall: cycles until the warp may issue its next instruction.
        yields: whether the scheduler is to take another warp next.
        write_scoreboard: held until the result is there; None if the latency is fixed.
        read_scoreboard: held until the operands are read and may be overwritten; None if that is at once.
        waits: scoreboards that must be free before the instruction issues.
        reuse: operand slots whose register the register cache keeps, a bit each.
    """

    stall: int
    yields: bool
    write_scoreboard: int | None
    read_scoreboard: int | None
    waits: tuple[int, ...]
    reuse: int


def read_control(high: int) -> Control:
    """Decodes the high 64 bits of an instruction."""
    fields = high >> _FIRST_BIT
    mask = fields >> 11 & 0b111111
    return Control(
        stall=fields & 0b1111,
        yields=not fields >> 4 & 1,  # the bit is set where it does not yield
        write_scoreboard=_scoreboard(fields >> 5),
        read_scoreboard=_scoreboard(fields >> 8),
        waits=tuple(number for number in range(SCOREBOARDS) if mask >> number & 1),
        reuse=fields >> 17 & 0b1111,
    )


def _scoreboard(field: int) -> int | None:
    number = field & 0b111
    return None if number == _NO_SCOREBOARD else number


def read_controls(sass: str, count: int) -> list[Control]:
    """Returns the control fields of the instructions of a disassembly, in order.

    Raises MachineError unless it has the encodings of `count` instructions.
    """
    halves = _HALF.findall(sass)
    if len(halves) != 2 * count:
        said = f"cuobjdump printed {len(halves)} words for {count} instructions; two each are needed for a schedule"
        raise MachineError(said, "inspect with --sass, which needs no encodings, or update triton, whose wheel has it")
    return [read_control(int(high, 16)) for high in halves[1::2]]


@dataclass(frozen=True)
class OutstandingInstruction:
    """An instruction that holds a scoreboard since `cycle`, at which it issues if nothing is waited for.

    `reads` tells whether it holds that until its operands are read, not until its result is there.
    """

    instruction: Instruction
    cycle: int
    reads: bool


@dataclass(frozen=True)
class ScoreboardWait:
    """A scoreboard that an instruction waits for, and those that hold it since the last wait, first to last."""

    scoreboard: int
    holds: tuple[OutstandingInstruction, ...]


class Scoreboards:
    """The instructions that hold the scoreboards of a warp, while its instructions issue in order."""

    def __init__(self) -> None:
        self._held: defaultdict[int, list[OutstandingInstruction]] = defaultdict(list)

    def issue(self, instruction: Instruction, control: Control, cycle: int) -> tuple[ScoreboardWait, ...]:
        """Returns what an instruction waits for, and records the scoreboards that it holds."""
        waits = tuple(
            ScoreboardWait(number, self._release(number, left))
            for number, left in awaited_scoreboards(instruction, control)
        )
        for number, reads in ((control.write_scoreboard, False), (control.read_scoreboard, True)):
            if number is not None:
                self._held[number].append(OutstandingInstruction(instruction, cycle, reads))
        return waits

    def _release(self, number: int, left: int) -> tuple[OutstandingInstruction, ...]:
        held = self._held[number]
        done = len(held) - min(left, len(held))
        self._held[number] = held[done:]
        return tuple(held[:done])


def awaited_scoreboards(instruction: Instruction, control: Control) -> Iterator[tuple[int, int]]:
    """Yields the scoreboards that an instruction waits for, and how many instructions may still hold each."""
    yield from ((number, 0) for number in control.waits)
    if instruction.name == "DEPBAR":
        for number, left in _AT_MOST.findall(instruction.operands):
            yield int(number), int(left, 16)
        for numbers in _SET.findall(instruction.operands):
            yield from ((int(number), 0) for number in sorted(numbers.split(",")))
