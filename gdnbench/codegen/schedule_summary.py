"""The latency-bound parts of a schedule: when loads issue, what waits for them, and how far the stores are from there.

Cycles are issue cycles on the fall-through path, counted from the first instruction as if nothing were waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gdnbench.codegen.control import OutstandingInstruction
from gdnbench.codegen.sass import width_bits
from gdnbench.codegen.schedule import (
    InstructionSchedule,
    IssuedInstruction,
    completes_load,
    loads_global,
    stores_global,
)


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
    """What a kernel's fall-through path comes to.

    Attributes:
        early_loads, late_loads: global loads that issue before one is waited for, and after.
        dependent_loads: longest chain of dependent global loads; 1 if all loads issue before one is waited for, None if
            loops both load and wait.
        arrivals: instructions that wait for a global load or an mbarrier, until the last store.
        stores: global stores behind the first of `arrivals`; all of them if there is none.
        first: steps until the first global load, it included; none without a load.
        middle: steps from the first of `arrivals` until the last store, both included.
        end: cycle at which the last instruction issues; None if there is none.
        shared: scoreboards that stand for several loads.
        calls: functions called on the path, whose code is not on it.
        loops: branches on the path that go back; what is between counts once.
    """

    early_loads: tuple[IssuedInstruction, ...]
    late_loads: tuple[IssuedInstruction, ...]
    dependent_loads: int | None
    arrivals: tuple[IssuedInstruction, ...]
    stores: tuple[IssuedInstruction, ...]
    first: tuple[IssuedInstruction, ...]
    middle: tuple[IssuedInstruction, ...]
    end: int | None
    shared: tuple[SharedScoreboard, ...]
    calls: int
    loops: int

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
    stores = _stores(after) if after else _stores(path)
    middle = tuple(step for step in after if not stores or step.cycle <= stores[-1].cycle)
    return ScheduleSummary(
        early_loads=_loads(before),
        late_loads=_loads(after),
        dependent_loads=count_dependent_loads(path),
        arrivals=tuple(step for step in middle if step.arrivals),
        stores=stores,
        first=_until_first_load(path),
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


def _loads(steps: Iterable[IssuedInstruction]) -> tuple[IssuedInstruction, ...]:
    return tuple(step for step in steps if loads_global(step.instruction))


def _stores(steps: Iterable[IssuedInstruction]) -> tuple[IssuedInstruction, ...]:
    return tuple(step for step in steps if stores_global(step.instruction))


def _until_first_load(path: Sequence[IssuedInstruction]) -> tuple[IssuedInstruction, ...]:
    at = next((at for at, step in enumerate(path) if loads_global(step.instruction)), -1)
    return tuple(path[: at + 1])


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
