"""What an item waits for: each constraint says that a stage begins item i no sooner than another ended an earlier one.

    begin(later, i) >= begin(earlier, i - shift) + time(earlier)

There are three kinds. A worker has one item at a time: the stage itself, shift = workers. An item needs its inputs: the
stage that gives them, shift = the buffer's filled slots. And it needs room for what it makes: the stage that takes it,
shift = the buffer's free slots. The begins are the least numbers that hold all constraints: a max-plus recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gdnbench.errors import UsageError
from gdnbench.project.pipeline import Pipeline


class Kind(StrEnum):
    """What is waited for."""

    WORKER = "worker"
    INPUT = "input"
    ROOM = "room"


@dataclass(frozen=True)
class Constraint:
    """One stage waits for another.

    Attributes:
        kind: what it waits for.
        earlier: the index of the stage that is waited for.
        later: the index of the stage that waits.
        shift: how many items before.
        time_us: of an item in the earlier stage.
        buffer: the buffer between them; empty of a worker.
    """

    kind: Kind
    earlier: int
    later: int
    shift: int
    time_us: float
    buffer: str = ""


def constraints_of(pipeline: Pipeline) -> list[Constraint]:
    """All constraints of a pipeline."""
    return list(_constraints(pipeline))


def _constraints(pipeline: Pipeline) -> Iterator[Constraint]:
    stages = pipeline.stages
    place = {stage.name: index for index, stage in enumerate(stages)}
    for index, stage in enumerate(stages):
        yield Constraint(Kind.WORKER, index, index, stage.workers, stage.time_us)
    for buffer in pipeline.buffers:
        giver = pipeline.giver(buffer.name)
        for taker in pipeline.takers(buffer.name):
            first, then = place[giver.name], place[taker.name]
            free = buffer.slots - buffer.filled
            yield Constraint(Kind.INPUT, first, then, buffer.filled, giver.time_us, buffer.name)
            yield Constraint(Kind.ROOM, then, first, free, taker.time_us, buffer.name)


def order_of(pipeline: Pipeline, constraints: Sequence[Constraint]) -> list[int]:
    """The stages' indices, so that each comes after those that it waits for on the same item.

    Raises:
        UsageError: if stages wait for one another: the pipeline would never move.
    """
    waits: dict[int, set[Constraint]] = {index: set() for index in range(len(pipeline.stages))}
    for constraint in constraints:
        if constraint.shift == 0:
            waits[constraint.later].add(constraint)
    order: list[int] = []
    while len(order) < len(waits):
        done = set(order)
        ready = [
            index
            for index, held in waits.items()
            if index not in done and all(constraint.earlier in done for constraint in held)
        ]
        if not ready:
            raise _deadlock(pipeline, {index: held for index, held in waits.items() if index not in done})
        order.extend(ready)
    return order


def _deadlock(pipeline: Pipeline, waits: dict[int, set[Constraint]]) -> UsageError:
    """The error for stages that wait for one another, with one circle of them."""
    path: list[Constraint] = []
    at, seen = next(iter(waits)), dict[int, int]()
    while at not in seen:
        seen[at] = len(path)
        held = min(
            (constraint for constraint in waits[at] if constraint.earlier in waits),
            key=lambda constraint: (constraint.earlier, constraint.buffer),
        )
        path.append(held)
        at = held.earlier
    circle = path[seen[at] :]
    told = ", ".join(
        f"{pipeline.stages[each.later].name} waits for {'room' if each.kind is Kind.ROOM else 'an item'} in "
        f"{each.buffer} from {pipeline.stages[each.earlier].name}"
        for each in circle
    )
    full = sorted({each.buffer for each in circle if each.kind is Kind.ROOM})
    if full:
        hint = f"give {full[0]} more slots than are filled"
    else:
        hint = f"what comes back is of an earlier item: give {circle[0].buffer} or another of them `filled = 1`"
    return UsageError(f"deadlock: {told}: no item ever begins", hint)
