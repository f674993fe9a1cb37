"""Runs a command of gdnbench as a separate process, reports its progress, and stops it when its call is cancelled."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from subprocess import PIPE, Popen

import anyio
from anyio import CancelScope, create_task_group, move_on_after, sleep, to_thread, wait_readable

from gdnbench.elsewhere.events import PROGRESS, VARIABLE, JobEvent, NoteMade
from gdnbench.process.channel import decode
from gdnbench.process.command import PYTHON, kill, start
from gdnbench.process.worker import python_path
from gdnbench.tools_server.result import Ended

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

Heard = Callable[[JobEvent], Awaitable[None]]


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


async def _pass_over(_event: JobEvent) -> None:
    """Ignores an event."""


def _descriptors(process: Popen[bytes]) -> tuple[int, int]:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.fileno(), process.stderr.fileno()
