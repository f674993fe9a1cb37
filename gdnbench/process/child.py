"""A gdnbench command as a child process: it dies with this process, and Ctrl-C stops it as it would in a terminal."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, TimeoutExpired
from typing import Literal

from gdnbench.errors import ExitCode
from gdnbench.process.channel import decode
from gdnbench.process.command import PYTHON, kill, start
from gdnbench.process.events import PROGRESS, VARIABLE, Observer, TextPrinted
from gdnbench.process.worker import python_path

_POLL_S = 0.1
_LATE_S = 1.0  # for processes that the command started and that keep its streams open
_CHUNK = 1 << 16
_STREAMS: tuple[Literal["stdout"], Literal["stderr"]] = ("stdout", "stderr")

_COMMAND_LINE = """
import os, signal, sys
from gdnbench.process.worker import die_with_parent
die_with_parent()
if os.getppid() != parent:  # it died before
    sys.exit(1)
if ignores_sigterm:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if folder:
    os.chdir(folder)
sys.argv[0] = "gdnbench"
from gdnbench.__main__ import main
sys.exit(main())
"""


def child_command(arguments: Iterable[str], *, folder: Path | None = None, ignores_sigterm: bool = False) -> list[str]:
    """Returns the command that runs this gdnbench with `arguments`, the verb first, until this process ends."""
    own = f"parent, folder, ignores_sigterm = {os.getpid()}, {str(folder or '')!r}, {ignores_sigterm}"
    return [*PYTHON, "-c", own + _COMMAND_LINE, *arguments]


class Child:
    """A running command; `observer` gets the lines that it prints and, with `sends_events`, its progress.

    It dies with the thread that started it. `environment` is added to this process's; `cores` are the logical cores of
    it and of all that it starts. With `ignores_sigterm` SIGTERM does not stop it: a queue that ends a job sends it to
    every process, and this one passes it on. Raises OSError if it cannot be started.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        observer: Observer,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        cores: frozenset[int] | None = None,
        ignores_sigterm: bool = False,
        sends_events: bool = False,
    ) -> None:
        self._observer = observer
        self.is_interrupted = False
        events, theirs = os.pipe() if sends_events else (-1, -1)
        try:
            self._process = start(
                child_command(arguments, folder=folder, ignores_sigterm=ignores_sigterm),
                environment={"PYTHONPATH": python_path(), **(environment or {})}
                | ({VARIABLE: str(theirs)} if sends_events else {}),
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=[theirs] if sends_events else [],
            )
        except BaseException:
            if sends_events:
                os.close(events)
            raise
        finally:
            if sends_events:
                os.close(theirs)
        if cores is not None:  # it has one thread by now; whatever it starts inherits the cores
            os.sched_setaffinity(self._process.pid, cores)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._streams = (self._process.stdout, self._process.stderr)
        self._selector = selectors.DefaultSelector()
        for stream, name in zip(self._streams, _STREAMS, strict=True):
            self._selector.register(stream.fileno(), selectors.EVENT_READ, (name, bytearray()))
        self._events = events
        if sends_events:
            self._selector.register(events, selectors.EVENT_READ, ("", bytearray()))

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def follow(self, on_poll: Callable[[], None] = lambda: None) -> int:
        """Passes on output until the end, calling `on_poll` ten times a second; returns the exit code."""
        end_s = float("inf")
        while (is_running := not self.has_ended) or self._selector.get_map():
            end_s = end_s if is_running else min(end_s, time.monotonic() + _LATE_S)
            if time.monotonic() > end_s:
                break
            if self._selector.get_map():
                for key, _ in self._selector.select(_POLL_S):
                    self._read(key)
            else:
                with contextlib.suppress(TimeoutExpired):
                    self._process.wait(_POLL_S)
            on_poll()
        for key in list(self._selector.get_map().values()):
            self._close_stream(key)
        return self._process.wait()

    def _read(self, key: selectors.SelectorKey) -> None:
        name, unread = key.data
        if not (chunk := os.read(key.fd, _CHUNK)):
            self._close_stream(key)
            return
        unread += chunk
        end = unread.rfind(b"\n", len(unread) - len(chunk)) + 1
        if end:
            self._pass_on(name, bytes(unread[:end]))
            del unread[:end]

    def _close_stream(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fd)
        name, unread = key.data
        if unread:
            self._pass_on(name, bytes(unread))

    def _pass_on(self, name: Literal["stdout", "stderr", ""], lines: bytes) -> None:
        if name:
            self._observer(TextPrinted(name, lines.decode(errors="replace")))
            return
        for line in lines.splitlines():
            with contextlib.suppress(ValueError):  # the last may be cut off
                self._observer(decode(line, PROGRESS))

    def interrupt(self, *, again: bool = False) -> None:
        """Sends Ctrl-C to the command alone; a second one, with `again`, keeps it from saving what is finished."""
        if (again or not self.is_interrupted) and not self.has_ended:
            self._process.send_signal(signal.SIGINT)
        self.is_interrupted = True

    def kill(self) -> None:
        """Kills the command and its group."""
        kill(self._process)

    def close(self) -> None:
        """Kills what is left of the command."""
        self.kill()
        self._selector.close()
        for stream in self._streams:
            stream.close()
        if self._events >= 0:
            os.close(self._events)


def exit_code_of_child(code: int) -> ExitCode:
    """Returns a child's exit code as one of gdnbench's; CRASHED for a signal or an unknown one."""
    return next((each for each in ExitCode if each == code), ExitCode.CRASHED)
