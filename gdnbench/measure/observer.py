"""The observer of a run, and the lock that keeps other gdnbench processes off its GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdnbench.machine.gpus import gpu_lock
from gdnbench.measure.protocol import Examined
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status

PHASES = {
    "build": "building",
    "check": "checking",
    "interpret": "interpreting",
    "sanitize": "sanitizing",
    "measure": "measuring",
    "coarse": "first pass",
    "race": "racing",
    "cupti": "reading CUPTI",
    "graph": "replaying graphs",
    "inputs": "comparing inputs",
    "profile": "profiling",
    "explain": "explaining",
}
"""The phases of a run or another command, with the words that show them in progress."""


class Observer:
    """Hooks of a run, in the order in which they are called."""

    def begin(self, phase: str, total: int) -> None:
        """A phase, one of `PHASES`, of so many units begins."""

    def step(self, what: str) -> None:
        """A step is under way, described in a few words."""

    def advance(self) -> None:
        """One unit of the phase is done."""

    def standing(self, text: str) -> None:
        """The standing of a race, in a few words."""

    def examined(self, case: Case, result: Examined) -> None:
        """A case passed or failed its preflight."""

    def judged(self, label: str, workload: str, status: Status, reason: str) -> None:
        """A case, in words, passed or failed its preflight on another machine."""

    def note(self, text: str) -> None:
        """A fact that the user should know."""


class PassingObserver(Observer):
    """Forwards every call to another observer; subclasses change some of them."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def begin(self, phase: str, total: int) -> None:
        """Forwards the call."""
        self._observer.begin(phase, total)

    def step(self, what: str) -> None:
        """Forwards the call."""
        self._observer.step(what)

    def advance(self) -> None:
        """Forwards the call."""
        self._observer.advance()

    def standing(self, text: str) -> None:
        """Forwards the call."""
        self._observer.standing(text)

    def examined(self, case: Case, result: Examined) -> None:
        """Forwards the call."""
        self._observer.examined(case, result)

    def judged(self, label: str, workload: str, status: Status, reason: str) -> None:
        """Forwards the call."""
        self._observer.judged(label, workload, status, reason)

    def note(self, text: str) -> None:
        """Forwards the call."""
        self._observer.note(text)


@contextmanager
def alone_on(gpu: Gpu | None, observer: Observer) -> Iterator[None]:
    """Holds the GPU, or else the CPU, against other gdnbench processes; raises MachineError if it cannot lock it."""
    with gpu_lock(gpu, lambda: observer.note("another gdnbench is measuring here; waiting for it to finish")):
        yield
