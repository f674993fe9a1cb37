"""Runs a command of gdnbench as a separate process, reports its progress, and stops it when its call is cancelled."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from subprocess import PIPE, Popen

import anyio
from anyio import CancelScope, create_task_group, move_on_after, sleep, to_thread, wait_readable

from gdnbench.mcp.result import Ended
from gdnbench.process.channel import decode
from gdnbench.process.command import PYTHON, kill, start
from gdnbench.process.events import (
    PHASES,
    PROGRESS,
    VARIABLE,
    CaseChecked,
    CommandEvent,
    NoteMade,
    PhaseBegun,
    RaceStatus,
    StepChanged,
    UnitDone,
)
from gdnbench.process.worker import python_path

PATIENCE_S = 60.0
"""Seconds that a command has after Ctrl-C to write what is finished; from another machine it is downloaded first."""

_POLL_S = 0.02
_LATE_S = 1.0  # for child processes of the command that keep its streams open
_CHUNK = 1 << 16
_ENVIRONMENT = {"PYTHONUTF8": "1", "NO_COLOR": "1", "FORCE_COLOR": "", "COLUMNS": "10000"}

_CHILD = (
    "import os, sys; from gdnbench.process.worker import die_with_parent; die_with_parent(); "
    "os.getppid() == {server} or sys.exit(1); "  # the server may have died before
    "sys.argv[0] = 'gdnbench'; from gdnbench.__main__ import main; sys.exit(main())"
)
"""The command line, killed with the server: otherwise a cancelled run would keep its GPU."""

Heard = Callable[[CommandEvent], Awaitable[None]]


class Commands:
    """The running commands, as processes in `running`."""

    def __init__(self) -> None:
        self.running: set[Command] = set()

    async def run(self, words: Sequence[str], heard: Heard) -> Ended:
        """Runs the words behind `gdnbench`; if the caller is cancelled, stops the command first, as Ctrl-C does.

        `heard` receives its progress. Raises OSError if it cannot be started.
        """
        command = Command(words, heard)
        self.running.add(command)
        try:
            await command.follow()
        except anyio.get_cancelled_exc_class():
            with CancelScope(shield=True):
                await command.stop()
            raise
        finally:
            with CancelScope(shield=True):
                await command.close()
            self.running.discard(command)
        return command.ended

    async def settle(self) -> None:
        """Waits until stopped commands have written their results: the next call may need them."""
        while any(command.is_stopped for command in self.running):
            await sleep(_POLL_S)

    async def stop(self) -> None:
        """Stops all commands and waits until the callers of `run` have seen them end."""
        for command in self.running:
            command.interrupt()
        with move_on_after(PATIENCE_S):
            while self.running:
                await sleep(_POLL_S)


class Command:
    """A running command, made of the words behind `gdnbench`; `heard` receives its progress."""

    def __init__(self, words: Sequence[str], heard: Heard) -> None:
        self._heard = heard
        self._notes: list[str] = []
        self.is_stopped = False
        self._events, theirs = os.pipe()
        try:
            self._process = start(
                [*PYTHON, "-c", _CHILD.format(server=os.getpid()), *words],
                environment={**_ENVIRONMENT, "PYTHONPATH": python_path(), VARIABLE: str(theirs)},
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=[theirs],
            )
        except BaseException:
            os.close(self._events)
            raise
        finally:
            os.close(theirs)
        self._output, self._errors = _descriptors(self._process)
        self._texts = dict.fromkeys((self._output, self._errors, self._events), b"")
        self._open = set(self._texts)

    @property
    def ended(self) -> Ended:
        """Result of the ended command."""
        output, errors = (self._texts[each].decode(errors="replace") for each in (self._output, self._errors))
        return Ended(self._process.returncode, output, errors, tuple(self._notes))

    async def follow(self) -> None:
        """Reads the command's output until it has ended; may be called again after it was cancelled."""
        async with create_task_group() as outer:
            outer.start_soon(self._leave_what_stays_open, outer.cancel_scope)
            async with create_task_group() as readers:
                for descriptor in self._open:
                    readers.start_soon(self._read, descriptor)
            outer.cancel_scope.cancel()
        while self._process.poll() is None:
            await sleep(_POLL_S)

    def interrupt(self) -> None:
        """Sends Ctrl-C to the command alone, which stops its workers; a second would keep it from saving results."""
        if not self.is_stopped and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self.is_stopped = True

    async def stop(self) -> None:
        """Interrupts the command and waits until it has ended; reports no more progress."""
        self._heard = _pass_over
        self.interrupt()
        with move_on_after(PATIENCE_S):
            await self.follow()

    async def close(self) -> None:
        """Kills what is left of the command."""
        await to_thread.run_sync(kill, self._process)
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        with suppress(OSError):
            os.close(self._events)

    async def _leave_what_stays_open(self, scope: CancelScope) -> None:
        while self._process.poll() is None:
            await sleep(_POLL_S)
        await sleep(_LATE_S)
        scope.cancel()

    async def _read(self, descriptor: int) -> None:
        while descriptor in self._open:
            await wait_readable(descriptor)
            chunk = os.read(descriptor, _CHUNK)
            self._texts[descriptor] += chunk
            if not chunk:
                self._open.discard(descriptor)
            if descriptor == self._events:
                await self._tell()

    async def _tell(self) -> None:
        *lines, self._texts[self._events] = self._texts[self._events].split(b"\n")
        for line in lines:
            with suppress(ValueError):
                event = decode(line, PROGRESS)
                if isinstance(event, NoteMade):
                    self._notes.append(event.text)
                await self._heard(event)


async def _pass_over(_event: CommandEvent) -> None:
    """Ignores an event."""


def _descriptors(process: Popen[bytes]) -> tuple[int, int]:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.fileno(), process.stderr.fileno()


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

    async def heard(self, event: CommandEvent) -> None:
        """Handles an event of the command, and notifies the client unless it was notified just now."""
        self._take(event)
        if isinstance(event, PhaseBegun) or self._urgent or time.monotonic() - self._told_s > INTERVAL_S:
            await self._tell()

    async def say(self, text: str) -> None:
        """Sends the client a text now."""
        self._urgent = text
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

    def _take(self, event: CommandEvent) -> None:
        match event:
            case PhaseBegun(phase, total):
                self._phase, self._phase_total, self._phase_done, self._step = phase, total, 0, ""
            case StepChanged(text) | RaceStatus(text):
                self._step = text
            case UnitDone():
                self._done += 1
                self._phase_done += 1
            case NoteMade(text):
                self._urgent = text
            case CaseChecked(label, workload, status, reason) if status.is_failure:
                self._urgent = f"{status}: {label} {workload}: {reason.partition(chr(10))[0]}"
            case _:
                pass
