"""What a command tells whoever started it, and a worker elsewhere of its command: one line of JSON each."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field
from typing import Literal, Protocol

from gdnbench.machine.observer import Observer
from gdnbench.model.case import Case
from gdnbench.model.status import Status
from gdnbench.origin import command_origin
from gdnbench.process.channel import encode
from gdnbench.store.journal import Examined

VARIABLE = "GDNBENCH_EVENTS"
"""The descriptor that a command writes its progress to."""


@dataclass(frozen=True)
class PhaseBegun:
    """A phase of so many units begins."""

    phase: str
    total: int


@dataclass(frozen=True)
class StepTold:
    """Something is under way, in a few words."""

    what: str


@dataclass(frozen=True)
class UnitDone:
    """One unit of the phase is done."""


@dataclass(frozen=True)
class RaceStanding:
    """How a race stands, in a few words."""

    text: str


@dataclass(frozen=True)
class CaseJudged:
    """A case passed or failed its preflight."""

    label: str
    workload: str
    status: Status
    reason: str


@dataclass(frozen=True)
class NoteMade:
    """Something that the user should know."""

    text: str


@dataclass(frozen=True)
class TextPrinted:
    """What the command wrote to a standard stream."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True)
class RunOpened:
    """A run's folder was begun."""

    run_id: str


@dataclass(frozen=True)
class JobEnded:
    """The command has ended; nothing follows.

    Attributes:
        code: its exit code.
        folders: what it left in its folder, by path from there: runs and files.
    """

    code: int
    folders: list[str] = field(default_factory=list)


JobEvent = PhaseBegun | StepTold | UnitDone | RaceStanding | CaseJudged | NoteMade | TextPrinted | RunOpened | JobEnded
PROGRESS: tuple[type[JobEvent], ...] = (PhaseBegun, StepTold, UnitDone, RaceStanding, CaseJudged, NoteMade)
EVENTS: tuple[type[JobEvent], ...] = (*PROGRESS, TextPrinted, RunOpened, JobEnded)


class Listener(Protocol):
    """Who is told of a job's progress: the hooks of an `Observer`, with cases in words."""

    def begin(self, phase: str, total: int) -> None:
        """A phase of so many units begins."""

    def step(self, what: str) -> None:
        """Something is under way."""

    def advance(self) -> None:
        """One unit is done."""

    def standing(self, text: str) -> None:
        """How a race stands."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def judged(self, label: str, workload: str, status: Status, reason: str) -> None:
        """A case passed or failed its preflight."""


def deliver(event: JobEvent, listener: Listener) -> None:
    """Tells a listener of progress; other events are passed over."""
    match event:
        case PhaseBegun(phase, total):
            listener.begin(phase, total)
        case StepTold(what):
            listener.step(what)
        case UnitDone():
            listener.advance()
        case RaceStanding(text):
            listener.standing(text)
        case NoteMade(text):
            listener.note(text)
        case CaseJudged(label, workload, status, reason):
            listener.judged(label, workload, status, reason)


def write_event(descriptor: int, event: JobEvent) -> None:
    """Writes an event whole, in one line. It needs no seal: no kernel runs in a process that has the descriptor.

    Raises:
        OSError: if nobody reads it.
    """
    line = f"{encode(event)}\n".encode()
    while line:
        line = line[os.write(descriptor, line) :]


class EventObserver(Observer):
    """Sends what a run's hooks are told; it blocks where nobody reads, and is silent where nobody is left to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()  # kernels are examined and interpreted at once

    def begin(self, phase: str, total: int) -> None:
        """Sends the phase that begins."""
        self._send(PhaseBegun(phase, total))

    def step(self, what: str) -> None:
        """Sends the current step."""
        self._send(StepTold(what))

    def advance(self) -> None:
        """Sends that a unit is done."""
        self._send(UnitDone())

    def standing(self, text: str) -> None:
        """Sends the state of the race."""
        self._send(RaceStanding(text))

    def examined(self, case: Case, result: Examined) -> None:
        """Sends a case's verdict."""
        self.judged(case.label, str(case.workload), result.status, result.reason)

    def judged(self, label: str, workload: str, status: Status, reason: str) -> None:
        """As `examined`, of a case in words."""
        self._send(CaseJudged(label, workload, status, reason))

    def note(self, text: str) -> None:
        """Sends a note."""
        self._send(NoteMade(text))

    def _send(self, event: JobEvent) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            write_event(self._descriptor, event)


_descriptor: int | None = None


def take_events() -> None:
    """Takes the descriptor for events out of the environment: commands that this one starts do not write to it."""
    global _descriptor  # noqa: PLW0603 - of this process, for its life
    _descriptor = int(os.environ.pop(VARIABLE))
    os.set_inheritable(_descriptor, False)


def event_observer() -> EventObserver | None:
    """Who sends this command's progress; None where nobody asked for it."""
    return None if _descriptor is None else EventObserver(_descriptor)


def is_a_job() -> bool:
    """Whether this command is a job's: then it runs here, wherever `gdnbench.toml` would send it."""
    return command_origin() is not None
