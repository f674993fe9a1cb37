"""What a parent and its worker tell each other: the task, a file; and the events, one JSON object a line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, to_builtins

from gdnbench.codec import convert
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device
from gdnbench.model.params import ParamValue
from gdnbench.model.status import Clock, GateResult, Status
from gdnbench.model.workload import WorkloadSpec
from gdnbench.process import channel
from gdnbench.store.schema import MOST_ROUNDS, Microseconds, NotNegative

BURN_IN = 0  # the number of the round that is dropped
BUILD_STEPS = 10  # a step that compiles may take so many times an ordinary one: torch.compile takes a minute at times
IMPORT_STEPS = 3  # likewise one that imports a kernel's file, and with it perhaps a library from a cold disk
MOST_PLACEMENTS = 32  # of a window
MOST_WINDOW_BYTES = 2 << 30  # one copy of a large batch covers so many pages that it averages by itself
MOST_PLACED_BYTES = 16 << 30  # of a workload's windows together: from B=64 on, fresh windows change nothing
WARM_UPS = MOST_PLACEMENTS + 1
"""Untimed launches before the samples of a round: one more than a window has placements.

The first launch of a measurement on a placement finds none of its address translations (on an H200, FLA at B=8 takes
7 % longer: docs/measuring.md), so samples begin with the second lap.
"""
COLD_TLB_WARM_UPS = 10
CHECK_SHARE = 0.05
"""How much longer rounds may take for the timed launches that are held against the oracle."""
MOST_CHECKED = 2  # launches of a round: each needs room for all tensors of the workload


def window_size(tensor_bytes: int) -> int:
    """At how many placements the tensors of a workload lie in turn within a round.

    Args:
        tensor_bytes: of its inputs and outputs.
    """
    return max(1, min(MOST_PLACEMENTS, MOST_WINDOW_BYTES // max(tensor_bytes, 1)))


def window_count(tensor_bytes: int, window: int, rounds: int, most_bytes: int) -> int:
    """How many windows of placements there are: one for each round while memory lasts.

    Args:
        tensor_bytes: of the workload's inputs and outputs.
        window: placements of a window.
        rounds: of the process, its burn-in included.
        most_bytes: what all of the windows may take.
    """
    return max(1, min(rounds, most_bytes // max(window * tensor_bytes, 1)))


class Phase(StrEnum):
    """The kinds of work."""

    EXAMINE = "examine"  # import, build, verify, launch, capture
    INTERPRET = "interpret"  # verify Triton and CUDA kernels in interpreters
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
        launched: measuring on a GPU only: names of what one call launched when it was checked, by case id.
        plain: measuring on a GPU only: without rotation, scrubbing and dithering.
        cold_tlb: measuring on a GPU only: each sample is the first launch of its round on its placement.
        draw_key: measuring only: what launches find is drawn by it, in all processes of the run alike; a worker takes
            it out of the file before it runs a kernel's code.
        placed_bytes: measuring on a GPU only: memory for the placements of one workload.
        left_alone: measuring only: ids of cases whose launches are neither checked nor get other inputs each time.
        clock: measuring on a GPU only: the further clock to read; None for NVBench.
        record: measuring only: path where the timer leaves its own record.
        forms: examining only: params of each form in which a case is tried, by its id; those to keep if none is
            faster come first.
        scenarios: examining only: those that a case is verified in, by its id; all for one that is not named.
        captured: files of captured inputs, path and SHA-256, by the profile that stands for each.
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
    launched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    plain: bool = False
    cold_tlb: bool = False
    draw_key: str = ""
    placed_bytes: int = 0
    left_alone: tuple[str, ...] = ()
    clock: Clock | None = None
    record: str = ""
    forms: dict[str, tuple[dict[str, ParamValue], ...]] = field(default_factory=dict)
    scenarios: dict[str, tuple[str, ...]] = field(default_factory=dict)
    captured: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def warm_ups(self) -> int:
        """Untimed launches before the samples of a round."""
        return COLD_TLB_WARM_UPS if self.cold_tlb else WARM_UPS

    def is_last(self, position: int) -> bool:
        """Whether the round at a position of `order` is the last of the process."""
        return position == len(self.order) - 1

    def round_number(self, position: int) -> int:
        """The number of the round at a position of `order`: 0 for the burn-in."""
        return BURN_IN if position == 0 else self.first_round + position - 1

    def write(self, path: Path) -> None:
        """Writes the task for a worker to read."""
        document = {
            **vars(self),
            "cases": [case.to_dict() for case in self.cases],
            "workloads": to_builtins(self.cases[0].workload.spec) if self.cases else None,
        }
        path.write_text(json.dumps(document, indent=1))

    @classmethod
    def take(cls, path: Path) -> Task:
        """Reads a task, and takes what no kernel may know out of the file."""
        task = cls.read(path)
        if task.draw_key:
            replace(task, draw_key="").write(path)
        return task

    @classmethod
    def read(cls, path: Path) -> Task:
        """Reads a task."""
        document = json.loads(path.read_text())
        document["phase"] = Phase(document["phase"])
        document["roots"] = tuple(document["roots"])
        spec = document.pop("workloads")
        axes = convert(spec, WorkloadSpec) if spec else None
        document["cases"] = tuple(Case.from_dict(case, axes) for case in document["cases"] if axes)
        document["forms"] = {case_id: tuple(forms) for case_id, forms in document["forms"].items()}
        document["scenarios"] = {case_id: tuple(names) for case_id, names in document["scenarios"].items()}
        document["captured"] = {profile: (path, sha256) for profile, (path, sha256) in document["captured"].items()}
        document["order"] = tuple(tuple(ids) for ids in document["order"])
        document["left_alone"] = tuple(document["left_alone"])
        document["launched"] = {case_id: tuple(names) for case_id, names in document["launched"].items()}
        return cls(**document)


AnyRound = Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
"""0 is burn-in."""
AnyProcess = Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
AnyCount = Annotated[int, Meta(ge=0, lt=1 << 31)]
PlacementNumber = Annotated[int, Meta(ge=0, lt=1 << 31)]


@dataclass(frozen=True)
class Started:
    """The worker's libraries are loaded and its device answers.

    Attributes:
        device: the device's name.
        sms: streaming multiprocessors; 0 on a CPU.
        l2_bytes: L2 cache in bytes; 0 on a CPU.
    """

    device: str
    sms: int = 0
    l2_bytes: int = 0


IMPORT_STEP = "import"
"""The step in which a kernel's file is run; how that ends does not depend on the case."""


@dataclass(frozen=True)
class StepBegun:
    """A step begins; unless another event follows within `limit_s` seconds, the worker hangs."""

    case: str
    step: str
    limit_s: float


@dataclass(frozen=True)
class Examined:
    """The preflight of a case ended.

    Attributes:
        case: the case's id.
        status: OK, or the first failure.
        reason: why, unless OK.
        gates: every gate on every kind of inputs.
        launches: kernels that one call launches; 0 where not counted.
        launched: names of what one call launches, fills and copies included; empty where not known.
        warm_us: time of a warm call, which decides how many samples a round affords.
        poisoned: the process can no longer use its device and ends.
        clock: the further clock that lost the case; empty for the preflight and the run's own timer.
        notes: what was seen that is no failure, a line each.
        params: of a case that was tried in several forms, those of the one to measure; empty for any other.
        contest_error: the largest error on the op's first kind of inputs, in units of the contest's tolerance; None
            where that was not reached.
    """

    case: str
    status: Status
    reason: str = ""
    gates: tuple[GateResult, ...] = ()
    launches: int = 0
    launched: tuple[str, ...] = ()
    warm_us: NotNegative = 0.0
    poisoned: bool = False
    clock: Clock | Literal[""] = ""
    notes: tuple[str, ...] = ()
    params: dict[str, ParamValue] = field(default_factory=dict)
    contest_error: float | None = None


@dataclass(frozen=True)
class Sampled:
    """One round of one case was measured.

    Attributes:
        round: 0 is burn-in.
        case: the case's id.
        times_us: every sample, microseconds.
        sm_mhz: SM clock during each sample, or once in the round; empty where not measured.
        clock: the further clock that took the samples; empty for the run's own timer.
        process: number of the worker process, from 1; 0 where it is not told.
        placements: number of the placement of each sample's tensors, from 0; empty where there are none.
        output_placements: likewise of outputs that the kernel allocates itself; empty where it allocates none.
        checked: how many of the round's launches were held against the oracle.
        functions_us: by CUPTI, where a call launches several functions: the mean time of each by its plain name.
        record: number of the round's files among those of NVBench, which the parent reads: no code of a kernel has run
            there. None where the times are in the message.
    """

    round: AnyRound
    case: str
    times_us: tuple[Microseconds, ...]
    sm_mhz: tuple[NotNegative, ...] = ()
    clock: Clock | Literal[""] = ""
    process: AnyProcess = 0
    placements: tuple[PlacementNumber, ...] = ()
    output_placements: tuple[PlacementNumber, ...] = ()
    checked: AnyCount = 0
    functions_us: dict[str, NotNegative] = field(default_factory=dict)
    record: AnyCount | None = None


@dataclass(frozen=True)
class HostTimes:
    """Time the host takes for a launch, microseconds, by case; known only when the timer is done."""

    cpu_us: dict[str, NotNegative]


@dataclass(frozen=True)
class Tuned:
    """What a tuner chose for a case in the worker's process, a line for each function that is tuned."""

    case: str
    configs: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """The worker cannot do its task at all; the case is not to blame."""

    message: str
    hint: str


Event = Started | StepBegun | Examined | Sampled | HostTimes | Tuned | Refused
KINDS: tuple[type[Event], ...] = (Started, StepBegun, Examined, Sampled, HostTimes, Tuned, Refused)
EventChannel = channel.Channel[Event]
"""The worker's end of what joins it to its parent, whose deadline for the next event starts anew with each event."""


def encode(event: Event) -> str:
    """One line of JSON."""
    return channel.encode(event)


def decode(line: str | bytes) -> Event:
    """The inverse of `encode`.

    Raises:
        ValueError: for a line that is no event, such as one cut off by a dying worker.
    """
    return channel.decode(line, KINDS)


PreflightVerdicts = dict[str, Examined]
"""The preflight's verdict by case id."""
