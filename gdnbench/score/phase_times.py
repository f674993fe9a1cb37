"""Times the phases of a score."""

from __future__ import annotations

import time
from collections.abc import Callable

from gdnbench.measuring.observer import Observer, PassingObserver


class PhaseTimes(PassingObserver):
    """Times each phase and forwards events to `observer`; a repeated phase adds up. `clock` returns seconds."""

    def __init__(self, observer: Observer, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(observer)
        self._clock = clock
        self._begun = self._since = clock()
        self._phase = "start"
        self._seconds: dict[str, float] = {}

    def seconds(self) -> dict[str, float]:
        """Returns the seconds so far by phase, and of `all`."""
        self._close()
        return {**self._seconds, "all": self._clock() - self._begun}

    def begin(self, phase: str, total: int) -> None:
        """Begins another phase."""
        self._close()
        self._phase = phase
        super().begin(phase, total)

    def _close(self) -> None:
        now = self._clock()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._since = now
