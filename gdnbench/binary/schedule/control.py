"""What an encoding says of when its instruction issues: stalls, scoreboards, register reuse. No listing prints it.

Since Volta an instruction has 128 bits, and 105 to 125 of them are the compiler's: the hardware checks no dependence
but those that they name. The fields are described by Jia, Maggioni, Staiger and Scarpazza, "Dissecting the NVIDIA
Volta GPU Architecture via Microbenchmarking" (arXiv:1804.06826), in its section on control information, and alike in
the public notes of the assemblers CuAssembler and TuringAs. NVIDIA documents them nowhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gdnbench.errors import MachineError

SCOREBOARDS = 6
"""How many a warp has; an instruction without a fixed latency holds one until it is done."""

_FIRST_BIT = 105 - 64  # of the fields, in the high half of an instruction
_NO_SCOREBOARD = 7

# `cuobjdump -sass` prints both halves of every instruction, the low one first.
_HALF = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")


@dataclass(frozen=True)
class Control:
    """The control fields of one instruction.

    Attributes:
        stall: cycles until the warp may issue its next instruction.
        yields: whether the scheduler is asked to take another warp next.
        write_scoreboard: held until the result is there; None if its latency is fixed.
        read_scoreboard: held until the operands are read, so that they may be overwritten; None if that is at once.
        waits: scoreboards that must be free before it issues.
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
    """The control fields of the instructions of a disassembly, in order.

    Args:
        sass: what `cuobjdump -sass` printed, encodings included.
        count: how many instructions it has.

    Raises:
        MachineError: if it has another number of encodings.
    """
    halves = _HALF.findall(sass)
    if len(halves) != 2 * count:
        said = f"cuobjdump printed {len(halves)} words for {count} instructions; two each are needed for a schedule"
        raise MachineError(said, "inspect with --sass, which needs no encodings, or update triton, whose wheel has it")
    return [read_control(int(high, 16)) for high in halves[1::2]]
