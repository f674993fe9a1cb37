"""Reports a command's progress to a client, from the phases that the command reports."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from anyio import sleep

from gdnbench.elsewhere.events import JobEvent, PhaseBegun, deliver
from gdnbench.measuring.observer import PHASES
from gdnbench.model.status import Status

INTERVAL_S = 0.5
"""Seconds between notifications; a new phase, a failure and a note are sent at once."""

_SILENCE_S = 10.0  # after which the client gets a sign of life: some clients give up on silent servers
_LITTLE = 1e-3
Report = Callable[[float, float | None, str], Awaitable[None]]


class Progress:
    """Counts units of work over all phases of a command; reports progress, the total as far as known, and a message.

    The protocol requires each notification's progress to grow: if no unit was finished, it grows by a little.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._done = self._phase_done = self._phase_total = 0
        self._phase = ""
        self._step = ""
        self._urgent = ""
        self._told, self._told_s = 0.0, float("-inf")

    async def heard(self, event: JobEvent) -> None:
        """Handles an event of the command, and notifies the client unless it was notified just now."""
        deliver(event, self)
        if isinstance(event, PhaseBegun) or self._urgent or time.monotonic() - self._told_s > INTERVAL_S:
            await self._tell()

    async def say(self, text: str) -> None:
        """Sends the client a text now."""
        self.note(text)
        await self._tell()

    async def keep_telling(self) -> None:
        """Notifies the client every few seconds, for ever, that the command is still at work."""
        begun_s = time.monotonic()
        while True:
            await sleep(_SILENCE_S / 4)
            if (now_s := time.monotonic()) - self._told_s > _SILENCE_S:
                self._urgent = f"{self._message or 'at work'} ({now_s - begun_s:.0f} s)"
                await self._tell()

    async def _tell(self) -> None:
        self._told = max(float(self._done), round(self._told + _LITTLE, 3))
        left = max(0, self._phase_total - self._phase_done)
        total = self._done + left if left else None
        message, self._urgent = self._urgent or self._message, ""
        self._told_s = time.monotonic()
        await self._report(self._told, total, message)

    @property
    def _message(self) -> str:
        count = f" {self._phase_done} of {self._phase_total}" if self._phase_total else ""
        where = f"{PHASES.get(self._phase, self._phase)}{count}"
        return ": ".join(filter(None, [where, self._step]))

    def begin(self, phase: str, total: int) -> None:
        """Begins a phase of so many units."""
        self._phase, self._phase_total, self._phase_done, self._step = phase, total, 0, ""

    def step(self, what: str) -> None:
        """Sets the current step."""
        self._step = what

    def advance(self) -> None:
        """Counts one unit as done."""
        self._done += 1
        self._phase_done += 1

    def standing(self, text: str) -> None:
        """Sets the standing of a race."""
        self._step = text

    def note(self, text: str) -> None:
        """Sets a note for the user."""
        self._urgent = text

    def judged(self, label: str, workload: str, status: Status, reason: str) -> None:
        """Notes a failed preflight of a case."""
        if status.is_failure:
            self._urgent = f"{status}: {label} {workload}: {reason.partition(chr(10))[0]}"
