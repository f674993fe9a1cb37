"""How ptxas scheduled a kernel: when each instruction of its fall-through path issues, and what it waits for.

The path goes from the first instruction to the final EXIT. Conditional branches fall through, so it goes through what
they may skip; unconditional ones are followed. Whether a warp takes it is not in the code: in-line code for rare values
is on it. What stands behind the final EXIT is not on it: retries of a wait, functions that are called, padding.

Nothing is simulated: cycles are sums of the stall counts in the encodings, and no latency is assumed. How long a wait
lasts is not in the code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.codegen.control import Control, Scoreboards, ScoreboardWait, read_controls
from gdnbench.codegen.sass import Instruction, read_instructions

_LOADS = frozenset({"LDG", "LD", "LDGSTS", "UTMALDG"})
_STORES = frozenset({"STG", "ST", "UTMASTG"})

# What holds a scoreboard until data of global memory are there: LDGDEPBAR stands for the copies (cp.async) before it.
_ARRIVALS = frozenset({"LDG", "LD", "LDGDEPBAR"})
_JUMPS = frozenset({"BRA", "JMP"})
_TARGET = re.compile(r"(?:^|\s)(0x[0-9a-f]+)$")


def loads_global(one: Instruction) -> bool:
    """Returns whether an instruction reads global memory: a load, or a copy to shared memory, also bulk (TMA)."""
    return one.name in _LOADS or (one.name == "UBLKCP" and one.modifiers[:2] == ("S", "G"))


def stores_global(one: Instruction) -> bool:
    """Returns whether an instruction writes global memory, by threads or in bulk; atomics do not count."""
    return one.name in _STORES or (one.name == "UBLKCP" and one.modifiers[:2] == ("G", "S"))


def completes_load(one: Instruction) -> bool:
    """Returns whether a wait for its result is one for global memory: a load, or a try at an mbarrier."""
    return one.name in _ARRIVALS or (one.name == "SYNCS" and "TRYWAIT" in one.modifiers)


def fall_through_path(code: Sequence[Instruction]) -> tuple[int, ...]:
    """Returns the indices of the instructions on the path, in order; each is passed once, those of a loop too."""
    last = _final_exit(code)
    targets = _targets(code[: last + 1])
    places, at = [], 0
    while at <= last:
        places.append(at)
        at = _next(code, targets, at)
    return tuple(places)


def loops(code: Sequence[Instruction]) -> tuple[range, ...]:
    """Returns the indices of each loop: from the target of a branch back, before the final EXIT, to that branch."""
    branches = _targets(code[: _final_exit(code) + 1]).items()
    return tuple(range(target, at + 1) for at, target in branches if target <= at)


def padding(code: Sequence[Instruction]) -> int:
    """Returns the index at which padding begins: a branch to itself, which keeps the fetcher in, and NOPs."""
    end = len(code)
    while end and (code[end - 1].name == "NOP" or _branches_to_itself(code[end - 1])):
        end -= 1
    return end


def _branches_to_itself(one: Instruction) -> bool:
    target = _target(one)
    return is_unconditional(one) and target is not None and target == int(one.address, 16)


def _final_exit(code: Sequence[Instruction]) -> int:
    exits = [at for at, one in enumerate(code) if one.name == "EXIT" and not one.predicate]
    return exits[-1] if exits else padding(code) - 1


def _targets(code: Sequence[Instruction]) -> dict[int, int]:
    """Returns the index that each branch goes to, by its own; only those within the code."""
    places = {int(one.address, 16): at for at, one in enumerate(code)}
    known = {at: places.get(target) for at, one in enumerate(code) if (target := _target(one)) is not None}
    return {at: place for at, place in known.items() if place is not None}


def _target(one: Instruction) -> int | None:
    return address_operand(one) if one.name in _JUMPS else None


def address_operand(one: Instruction) -> int | None:
    """Returns the number that the last operand is, a branch's target address, or None if it is not a number."""
    found = _TARGET.search(one.operands)
    return int(found[1], 16) if found else None


def is_unconditional(one: Instruction) -> bool:
    """Returns whether every thread that comes to a branch takes it."""
    # A condition is a predicate before the opcode or an operand before the target: `BRA.U UP0, 0x90`.
    return not one.predicate and _TARGET.fullmatch(one.operands) is not None


def _next(code: Sequence[Instruction], targets: dict[int, int], at: int) -> int:
    target = targets.get(at, at)
    skips = target > at and is_unconditional(code[at]) and not _enters_loop(targets, at, target)
    return target if skips else at + 1


def _enters_loop(targets: dict[int, int], at: int, target: int) -> bool:
    """Returns whether a jump goes to the test at the end of a loop, whose body it seems to skip."""
    return any(at < back < target <= place for place, back in targets.items())


@dataclass(frozen=True)
class EncodedInstruction:
    """An instruction and its control fields."""

    instruction: Instruction
    control: Control


@dataclass(frozen=True)
class IssuedInstruction(EncodedInstruction):
    """An instruction on the path; `cycle` is when it issues if nothing is waited for, from the first instruction.

    `repeats` tells whether it stands in a loop, whose body the path passes once.
    """

    cycle: int
    waits: tuple[ScoreboardWait, ...]
    repeats: bool

    @property
    def arrivals(self) -> tuple[Instruction, ...]:
        """The awaited instructions whose data come from global memory."""
        holds = (hold for wait in self.waits for hold in wait.holds if not hold.reads)
        return tuple(hold.instruction for hold in holds if completes_load(hold.instruction))


@dataclass(frozen=True)
class InstructionSchedule:
    """A kernel's code with its encodings, without padding; the instructions on the path are `IssuedInstruction`s.

    `loops` counts branches back on the path, whose bodies are passed once, so their cycles count once.
    """

    code: tuple[EncodedInstruction, ...]
    loops: int

    @property
    def path(self) -> tuple[IssuedInstruction, ...]:
        """The instructions on the path, in order."""
        return tuple(one for one in self.code if isinstance(one, IssuedInstruction))


def read_schedule(sass: str) -> InstructionSchedule:
    """Returns a kernel's schedule from the output of `cuobjdump -sass`; raises MachineError without encodings."""
    code = list(read_instructions(sass))
    controls = read_controls(sass, len(code))
    bodies = loops(code)
    steps = _issue(code, controls, bodies)
    every = (steps.get(at) or EncodedInstruction(code[at], controls[at]) for at in range(padding(code)))
    return InstructionSchedule(tuple(every), len(bodies))


def _issue(code: list[Instruction], controls: list[Control], bodies: tuple[range, ...]) -> dict[int, IssuedInstruction]:
    scoreboards, cycle, steps = Scoreboards(), 0, {}
    for at in fall_through_path(code):
        waits = scoreboards.issue(code[at], controls[at], cycle)
        steps[at] = IssuedInstruction(code[at], controls[at], cycle, waits, any(at in body for body in bodies))
        cycle += max(controls[at].stall, 1)  # one warp issues one instruction a cycle at most
    return steps
