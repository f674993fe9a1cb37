"""How ptxas scheduled a kernel: when each instruction issues, what it waits for, and the latency-bound parts of it.

The path goes from the first instruction to the final EXIT. Conditional branches fall through, so it goes through what
they may skip; unconditional ones are followed. Whether a warp takes it is not in the code: in-line code for rare values
is on it. What stands behind the final EXIT is not on it: retries of a wait, functions that are called, padding.

Nothing is simulated: cycles are sums of the stall counts in the encodings, and no latency is assumed. How long a wait
lasts is not in the code.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gdnbench.codegen.sass import (
    Control,
    Instruction,
    OutstandingInstruction,
    ScoreboardWait,
    awaited_scoreboards,
    read_controls,
    read_instructions,
    width_bits,
)

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
    targets = ((at, _target(one)) for at, one in enumerate(code))
    return {at: places[target] for at, target in targets if target is not None and target in places}


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
    # A jump to the test at the end of a loop only seems to skip the loop's body.
    enters_loop = any(at < back < target <= place for place, back in targets.items())
    return target if target > at and is_unconditional(code[at]) and not enters_loop else at + 1


@dataclass(frozen=True)
class EncodedInstruction:
    """An instruction and its control fields."""

    instruction: Instruction
    control: Control


@dataclass(frozen=True)
class IssuedInstruction(EncodedInstruction):
    """An instruction on the path; `cycle` is when it issues if nothing is waited for, from the first instruction."""

    cycle: int
    waits: tuple[ScoreboardWait, ...]
    repeats: bool  # stands in a loop, whose body the path passes once

    @property
    def arrivals(self) -> tuple[Instruction, ...]:
        """The awaited instructions whose data come from global memory."""
        holds = (hold for wait in self.waits for hold in wait.holds if not hold.reads)
        return tuple(hold.instruction for hold in holds if completes_load(hold.instruction))


@dataclass(frozen=True)
class InstructionSchedule:
    """A kernel's code with its encodings, without padding; the instructions on the path are `IssuedInstruction`s."""

    code: tuple[EncodedInstruction, ...]
    loops: int  # branches back on the path; the cycles of their bodies count once

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
    held: defaultdict[int, list[OutstandingInstruction]] = defaultdict(list)  # by scoreboard
    cycle, steps = 0, {}
    for at in fall_through_path(code):
        one, control, waits = code[at], controls[at], []
        for number, left in awaited_scoreboards(one, control):
            done = len(held[number]) - min(left, len(held[number]))
            waits.append(ScoreboardWait(number, tuple(held[number][:done])))
            del held[number][:done]
        for board, reads in ((control.write_scoreboard, False), (control.read_scoreboard, True)):
            if board is not None:
                held[board].append(OutstandingInstruction(one, cycle, reads))
        steps[at] = IssuedInstruction(one, control, cycle, tuple(waits), any(at in body for body in bodies))
        cycle += max(control.stall, 1)  # one warp issues one instruction a cycle at most
    return steps


@dataclass(frozen=True)
class SharedScoreboard:
    """Loads that share a scoreboard, so that the first use of any, in `cycle`, waits for all of them."""

    scoreboard: int
    loads: tuple[OutstandingInstruction, ...]
    cycle: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes that each load brings a thread."""
        return tuple(width_bits(load.instruction.modifiers) // 8 for load in self.loads)


@dataclass(frozen=True)
class ScheduleSummary:
    """What a kernel's fall-through path comes to."""

    # early_loads, late_loads: global loads that issue before one is waited for, and after
    early_loads: tuple[IssuedInstruction, ...]
    late_loads: tuple[IssuedInstruction, ...]
    # Longest chain of dependent global loads; 1 if all loads issue before one is waited for, None if loops both load
    # and wait
    dependent_loads: int | None
    # Instructions that wait for a global load or an mbarrier, until the last store
    arrivals: tuple[IssuedInstruction, ...]
    stores: tuple[IssuedInstruction, ...]  # global stores behind the first of `arrivals`; all of them if there is none
    first: tuple[IssuedInstruction, ...]  # steps until the first global load, it included; none without a load
    middle: tuple[IssuedInstruction, ...]  # steps from the first of `arrivals` until the last store, both included
    end: int | None  # cycle at which the last instruction issues; None if there is none
    shared: tuple[SharedScoreboard, ...]  # scoreboards that stand for several loads
    calls: int  # functions called on the path, whose code is not on it
    loops: int  # branches on the path that go back; what is between counts once

    @property
    def to_first_store(self) -> int | None:
        """Issue cycles from the first wait for memory to the first store behind it, or None if either is missing."""
        return self.stores[0].cycle - self.arrivals[0].cycle if self.arrivals and self.stores else None

    @property
    def to_last_store(self) -> int | None:
        """Issue cycles from the first wait for memory to the last store behind it, or None if either is missing."""
        return self.stores[-1].cycle - self.arrivals[0].cycle if self.arrivals and self.stores else None


def summarize(schedule: InstructionSchedule) -> ScheduleSummary:
    """Returns the summary of a schedule."""
    path = schedule.path
    turn = next((at for at, step in enumerate(path) if step.arrivals), len(path))
    before, after = path[:turn], path[turn:]
    stores = _those(after or path, stores_global)
    first_load = next((at for at, step in enumerate(path) if loads_global(step.instruction)), -1)
    middle = tuple(step for step in after if not stores or step.cycle <= stores[-1].cycle)
    return ScheduleSummary(
        early_loads=_those(before, loads_global),
        late_loads=_those(after, loads_global),
        dependent_loads=count_dependent_loads(path),
        arrivals=tuple(step for step in middle if step.arrivals),
        stores=stores,
        first=tuple(path[: first_load + 1]),
        middle=middle,
        end=path[-1].cycle if path else None,
        shared=tuple(_shared(path)),
        calls=sum(step.instruction.name == "CALL" for step in path),
        loops=schedule.loops,
    )


def count_waits(steps: Iterable[IssuedInstruction]) -> dict[str, int]:
    """Counts instructions by what they wait for, most frequent first; one that waits for two things counts for both."""
    awaited = ({described(hold) for wait in step.waits for hold in wait.holds} for step in steps)
    counts = Counter(what for step in awaited for what in step)
    return {what: counts[what] for what in sorted(counts, key=lambda what: (-counts[what], what))}


def described(hold: OutstandingInstruction) -> str:
    """Describes what is waited for: an opcode's result, `SHFL`, or that it has read its registers, `LDG operands`."""
    return f"{hold.instruction.name} operands" if hold.reads else hold.instruction.name


def _those(steps: Iterable[IssuedInstruction], chosen: Callable[[Instruction], bool]) -> tuple[IssuedInstruction, ...]:
    return tuple(step for step in steps if chosen(step.instruction))


def _shared(path: Iterable[IssuedInstruction]) -> Iterable[SharedScoreboard]:
    for step in path:
        for wait in step.waits:
            loads = tuple(hold for hold in wait.holds if loads_global(hold.instruction) and not hold.reads)
            if len(loads) > 1:
                yield SharedScoreboard(wait.scoreboard, loads, step.cycle)


def count_dependent_loads(path: Sequence[IssuedInstruction]) -> int | None:
    """Returns the longest chain of global loads that each issue when the one before has arrived, or None if unknown.

    A load depends on all that its warp has waited for until it issues. A wait for anything but a load, such as for a
    barrier of the block, adds nothing to the chain. What a copy brings to shared memory is waited for by another
    instruction, which stands for all copies before it.

    It is 0 without a load, and None if loops both load and wait, as how often they run is not in the code.
    """
    repeated = [step for step in path if step.repeats]
    if any(loads_global(step.instruction) for step in repeated) and any(step.arrivals for step in repeated):
        return None
    waited, copied = 0, 0
    depths: dict[str, int] = {}
    for step in path:
        waited = max([waited, *(depths.get(one.address, copied) for one in step.arrivals)])
        if loads_global(step.instruction):
            depths[step.instruction.address] = waited + 1
            copied = copied if completes_load(step.instruction) else waited + 1
    return max(depths.values(), default=0)
