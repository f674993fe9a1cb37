"""The protocol of parent and worker: the task, a file, and the events, one JSON object a line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, to_builtins

from gdnbench.codec import convert
from gdnbench.model.case import Case
from gdnbench.model.declaration import ParamValue
from gdnbench.model.kernel import Device
from gdnbench.model.status import Clock, GateResult, Status
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.process import channel
from gdnbench.process.events import CaseChecked
from gdnbench.store.schema import MOST_ROUNDS, Microseconds, NotNegative

BURN_IN = 0  # number of the dropped first round
BUILD_STEPS = 10  # limit of a step that compiles, in ordinary steps: torch.compile takes a minute at times
IMPORT_STEPS = 3  # limit of a step that imports a kernel's file, perhaps with a library from a cold disk
MOST_PLACEMENTS = 32  # placements of a window
MOST_WINDOW_BYTES = 2 << 30  # one copy of a large batch covers enough pages to average over them
MOST_PLACED_BYTES = 16 << 30  # all windows of a workload: from B=64 on, fresh windows change nothing
WARM_UPS = MOST_PLACEMENTS + 1
"""Untimed launches before the samples of a round: one more than a window has placements.

The first launch of a measurement on a placement misses all its address translations (on an H200, FLA at B=8 takes 7 %
longer: docs/measuring.md), so samples begin with the second lap.
"""
COLD_TLB_WARM_UPS = 10
CHECK_SHARE = 0.05
"""Relative time that checking timed launches against the oracle may add to the rounds."""
MOST_CHECKED = 2  # checked launches of a round: each needs memory for all tensors of the workload


def window_size(tensor_bytes: int) -> int:
    """Number of placements between which a round's launches alternate, for inputs and outputs of `tensor_bytes`."""
    return max(1, min(MOST_PLACEMENTS, MOST_WINDOW_BYTES // max(tensor_bytes, 1)))


def window_count(tensor_bytes: int, window: int, rounds: int, most_bytes: int) -> int:
    """Number of windows of placements: one for each round while memory lasts.

    The rounds include the process's burn-in; `most_bytes` limits the memory of all windows.
    """
    return max(1, min(rounds, most_bytes // max(window * tensor_bytes, 1)))


class Phase(StrEnum):
    """The kinds of work of a worker."""

    EXAMINE = "examine"  # import, build, verify, launch, capture
    INTERPRET = "interpret"  # verify Triton and CUDA kernels in interpreters
    MEASURE = "measure"  # time


@dataclass(frozen=True)
class Task:
    """One worker's work. The fields from `order` to `record` are for measuring only.

    Attributes:
        step_limit_s: seconds that an ordinary step may take; building and warming up may take several times that.
        order: case ids by round; the first round is burn-in.
        first_round: number of the round that follows the burn-in.
        samples: samples per round, by case id.
        launched: on a GPU, names of the functions that one call launched when checked, by case id.
        plain: on a GPU, without rotation, scrubbing and dithering.
        cold_tlb: on a GPU, each sample is the first launch of its round on its placement.
        draw_key: secret key of the draws of launches' inputs, the same in all processes of the run; a worker removes it
            from the file before it runs a kernel's code.
        placed_bytes: on a GPU, memory for the placements of one workload.
        left_alone: ids of cases whose launches are neither checked nor given other inputs each time.
        clock: on a GPU, the further clock to read; None for NVBench.
        record: path of the timer's own record.
        forms: examining only: params of each form to try, by case id; those to keep if none is faster come first.
        scenarios: examining only: scenarios to verify, by case id; a case without an entry is verified in all.
        captured: path and SHA-256 of captured inputs, by profile.
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
        """Writes the task as JSON."""
        document = {
            **vars(self),
            "cases": [case.to_dict() for case in self.cases],
            "workloads": to_builtins(self.cases[0].workload.spec) if self.cases else None,
        }
        path.write_text(json.dumps(document, indent=1))

    @classmethod
    def take(cls, path: Path) -> Task:
        """Reads a task, and removes from the file what kernels must not read."""
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
"""Number of a round; 0 is burn-in."""
AnyProcess = Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
AnyCount = Annotated[int, Meta(ge=0, lt=1 << 31)]
PlacementNumber = Annotated[int, Meta(ge=0, lt=1 << 31)]


@dataclass(frozen=True)
class Started:
    """The worker's libraries are loaded and its device responds; `sms` and `l2_bytes` are 0 on a CPU."""

    device: str
    sms: int = 0
    l2_bytes: int = 0


IMPORT_STEP = "import"
"""The step that runs a kernel's file; its outcome does not depend on the case."""


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
        status: OK, or the first failure.
        gates: every gate on every kind of inputs.
        launches: kernels that one call launches; 0 if not counted.
        launched: names of what one call launches, fills and copies included; empty if unknown.
        warm_us: time of a warm call in µs, which decides the number of samples of a round.
        poisoned: the process can no longer use its device and ends.
        clock: the further clock by which the case failed; empty for the preflight and the run's own timer.
        notes: observations that are not failures, a line each.
        params: of a case tried in several forms, those of the form to measure; empty for others.
        contest_error: largest error on the op's first kind of inputs, in units of the contest's tolerance; None if that
            was not reached.
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


def checked_event(case: Case, verdict: Examined) -> CaseChecked:
    """Returns the event of progress that tells a case's verdict."""
    return CaseChecked(case.label, str(case.workload), verdict.status, verdict.reason)


@dataclass(frozen=True)
class Sampled:
    """One round of one case was measured.

    Attributes:
        times_us: every sample, µs.
        sm_mhz: SM clock during each sample, or once in the round; empty if not measured.
        clock: the further clock that took the samples; empty for the run's own timer.
        process: number of the worker process, from 1; 0 if unknown.
        placements: number of the placement of each sample's tensors, from 0; empty if there are none.
        output_placements: the same for outputs that the kernel allocates itself.
        checked: number of the round's launches that were checked against the oracle.
        functions_us: CUPTI's mean time by plain name, if a call launches several functions.
        record: number of the round's NVBench files, which the parent reads, since no kernel's code runs there; None if
            the times are in the message.
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
    """Host time of a launch in µs, by case; known only when the timer is done."""

    cpu_us: dict[str, NotNegative]


@dataclass(frozen=True)
class Tuned:
    """A tuner's choice for a case in the worker's process, a line for each tuned function."""

    case: str
    configs: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """The worker cannot do its task at all, through no fault of a case."""

    message: str
    hint: str


Event = Started | StepBegun | Examined | Sampled | HostTimes | Tuned | Refused
KINDS: tuple[type[Event], ...] = (Started, StepBegun, Examined, Sampled, HostTimes, Tuned, Refused)
EventChannel = channel.Channel[Event]
"""The worker's end of the channel to its parent; each event restarts the parent's deadline for the next one."""


def encode(event: Event) -> str:
    """Encodes an event as one line of JSON."""
    return channel.encode(event)


def decode(line: str | bytes) -> Event:
    """Decodes a line of `encode`; raises ValueError if it is not an event, such as one cut off by a dying worker."""
    return channel.decode(line, KINDS)


PreflightVerdicts = dict[str, Examined]
"""The preflight's verdict by case id."""
