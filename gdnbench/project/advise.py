"""What would help: each change to a pipeline, run on paper like the pipeline itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gdnbench.project.pipeline import Pipeline
from gdnbench.project.simulate import Projection, project

FASTER = (0.10, 0.25)
"""By which shares each stage's time is cut."""

_NOTHING = 1e-9
"""A gain below this share is rounding."""


class Lever(StrEnum):
    """What is changed."""

    FASTER = "faster"
    WORKER = "worker"
    SLOT = "slot"


@dataclass(frozen=True)
class Change:
    """One change, and what it does.

    Attributes:
        lever: what is changed.
        subject: the stage or the buffer.
        cut: the share by which a stage's time is cut; 0 for the other levers.
        before_us: the launch as it is.
        launch_us: the launch with the change.
        item_us: an item in the steady state, with it.
    """

    lever: Lever
    subject: str
    cut: float
    before_us: float
    launch_us: float
    item_us: float

    @property
    def gain(self) -> float:
        """The share of the launch's time that it saves; rounding is none."""
        saved = 1 - self.launch_us / self.before_us
        return saved if abs(saved) > _NOTHING else 0.0

    @property
    def helps(self) -> bool:
        """Whether it saves time."""
        return self.gain > 0

    @property
    def told(self) -> str:
        """In words: `load 25% faster`, `another worker for load`, `another slot in tiles`."""
        match self.lever:
            case Lever.FASTER:
                return f"{self.subject} {self.cut:.0%} faster"
            case Lever.WORKER:
                return f"another worker for {self.subject}"
            case Lever.SLOT:
                return f"another slot in {self.subject}"


def advise(projection: Projection) -> list[Change]:
    """Every change, the one that saves the most first; those that save as much in the pipeline's order."""
    changes = []
    for lever, subject, cut, changed in _changes(projection.pipeline):
        tried = project(changed)
        changes.append(Change(lever, subject, cut, projection.launch_us, tried.launch_us, tried.steady.item_us))
    return sorted(changes, key=lambda change: -round(change.gain, 9))


def _changes(pipeline: Pipeline) -> Iterator[tuple[Lever, str, float, Pipeline]]:
    for stage in pipeline.stages:
        for cut in FASTER:
            yield Lever.FASTER, stage.name, cut, pipeline.with_stage(stage.name, time_us=stage.time_us * (1 - cut))
        yield Lever.WORKER, stage.name, 0.0, pipeline.with_stage(stage.name, workers=stage.workers + 1)
    for buffer in pipeline.buffers:
        yield Lever.SLOT, buffer.name, 0.0, pipeline.with_slots(buffer.name, buffer.slots + 1)
