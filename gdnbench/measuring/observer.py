"""Who watches a run, and the lock that keeps other processes of gdnbench off its GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdnbench.machine.lock import gpu_lock
from gdnbench.measuring.protocol import Examined
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
"""The phases that a run, or another command, may have, and what each is called while it lasts."""


class Observer:
    """Hooks of a run, in the order in which they are called."""

    def begin(self, phase: str, total: int) -> None:
        """A phase of so many units begins, one of `PHASES`."""

    def step(self, what: str) -> None:
        """Something is under way, in a few words."""

    def advance(self) -> None:
        """One unit of the phase is done."""

    def standing(self, text: str) -> None:
        """How a race stands, in a few words."""

    def examined(self, case: Case, result: Examined) -> None:
        """A case passed or failed its preflight."""

    def judged(self, label: str, workload: str, status: Status, reason: str) -> None:
        """As `examined`, of a case in words: it was examined on another machine."""

    def note(self, text: str) -> None:
        """Something that the user should know."""


class PassingObserver(Observer):
    """Passes on all that it is told; what derives from it changes a part of that.

    Args:
        observer: to pass it on to.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def begin(self, phase: str, total: int) -> None:
        """Passed on."""
        self._observer.begin(phase, total)

    def step(self, what: str) -> None:
        """Passed on."""
        self._observer.step(what)

    def advance(self) -> None:
        """Passed on."""
        self._observer.advance()

    def standing(self, text: str) -> None:
        """Passed on."""
        self._observer.standing(text)

    def examined(self, case: Case, result: Examined) -> None:
        """Passed on."""
        self._observer.examined(case, result)

    def judged(self, label: str, workload: str, status: Status, reason: str) -> None:
        """Passed on."""
        self._observer.judged(label, workload, status, reason)

    def note(self, text: str) -> None:
        """Passed on."""
        self._observer.note(text)


@contextmanager
def alone_on(gpu: Gpu | None, observer: Observer) -> Iterator[None]:
    """Holds the GPU, or the CPU if there is none, against every other gdnbench process of this machine.

    Raises:
        MachineError: the lock file cannot be opened.
    """
    with gpu_lock(gpu, lambda: observer.note("another gdnbench is measuring here; waiting for it to finish")):
        yield
