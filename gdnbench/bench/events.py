"""What a worker tells its parent: one JSON object a line, each kind a dataclass."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from gdnbench.codec import SchemaError, convert
from gdnbench.model import Clock, GateResult, Status
from gdnbench.store.schema import MOST_ROUNDS, Microseconds, NotNegative

AnyRound = Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
"""0 is burn-in."""


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
class Step:
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
        warm_us: time of a warm call, which decides how many samples a round affords.
        poisoned: the process can no longer use its device and ends.
        clock: the further clock that lost the case; empty for the preflight and the run's own timer.
    """

    case: str
    status: Status
    reason: str = ""
    gates: tuple[GateResult, ...] = ()
    launches: int = 0
    warm_us: NotNegative = 0.0
    poisoned: bool = False
    clock: Clock | Literal[""] = ""


@dataclass(frozen=True)
class Sampled:
    """One round of one case was measured.

    Attributes:
        round: 0 is burn-in.
        case: the case's id.
        times_us: every sample, microseconds.
        sm_mhz: SM clock during each sample, or once in the round; empty where not measured.
        clock: the further clock that took the samples; empty for the run's own timer.
    """

    round: AnyRound
    case: str
    times_us: tuple[Microseconds, ...]
    sm_mhz: tuple[NotNegative, ...] = ()
    clock: Clock | Literal[""] = ""


@dataclass(frozen=True)
class HostTimes:
    """Time the host takes for a launch, microseconds, by case; known only when the timer is done."""

    cpu_us: dict[str, NotNegative]


@dataclass(frozen=True)
class Refused:
    """The worker cannot do its task at all; the case is not to blame."""

    message: str
    hint: str


Event = Started | Step | Examined | Sampled | HostTimes | Refused
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Started, Step, Examined, Sampled, HostTimes, Refused)}


def encode(event: Event) -> str:
    """One line of JSON."""
    return json.dumps({"kind": type(event).__name__, **asdict(event)}, separators=(",", ":"))


def decode(line: str) -> Event:
    """The inverse of `encode`.

    Raises:
        ValueError: for a line that is no event, such as one cut off by a dying worker.
    """
    try:
        fields: dict[str, Any] = json.loads(line)
        kind: type[Event] = _KINDS[fields.pop("kind")]
        return convert(fields, kind)
    except (SchemaError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not an event: {line[:80]}") from error


class Channel:
    """The worker's end of the pipe to its parent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, event: Event) -> None:
        """Writes the event whole; the parent's deadline for the next one starts anew."""
        line = (encode(event) + "\n").encode()
        while line:
            line = line[os.write(self._descriptor, line) :]
