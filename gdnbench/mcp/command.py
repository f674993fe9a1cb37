"""Runs a command of gdnbench as a child process, reports its progress, and stops it when its call is cancelled."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from anyio import CancelScope, create_task_group, move_on_after, sleep, sleep_forever, to_thread

from gdnbench.mcp.result import Ended
from gdnbench.process.child import Child
from gdnbench.process.events import (
    PHASES,
    CaseChecked,
    CommandEvent,
    NoteMade,
    Observer,
    PhaseBegun,
    RaceStatus,
    StepChanged,
    TextPrinted,
    UnitDone,
)

STOP_TIMEOUT_S = 60.0
"""Seconds that a command has after Ctrl-C to write what is finished; from another machine it is downloaded first."""

_POLL_S = 0.02
_ENVIRONMENT = {"PYTHONUTF8": "1", "NO_COLOR": "1", "FORCE_COLOR": "", "COLUMNS": "10000"}


class Commands:
    """The running commands."""

    def __init__(self) -> None:
        self._running: set[Child] = set()

    async def run(self, arguments: Sequence[str], observer: Observer) -> Ended:
        """Runs a command to its end; if the caller is cancelled, stops the command first, as Ctrl-C does.

        `observer` gets its progress, in another thread.
        """
        texts: dict[str, list[str]] = {"stdout": [], "stderr": [], "notes": []}

        def observe(event: CommandEvent) -> None:
            match event:
                case TextPrinted(stream, text):
                    texts[stream].append(text)
                case NoteMade(text):
                    texts["notes"].append(text)
                case _:
                    pass
            observer(event)

        child = Child(arguments, observe, environment=_ENVIRONMENT, sends_events=True)
        self._running.add(child)
        try:
            async with create_task_group() as tasks:
                tasks.start_soon(_stop_when_cancelled, child)
                code = await to_thread.run_sync(child.follow)  # returns at the command's end, cancelled or not
                tasks.cancel_scope.cancel()
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(child.close)
            self._running.discard(child)
        return Ended(code, "".join(texts["stdout"]), "".join(texts["stderr"]), tuple(texts["notes"]))

    async def settle(self) -> None:
        """Waits until stopped commands have written their results: the next call may need them."""
        while any(child.is_interrupted for child in self._running):
            await sleep(_POLL_S)

    async def stop(self) -> None:
        """Stops all commands and waits until the callers of `run` have seen them end."""
        for child in self._running:
            child.interrupt()
        with move_on_after(STOP_TIMEOUT_S):
            while self._running:
                await sleep(_POLL_S)


async def _stop_when_cancelled(child: Child) -> None:
    try:
        await sleep_forever()
    finally:
        child.interrupt()
        with move_on_after(STOP_TIMEOUT_S, shield=True):
            while not child.has_ended:
                await sleep(_POLL_S)
        if not child.has_ended:
            with CancelScope(shield=True):
                await to_thread.run_sync(child.kill)


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
        self._has_changed = False
        self._urgent: deque[str] = deque()
        self._sent, self._sent_s = 0.0, float("-inf")

    def observe(self, event: CommandEvent) -> None:
        """Takes an event of the command, from any thread."""
        match event:
            case PhaseBegun(phase, total):
                self._phase, self._phase_total, self._phase_done, self._step = phase, total, 0, ""
                self._urgent.append(self._message)
            case StepChanged(text) | RaceStatus(text):
                self._step = text
            case UnitDone():
                self._done += 1
                self._phase_done += 1
            case NoteMade(text):
                self._urgent.append(text)
            case CaseChecked(label, workload, status, reason) if status.is_failure:
                self._urgent.append(f"{status}: {label} {workload}: {reason.partition(chr(10))[0]}")
            case _:
                return
        self._has_changed = True

    async def keep_reporting(self) -> None:
        """Notifies the client, for ever: at once of what is urgent, else at intervals, and that work goes on."""
        begun_s = time.monotonic()
        while True:
            await self.report_now()
            silent_s = time.monotonic() - self._sent_s
            if self._has_changed and silent_s > INTERVAL_S:
                await self._send(self._message)
            elif min(silent_s, time.monotonic() - begun_s) > _SILENCE_S:
                await self._send(f"{self._message or 'at work'} ({time.monotonic() - begun_s:.0f} s)")
            await sleep(_POLL_S)

    async def report_now(self) -> None:
        """Sends what is urgent."""
        while self._urgent:
            await self._send(self._urgent.popleft())

    async def _send(self, message: str) -> None:
        self._has_changed = False
        self._sent = max(float(self._done), round(self._sent + _LITTLE, 3))
        self._sent_s = time.monotonic()
        left = max(0, self._phase_total - self._phase_done)
        await self._report(self._sent, self._done + left if left else None, message)

    @property
    def _message(self) -> str:
        count = f" {self._phase_done} of {self._phase_total}" if self._phase_total else ""
        phase = f"{PHASES.get(self._phase, self._phase)}{count}"
        return ": ".join(filter(None, [phase, self._step]))
