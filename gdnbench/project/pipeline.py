"""What a pipeline is: stages that work on items in turn, and buffers of a few slots between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil


@dataclass(frozen=True)
class PhaseTime:
    """Where a stage's time was measured.

    Attributes:
        kernel: the stamped kernel and its workload, `decode-v9 B=1 qk4_v8`.
        gpu: the GPU's name.
        phase: the phase, or several; the time of each is the mean over the warps of all launches that passed it.
        items: how many items a warp passed the phase for; the stage's time is the phase's over these.
        overhead: what stamping added to the kernel's time, as a share of it.
        file: as the pipeline's file names it.
    """

    kernel: str
    gpu: str
    phase: str
    items: int
    overhead: float
    file: str


@dataclass(frozen=True)
class Stage:
    """Workers that do the same to each item.

    Attributes:
        name: unique among stages.
        time_us: of one item on one worker, microseconds.
        workers: they take the items in turn: with two, each has every other item.
        takes: buffers with what an item needs; all of it is there before the stage begins.
        gives: buffers for what it makes; each has room before the stage begins.
        measured: where the time is from; None for a number in the file.
    """

    name: str
    time_us: float
    workers: int = 1
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    measured: PhaseTime | None = None


@dataclass(frozen=True)
class Buffer:
    """A ring of slots between the one stage that fills it and those that take from it.

    A slot is held from the begin of the item in the stage that fills it to the end of the item in the last stage that
    takes it.

    Attributes:
        name: unique among buffers.
        slots: items that it holds.
        filled: slots that are full before the first item: a stage that takes it works on item i with what was given
            for item i - filled. It is 0 but where a later stage gives back to an earlier one.
    """

    name: str
    slots: int
    filled: int = 0


@dataclass(frozen=True)
class Launch:
    """The blocks that have a pipeline each.

    Attributes:
        blocks: in the grid.
        sms: that they run on.
        blocks_per_sm: that run side by side on one.
        overhead_us: once a launch, before and after all blocks.
    """

    blocks: int = 1
    sms: int = 1
    blocks_per_sm: int = 1
    overhead_us: float = 0.0

    @property
    def waves(self) -> int:
        """How many blocks run one after the other where the most do."""
        return ceil(self.blocks / (self.sms * self.blocks_per_sm))


@dataclass(frozen=True)
class Pipeline:
    """Stages and buffers over a loop of items.

    Attributes:
        items: that each pipeline works on.
        stages: in the file's order.
        buffers: each is given by one stage and taken by one or more.
        launch: how many pipelines there are.
        name: what tables call it.
    """

    items: int
    stages: tuple[Stage, ...]
    buffers: tuple[Buffer, ...] = ()
    launch: Launch = Launch()
    name: str = ""

    def giver(self, buffer: str) -> Stage:
        """The stage that fills a buffer."""
        return next(stage for stage in self.stages if buffer in stage.gives)

    def takers(self, buffer: str) -> tuple[Stage, ...]:
        """The stages that take from a buffer."""
        return tuple(stage for stage in self.stages if buffer in stage.takes)

    def with_stage(self, name: str, *, time_us: float | None = None, workers: int | None = None) -> Pipeline:
        """The pipeline with another time or another number of workers of one stage."""
        return replace(
            self,
            stages=tuple(
                replace(
                    stage,
                    time_us=stage.time_us if time_us is None else time_us,
                    workers=stage.workers if workers is None else workers,
                )
                if stage.name == name
                else stage
                for stage in self.stages
            ),
        )

    def with_slots(self, name: str, slots: int) -> Pipeline:
        """The pipeline with another number of slots of one buffer."""
        buffers = (replace(buffer, slots=slots) if buffer.name == name else buffer for buffer in self.buffers)
        return replace(self, buffers=tuple(buffers))
