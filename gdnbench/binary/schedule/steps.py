"""How ptxas scheduled a kernel: when each instruction issues, and what it waits for.

Nothing here is simulated: cycles are sums of the stall counts that the encodings hold, and no latency is assumed. How
long a wait lasts is not in the code.
"""

from __future__ import annotations

from dataclasses import dataclass

from gdnbench.binary.instruction import Instruction, read_instructions
from gdnbench.binary.schedule.access import tells_arrival
from gdnbench.binary.schedule.control import Control, read_controls
from gdnbench.binary.schedule.scoreboard import Scoreboards, Wait
from gdnbench.binary.schedule.way import loops, padding, way_through


@dataclass(frozen=True)
class Coded:
    """One instruction.

    Attributes:
        instruction: which.
        control: what its encoding says of it.
    """

    instruction: Instruction
    control: Control


@dataclass(frozen=True)
class Step(Coded):
    """One instruction on the way through the code.

    Attributes:
        cycle: at which it issues if nothing is waited for, counted from the first instruction.
        waits: what it waits for.
        repeats: it stands in a loop, whose body the way passes once.
    """

    cycle: int
    waits: tuple[Wait, ...]
    repeats: bool

    @property
    def arrivals(self) -> tuple[Instruction, ...]:
        """Those whose data of global memory it waits for."""
        holds = (hold for wait in self.waits for hold in wait.holds if not hold.reads)
        return tuple(hold.instruction for hold in holds if tells_arrival(hold.instruction))


@dataclass(frozen=True)
class Schedule:
    """A kernel's code with what its encodings say.

    Attributes:
        code: every instruction but padding, in order; those off the way are no steps.
        loops: how many branches on the way go back; what is between is passed once, so its cycles count once.
    """

    code: tuple[Coded, ...]
    loops: int

    @property
    def way(self) -> tuple[Step, ...]:
        """The instructions on the way, in order."""
        return tuple(one for one in self.code if isinstance(one, Step))


def read_schedule(sass: str) -> Schedule:
    """The schedule of a kernel.

    Args:
        sass: what `cuobjdump -sass` printed, encodings included.

    Raises:
        MachineError: if encodings are missing.
    """
    code = list(read_instructions(sass))
    controls = read_controls(sass, len(code))
    bodies = loops(code)
    steps = _pass_through(code, controls, bodies)
    every = (steps.get(at) or Coded(code[at], controls[at]) for at in range(padding(code)))
    return Schedule(tuple(every), len(bodies))


def _pass_through(code: list[Instruction], controls: list[Control], bodies: tuple[range, ...]) -> dict[int, Step]:
    """The instructions on the way, by their place in the code."""
    scoreboards, cycle, steps = Scoreboards(), 0, {}
    for at in way_through(code):
        waits = scoreboards.pass_by(code[at], controls[at], cycle)
        steps[at] = Step(code[at], controls[at], cycle, waits, any(at in body for body in bodies))
        cycle += max(controls[at].stall, 1)  # one warp issues one instruction a cycle at most
    return steps
