"""Runs a pipeline on paper, item by item, and says what each stage did meanwhile.

A stage begins item i once its worker is free, its inputs are there and there is room for what it makes: the maximum of
the times that `constraints` lists. There is no chance in it: the same pipeline always gives the same times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gdnbench.project.constraints import Constraint, Kind, constraints_of, order_of
from gdnbench.project.pipeline import Pipeline
from gdnbench.project.steady import Steady, steady_state


@dataclass(frozen=True)
class StageUse:
    """What a stage's workers did from the pipeline's begin to its end; the shares add to 1.

    Attributes:
        busy: the share of their time in which they worked.
        waits_input: in which they waited for an input, that of the first item as well.
        waits_room: in which all inputs were there, and they waited for room.
        done: after their last item; all of it, for a worker that gets none.
    """

    busy: float
    waits_input: float
    waits_room: float
    done: float


@dataclass(frozen=True)
class Projection:
    """A pipeline's times.

    Attributes:
        pipeline: what was run.
        steady: its steady state.
        begins_us: by stage, when each item begins.
        uses: by stage.
    """

    pipeline: Pipeline
    steady: Steady
    begins_us: tuple[tuple[float, ...], ...]
    uses: tuple[StageUse, ...]

    @cached_property
    def pipeline_us(self) -> float:
        """From the first item's begin to the last one's end, of one pipeline."""
        return max(max(ends) for ends in self._ends_us)

    @property
    def launch_us(self) -> float:
        """The whole launch: its overhead, and the pipelines that run one after the other."""
        launch = self.pipeline.launch
        return launch.overhead_us + launch.waves * self.pipeline_us

    @cached_property
    def fill_us(self) -> float:
        """Until the first item has left every stage."""
        return max(ends[0] for ends in self._ends_us)

    @cached_property
    def drain_us(self) -> float:
        """From where the stages without inputs are done, but not before the pipeline was full, to the end."""
        sources = [ends for stage, ends in zip(self.pipeline.stages, self._ends_us, strict=True) if not stage.takes]
        begin = max((max(ends) for ends in sources), default=0.0)  # where all are fed back, none is first
        return self.pipeline_us - max(begin, self.fill_us) if sources else 0.0

    @property
    def full_us(self) -> float:
        """Between filling and draining."""
        return max(0.0, self.pipeline_us - self.fill_us - self.drain_us)

    @cached_property
    def _ends_us(self) -> list[list[float]]:
        pairs = zip(self.pipeline.stages, self.begins_us, strict=True)
        return [[begin + stage.time_us for begin in begins] for stage, begins in pairs]


def project(pipeline: Pipeline) -> Projection:
    """Runs a pipeline.

    Raises:
        UsageError: if stages wait for one another for ever.
    """
    steady = steady_state(pipeline)
    constraints = constraints_of(pipeline)
    stages = range(len(pipeline.stages))
    waits = [[each for each in constraints if each.later == stage] for stage in stages]
    order = order_of(pipeline, constraints)
    begins: list[list[float]] = [[] for _ in stages]
    for item in range(pipeline.items):
        for stage in order:
            begins[stage].append(max(0.0, _latest(waits[stage], begins, item)))
    uses = _uses(pipeline, waits, begins)
    return Projection(pipeline, steady, tuple(map(tuple, begins)), uses)


def _latest(waits: list[Constraint], begins: list[list[float]], item: int) -> float:
    """When the last thing that an item waits for is there; 0 if there is none."""
    latest = 0.0
    for each in waits:
        if item >= each.shift:
            there = begins[each.earlier][item - each.shift] + each.time_us
            latest = max(latest, there)
    return latest


def _uses(pipeline: Pipeline, waits: list[list[Constraint]], begins: list[list[float]]) -> tuple[StageUse, ...]:
    """The shares of each stage's time: a worker waits for its inputs, and then for room."""
    pairs = zip(pipeline.stages, begins, strict=True)
    whole_us = max(max(mine) + stage.time_us for stage, mine in pairs)
    uses = []
    for stage, held, mine in zip(pipeline.stages, waits, begins, strict=True):
        kinds = {kind: [each for each in held if each.kind is kind] for kind in Kind}
        waited_input = waited_room = 0.0
        for item, begin in enumerate(mine):
            free = _latest(kinds[Kind.WORKER], begins, item)
            there = max(free, _latest(kinds[Kind.INPUT], begins, item))
            waited_input += there - free
            waited_room += begin - there
        time_us = whole_us * stage.workers
        busy = stage.time_us * pipeline.items
        done = max(0.0, time_us - busy - waited_input - waited_room)
        uses.append(StageUse(busy / time_us, waited_input / time_us, waited_room / time_us, done / time_us))
    return tuple(uses)
