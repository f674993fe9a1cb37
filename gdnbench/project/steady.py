"""The steady state: the time an item takes once the pipeline is full, and what sets it.

Along a circle of constraints the times add up, and so do the items that it goes back over: time over items is the least
time that an item can take. The steady state is the greatest of these ratios over all circles, the maximum cycle mean of
the max-plus recursion (Baccelli, Cohen, Olsder, Quadrat, "Synchronization and Linearity", 1992). Circles of one
constraint are the stages' own work, time over workers.

It is found by Newton's method on circles: as long as there is a circle that takes more than the present ratio for its
items, take its ratio. A circle is looked for with Bellman and Ford's method for longest paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.project.constraints import Constraint, Kind, constraints_of, order_of
from gdnbench.project.pipeline import Pipeline

_CLOSE = 1e-10
"""A circle that takes longer by less than this share is the same one, rounded."""


@dataclass(frozen=True)
class Steady:
    """The steady state of a pipeline.

    Attributes:
        item_us: from one item to the next.
        circle: the constraints that set it, each after the one that it waits for; of one stage alone where that is as
            slow as any circle.
    """

    item_us: float
    circle: tuple[Constraint, ...]

    @property
    def is_work(self) -> bool:
        """Whether a stage's own work sets it."""
        return all(each.kind is Kind.WORKER for each in self.circle)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Buffers in which a slot more would shorten the circle's time an item."""
        return tuple(dict.fromkeys(each.buffer for each in self.circle if each.kind is Kind.ROOM))


def steady_state(pipeline: Pipeline) -> Steady:
    """The time an item takes in the steady state, and what sets it.

    Raises:
        UsageError: if stages wait for one another for ever.
    """
    constraints = constraints_of(pipeline)
    order_of(pipeline, constraints)  # with a deadlock there is none
    worst = max((each for each in constraints if each.kind is Kind.WORKER), key=lambda each: each.time_us / each.shift)
    found = Steady(worst.time_us / worst.shift, (worst,))
    between = [each for each in constraints if each.kind is not Kind.WORKER]  # no worker's ratio is above the first
    while circle := _longer_circle(len(pipeline.stages), between, found.item_us):
        ratio = _ratio(circle)
        if ratio <= found.item_us * (1 + _CLOSE):
            break
        found = Steady(ratio, tuple(circle))
    return found


def _ratio(circle: Sequence[Constraint]) -> float:
    return sum(each.time_us for each in circle) / sum(each.shift for each in circle)


def _longer_circle(stages: int, constraints: Sequence[Constraint], item_us: float) -> list[Constraint]:
    """A circle of constraints that takes longer than `item_us` for each item; empty if there is none."""
    longest = [0.0] * stages
    last: list[Constraint | None] = [None] * stages
    slack = _CLOSE * item_us
    moved = -1
    for _ in range(stages + 1):
        moved = -1
        for each in constraints:
            reached = longest[each.earlier] + each.time_us - item_us * each.shift
            if reached > longest[each.later] + slack:
                longest[each.later], last[each.later], moved = reached, each, each.later
        if moved < 0:
            return []
        if circle := _circle_through(last, moved):
            return circle
    return []


def _circle_through(last: Sequence[Constraint | None], start: int) -> list[Constraint]:
    """The circle that the path that ends at a stage comes from, if it does, from the file's first stage on it."""
    seen: set[int] = set()
    at = start
    while at not in seen:
        seen.add(at)
        step = last[at]
        if step is None:
            return []
        at = step.earlier
    circle: list[Constraint] = []
    begin = at
    while not circle or at != begin:
        step = last[at]
        assert step is not None
        circle.append(step)
        at = step.earlier
    circle.reverse()
    first = min(range(len(circle)), key=lambda place: circle[place].earlier)
    return circle[first:] + circle[:first]
