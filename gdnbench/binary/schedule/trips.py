"""How often in a row a warp goes to global memory: loads that issue when what others brought has been waited for."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.binary.schedule.access import loads_global, tells_arrival
from gdnbench.binary.schedule.steps import Step


def count_trips(way: Sequence[Step]) -> int | None:
    """The longest row of trips to global memory, each begun when the one before it has ended; 0 without a load.

    A load's trip is the one behind all that its warp has waited for until it issues. Loads that issue behind a wait
    for nothing of theirs, as for a barrier of the block, are on the same trip still. What a copy brings to shared
    memory is waited for by another instruction, which stands for all copies before it.

    None where loops both load and wait: how often they run is not in the code.
    """
    repeated = [step for step in way if step.repeats]
    if any(loads_global(step.instruction) for step in repeated) and any(step.arrivals for step in repeated):
        return None
    waited, copied = 0, 0
    trips: dict[str, int] = {}
    for step in way:
        waited = max([waited, *(trips.get(one.address, copied) for one in step.arrivals)])
        if loads_global(step.instruction):
            trips[step.instruction.address] = waited + 1
            copied = copied if tells_arrival(step.instruction) else waited + 1
    return max(trips.values(), default=0)
