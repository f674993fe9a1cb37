"""The events of a worker, one JSON object a line, as a run's journal keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.model.case import Case
from gdnbench.model.declaration import ParamValue
from gdnbench.model.status import Clock, GateResult, InvarianceResult, LengthMark, Status
from gdnbench.process import channel
from gdnbench.process.events import CaseChecked
from gdnbench.store.schema import MOST_ROUNDS, Microseconds, NotNegative

BURN_IN = 0  # number of the dropped first round
BUILD_STEPS = 10  # limit of a step that compiles, in ordinary steps: torch.compile takes a minute at times
IMPORT_STEPS = 3  # limit of a step that imports a kernel's file, perhaps with a library from a cold disk
IMPORT_STEP = "import"  # the step that runs a kernel's file; its outcome does not depend on the case
AnyRound = Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]  # number of a round; 0 is burn-in
AnyProcess = Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
AnyCount = Annotated[int, Meta(ge=0, lt=1 << 31)]
PlacementNumber = Annotated[int, Meta(ge=0, lt=1 << 31)]


@dataclass(frozen=True)
class Started:
    """The worker's libraries are loaded and its device responds; `sms` and `l2_bytes` are 0 on a CPU."""

    device: str
    sms: int = 0
    l2_bytes: int = 0


@dataclass(frozen=True)
class StepBegun:
    """A step begins; unless another event follows within `limit_s` seconds, the worker hangs."""

    case: str
    step: str
    limit_s: float


@dataclass(frozen=True)
class PassBegun:
    """The rounds of a pass of the task begin, numbered from 0."""

    number: AnyCount


@dataclass(frozen=True)
class Examined:
    """The preflight of a case ended."""

    case: str
    status: Status
    reason: str = ""
    gates: tuple[GateResult, ...] = ()
    launches: int = 0  # kernels that one call launches; 0 if not counted
    launched: tuple[str, ...] = ()
    warm_us: NotNegative = 0.0  # time of a warm call in µs, which decides the number of samples of a round
    poisoned: bool = False  # the process can no longer use its device and ends
    clock: Clock | Literal[""] = ""  # by which it failed; empty for the preflight and the run's own timer
    notes: tuple[str, ...] = ()
    params: dict[str, ParamValue] = field(default_factory=dict)  # of several forms, those to measure
    marks: tuple[LengthMark, ...] = ()  # of sequences, where it was followed along them
    contest_error: float | None = None  # largest on the op's first inputs, in units of the tolerance
    invariance: tuple[InvarianceResult, ...] = ()  # of each kind that was tested


@dataclass(frozen=True)
class Replayed:
    """A program of events was run: as it was given where all hold, else shrunk so that its last event fails."""

    program: str
    status: Status
    reason: str = ""
    gates: tuple[GateResult, ...] = ()  # the worst of each


def checked_event(case: Case, verdict: Examined) -> CaseChecked:
    """Returns the event of progress with a case's verdict."""
    return CaseChecked(case.label, str(case.workload), verdict.status, verdict.reason)


@dataclass(frozen=True)
class Sampled:
    """One round of one case was measured.

    `record` numbers the round's NVBench files, which the parent reads, since no kernel's code runs there; None if the
    times are in the message.
    """

    round: AnyRound
    case: str
    times_us: tuple[Microseconds, ...]  # every sample
    sm_mhz: tuple[NotNegative, ...] = ()  # SM clock during each sample, or once in the round; empty if not measured
    clock: Clock | Literal[""] = ""  # the further clock that took the samples; empty for the run's own timer
    process: AnyProcess = 0  # number of the worker process, from 1; 0 if unknown
    placements: tuple[PlacementNumber, ...] = ()  # of each sample's tensors, from 0
    output_placements: tuple[PlacementNumber, ...] = ()  # the same for outputs that the kernel allocates itself
    checked: AnyCount = 0  # launches that were checked against the oracle
    functions_us: dict[str, NotNegative] = field(default_factory=dict)  # CUPTI's means, if there are several
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


Event = Started | StepBegun | PassBegun | Examined | Replayed | Sampled | HostTimes | Tuned | Refused
KINDS: tuple[type[Event], ...] = (
    *(Started, StepBegun, PassBegun, Examined, Replayed, Sampled, HostTimes, Tuned, Refused),
)
EventChannel = channel.Channel[Event]
"""The worker's end of the channel to its parent; each event restarts the parent's deadline for the next one."""
PreflightVerdicts = dict[str, Examined]  # the preflight's verdict by case id


def encode(event: Event) -> str:
    """Encodes an event as one line of JSON."""
    return channel.encode(event)


def decode(line: str | bytes) -> Event:
    """Decodes a line of `encode`; ValueError if it is not an event, such as one cut off by a dying worker."""
    return channel.decode(line, KINDS)
