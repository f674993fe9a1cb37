"""What a worker tells its parent: one JSON object a line, each kind a dataclass."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gdnbench.model import Clock, GateResult, Status


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
    warm_us: float = 0.0
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

    round: int
    case: str
    times_us: tuple[float, ...]
    sm_mhz: tuple[float, ...] = ()
    clock: Clock | Literal[""] = ""


@dataclass(frozen=True)
class HostTimes:
    """Time the host takes for a launch, microseconds, by case; known only when the timer is done."""

    cpu_us: dict[str, float]


@dataclass(frozen=True)
class Refused:
    """The worker cannot do its task at all; the case is not to blame."""

    message: str
    hint: str


Event = Started | Step | Examined | Sampled | HostTimes | Refused
_KINDS = {kind.__name__: kind for kind in (Started, Step, Examined, Sampled, HostTimes, Refused)}


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
        kind = _KINDS[fields.pop("kind")]
        if kind is Examined:
            fields["status"] = Status(fields["status"])
            fields["gates"] = tuple(GateResult(**gate) for gate in fields["gates"])
        if kind is Sampled:
            fields["times_us"], fields["sm_mhz"] = tuple(fields["times_us"]), tuple(fields["sm_mhz"])
        event: Event = kind(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an event: {line[:80]}") from error
    return event


class Channel:
    """The worker's end of the pipe to its parent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, event: Event) -> None:
        """Writes the event whole; the parent's deadline for the next one starts anew."""
        line = (encode(event) + "\n").encode()
        while line:
            line = line[os.write(self._descriptor, line) :]
