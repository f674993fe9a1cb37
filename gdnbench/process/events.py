"""What a command or a job does, as events: for its progress on stderr, and for the process that started it.

An observer is a function of one event. A command that was started with `VARIABLE` in its environment writes its events
to that descriptor, one line of JSON each, in place of its progress on stderr.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gdnbench.model.status import Status
from gdnbench.process.channel import encode

VARIABLE = "GDNBENCH_EVENTS"
"""The descriptor that a command writes its progress to."""

PHASES = {
    "read": "reading",
    "build": "building",
    "check": "checking",
    "interpret": "interpreting",
    "sanitize": "sanitizing",
    "measure": "measuring",
    "coarse": "first pass",
    "race": "racing",
    "cupti": "reading CUPTI",
    "graph": "replaying graphs",
    "events": "timing by events",
    "inputs": "comparing inputs",
    "profile": "profiling",
    "explain": "explaining",
    "write": "writing",
}
"""The phases of a run or another command, with the words that show them in progress."""


@dataclass(frozen=True)
class PhaseBegun:
    """A phase, one of `PHASES`, of so many units begins."""

    phase: str
    total: int


@dataclass(frozen=True)
class StepChanged:
    """A step is under way, described in a few words."""

    what: str


@dataclass(frozen=True)
class UnitDone:
    """One unit of the phase is done."""


@dataclass(frozen=True)
class RaceStatus:
    """The standing of a race, in a few words."""

    text: str


@dataclass(frozen=True)
class CaseChecked:
    """A case passed or failed its preflight."""

    label: str
    workload: str
    status: Status
    reason: str


@dataclass(frozen=True)
class NoteMade:
    """A fact that the user should know."""

    text: str


@dataclass(frozen=True)
class TextPrinted:
    """Whole lines that the command wrote to a standard stream."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True)
class RunOpened:
    """The folder of a run was made."""

    run_id: str


@dataclass(frozen=True)
class JobEnded:
    """The command has ended with this exit code; the last event. `folders` are paths of what it left in its folder."""

    code: int
    folders: list[str] = field(default_factory=list)


CommandEvent = (
    PhaseBegun | StepChanged | UnitDone | RaceStatus | CaseChecked | NoteMade | TextPrinted | RunOpened | JobEnded
)
PROGRESS: tuple[type[CommandEvent], ...] = (PhaseBegun, StepChanged, UnitDone, RaceStatus, CaseChecked, NoteMade)
EVENTS: tuple[type[CommandEvent], ...] = (*PROGRESS, TextPrinted, RunOpened, JobEnded)

Observer = Callable[[CommandEvent], None]


def ignore(_event: CommandEvent) -> None:
    """Observes nothing."""


class PhaseTimes:
    """Times each phase and passes events on to `observer`; a repeated phase adds up. `clock` returns seconds."""

    def __init__(self, observer: Observer, clock: Callable[[], float] = time.monotonic) -> None:
        self._observer = observer
        self._clock = clock
        self._begun = self._since = clock()
        self._phase = "start"
        self._seconds: dict[str, float] = {}

    def __call__(self, event: CommandEvent) -> None:
        """Observes an event."""
        if isinstance(event, PhaseBegun):
            self.begin(event.phase)
        self._observer(event)

    def begin(self, phase: str) -> None:
        """Begins a phase that nobody else needs to know of."""
        self._close()
        self._phase = phase

    def seconds(self) -> dict[str, float]:
        """Returns the seconds so far by phase, and of `all`."""
        self._close()
        return {**self._seconds, "all": self._clock() - self._begun}

    def _close(self) -> None:
        now = self._clock()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._since = now


def add_seconds(before: Mapping[str, float], seconds: Mapping[str, float]) -> dict[str, float]:
    """The seconds of a run's phases, those before an interruption included, to hundredths."""
    return {phase: round(before.get(phase, 0.0) + seconds.get(phase, 0.0), 2) for phase in {**before, **seconds}}


class EventWriter:
    """An observer that writes each event in one line, unsealed as no kernel runs here; once nobody reads, no more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()  # kernels are checked and interpreted in parallel
        self.is_read = True

    def __call__(self, event: CommandEvent) -> None:
        """Writes an event."""
        line = f"{encode(event)}\n".encode()
        with self._lock:
            try:
                while line and self.is_read:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:
                self.is_read = False


_writer: EventWriter | None = None


def take_events() -> None:
    """Takes the descriptor for events out of the environment: commands that this one starts do not write to it."""
    global _writer  # noqa: PLW0603 - of this process, for its life
    descriptor = int(os.environ.pop(VARIABLE))
    os.set_inheritable(descriptor, False)
    _writer = EventWriter(descriptor)


def event_writer() -> EventWriter | None:
    """Returns the observer that sends this command's events to the process that started it, or None if none reads."""
    return _writer
