"""How long the phases of a score take."""

from __future__ import annotations

import time
from collections.abc import Callable

from gdnbench.measuring.observer import Observer
from gdnbench.measuring.protocol import Examined
from gdnbench.model.case import Case


class PhaseClock(Observer):
    """Passes on what it is told, and takes the time of each phase; one that comes again is added up.

    Args:
        observer: to pass it on to.
        clock: seconds.
    """

    def __init__(self, observer: Observer, clock: Callable[[], float] = time.monotonic) -> None:
        self._observer = observer
        self._clock = clock
        self._begun = self._since = clock()
        self._phase = "start"
        self._seconds: dict[str, float] = {}

    def seconds(self) -> dict[str, float]:
        """By phase so far, and `all`."""
        self._close()
        return {**self._seconds, "all": self._clock() - self._begun}

    def begin(self, phase: str, total: int) -> None:
        """Another phase begins."""
        self._close()
        self._phase = phase
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

    def note(self, text: str) -> None:
        """Passed on."""
        self._observer.note(text)

    def _close(self) -> None:
        now = self._clock()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._since = now
