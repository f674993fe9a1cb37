"""What a schedule comes to: when loads issue, what waits for them, and how far it is from there to the stores.

Cycles are issue cycles, counted from the first instruction as if nothing were waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gdnbench.binary.sass import width_bits
from gdnbench.binary.schedule.access import loads_global, stores_global
from gdnbench.binary.schedule.scoreboard import Hold
from gdnbench.binary.schedule.steps import Schedule, Step
from gdnbench.binary.schedule.trips import count_trips


@dataclass(frozen=True)
class Shared:
    """Loads that one scoreboard stands for, so that the first use of any waits for all of them.

    Attributes:
        scoreboard: its number.
        loads: those who hold it when it is waited for, first to last.
        cycle: of the instruction that waits.
    """

    scoreboard: int
    loads: tuple[Hold, ...]
    cycle: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes that each load brings a thread."""
        return tuple(width_bits(load.instruction.modifiers) // 8 for load in self.loads)


@dataclass(frozen=True)
class Milestones:
    """The way through a kernel.

    Attributes:
        early_loads: global loads that issue before one is waited for.
        late_loads: those that issue after.
        trips: to global memory in a row, each begun when the one before it has ended; 1 where all loads go out first,
            None where loops both load and wait.
        arrivals: instructions that wait for a global load or an mbarrier, until the last store.
        stores: global stores behind the first of `arrivals`; all of them if there is none.
        first: steps until the first global load, it included; none if there is no load.
        middle: steps from the first of `arrivals` until the last store, both included.
        end: cycle at which the last instruction issues; None if there is none.
        shared: scoreboards that stand for several loads.
        calls: functions called on the way, whose code is not on it.
        loops: branches on the way that go back; what is between counts once.
    """

    early_loads: tuple[Step, ...]
    late_loads: tuple[Step, ...]
    trips: int | None
    arrivals: tuple[Step, ...]
    stores: tuple[Step, ...]
    first: tuple[Step, ...]
    middle: tuple[Step, ...]
    end: int | None
    shared: tuple[Shared, ...]
    calls: int
    loops: int

    @property
    def to_first_store(self) -> int | None:
        """Issue cycles from the first wait for memory to the first store behind it; None if either is missing."""
        return self.stores[0].cycle - self.arrivals[0].cycle if self.arrivals and self.stores else None

    @property
    def to_last_store(self) -> int | None:
        """Likewise to the last store."""
        return self.stores[-1].cycle - self.arrivals[0].cycle if self.arrivals and self.stores else None


def find_milestones(schedule: Schedule) -> Milestones:
    """Reads them off the way through a schedule."""
    way = schedule.way
    turn = next((at for at, step in enumerate(way) if step.arrivals), len(way))
    before, after = way[:turn], way[turn:]
    stores = _stores(after) if after else _stores(way)
    middle = tuple(step for step in after if not stores or step.cycle <= stores[-1].cycle)
    return Milestones(
        early_loads=_loads(before),
        late_loads=_loads(after),
        trips=count_trips(way),
        arrivals=tuple(step for step in middle if step.arrivals),
        stores=stores,
        first=_until_first_load(way),
        middle=middle,
        end=way[-1].cycle if way else None,
        shared=tuple(_shared(way)),
        calls=sum(step.instruction.name == "CALL" for step in way),
        loops=schedule.loops,
    )


def count_waits(steps: Iterable[Step]) -> dict[str, int]:
    """How many instructions wait for what, most frequent first; one that waits for two things counts for both."""
    awaited = ({described(hold) for wait in step.waits for hold in wait.holds} for step in steps)
    counts = Counter(what for step in awaited for what in step)
    return {what: counts[what] for what in sorted(counts, key=lambda what: (-counts[what], what))}


def described(hold: Hold) -> str:
    """What is waited for: an opcode's result, `SHFL`, or that it has read its registers, `LDG operands`."""
    return f"{hold.instruction.name} operands" if hold.reads else hold.instruction.name


def _loads(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(step for step in steps if loads_global(step.instruction))


def _stores(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(step for step in steps if stores_global(step.instruction))


def _until_first_load(way: Sequence[Step]) -> tuple[Step, ...]:
    at = next((at for at, step in enumerate(way) if loads_global(step.instruction)), -1)
    return tuple(way[: at + 1])


def _shared(way: Iterable[Step]) -> Iterable[Shared]:
    for step in way:
        for wait in step.waits:
            loads = tuple(hold for hold in wait.holds if loads_global(hold.instruction) and not hold.reads)
            if len(loads) > 1:
                yield Shared(wait.scoreboard, loads, step.cycle)
