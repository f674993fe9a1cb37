"""What one worker is to do, as a file that it reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gdnbench.model import Case, Clock, Device

BURN_IN = 0  # the number of the round that is dropped
BUILD_STEPS = 10  # a step that compiles may take so many times an ordinary one: torch.compile takes a minute at times
IMPORT_STEPS = 3  # likewise one that imports a kernel's file, and with it perhaps a library from a cold disk
COLD_WARM_UPS = 10  # untimed launches before the samples of a round; the burn-in round has done the rest


class Phase(StrEnum):
    """The kinds of work."""

    EXAMINE = "examine"  # import, build, verify, launch, capture
    INTERPRET = "interpret"  # verify Triton kernels in Triton's interpreter
    MEASURE = "measure"  # time


@dataclass(frozen=True)
class Task:
    """One worker's work.

    Attributes:
        phase: the kind of work.
        device: where.
        roots: the catalog's folders.
        op: the op's name.
        cases: what to work on, in order.
        seed: of all inputs.
        step_limit_s: seconds that an ordinary step may take; building and warming up may take several times that.
        order: measuring only: case ids by round; the first round is burn-in.
        first_round: measuring only: number of the round that follows the burn-in.
        samples: measuring only: samples per round, by case id.
        plain: measuring on a GPU only: without rotation, scrubbing and dithering.
        clock: measuring on a GPU only: the further clock to read; None for NVBench.
        record: measuring only: path where the timer leaves its own record.
    """

    phase: Phase
    device: Device
    roots: tuple[str, ...]
    op: str
    cases: tuple[Case, ...]
    seed: int
    step_limit_s: float
    order: tuple[tuple[str, ...], ...] = ()
    first_round: int = 1
    samples: dict[str, int] = field(default_factory=dict)
    plain: bool = False
    clock: Clock | None = None
    record: str = ""

    def round_number(self, position: int) -> int:
        """The number of the round at a position of `order`: 0 for the burn-in."""
        return BURN_IN if position == 0 else self.first_round + position - 1

    def write(self, path: Path) -> None:
        """Writes the task for a worker to read."""
        document = {**vars(self), "cases": [case.to_dict() for case in self.cases]}
        path.write_text(json.dumps(document, indent=1))

    @classmethod
    def read(cls, path: Path) -> Task:
        """Reads a task."""
        document = json.loads(path.read_text())
        document["phase"] = Phase(document["phase"])
        document["roots"] = tuple(document["roots"])
        document["cases"] = tuple(Case.from_dict(case) for case in document["cases"])
        document["order"] = tuple(tuple(ids) for ids in document["order"])
        return cls(**document)
