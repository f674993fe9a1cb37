"""Starts a job's worker on a host and relays what it tells until the job has ended."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from subprocess import PIPE, Popen, TimeoutExpired
from types import FrameType
from typing import BinaryIO, Protocol

from gdnbench.errors import ConnectionLostError, MachineError, UsageError
from gdnbench.process.channel import decode
from gdnbench.process.command import GRACE_S, kill
from gdnbench.remote.environment import Prepared
from gdnbench.remote.events import EVENTS, JobEnded, JobEvent, Listener, RunOpened, TextPrinted, deliver
from gdnbench.remote.host import last_line, shell
from gdnbench.remote.job import JOB, OUT
from gdnbench.render.console import without_commands

PATIENCE_S = 120.0
"""Seconds without a word from here after which a worker there ends its job."""

MOST_TEXT = 256 << 20
"""Bytes of one line, and characters of all that a command prints: a table of every case there is has a tenth."""

_BEAT_S = 10.0
_POLL_S = 0.2
_END_S = 10.0
_CHUNK = 1 << 16

_WORK = """
cd "$1" || exit 1
case "$3" in '~/'*) python="$HOME/${3#??}";; *) python="$3";; esac
export PYTHONPATH="$2${PYTHONPATH:+:$PYTHONPATH}" PYTHONUTF8=1
exec "$python" -P -m gdnbench worker %s --out %s
""" % (JOB, OUT)  # noqa: UP031 - braces are the shell's


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended.

    Attributes:
        code: its exit code.
        folders: what it left in its folder, by path from there.
        printed: what it wrote to stdout.
    """

    code: int
    folders: tuple[str, ...]
    printed: str


class Engine(Protocol):
    """Starts a job that lies in a folder of a host, and relays what it tells."""

    def run(self, folder: str, listener: Listener) -> JobOutcome:
        """Runs the job to its end; Ctrl-C stops it there, and what is finished is kept.

        Args:
            folder: the job's, absolute, with `job.json` in it.
            listener: told of every step.

        Raises:
            ConnectionLostError: if the host is no longer reached.
            MachineError: if the worker cannot be started.
        """


@dataclass
class DirectEngine:
    """Runs a job's worker as a program of the host itself, or of one that another program there reaches.

    Attributes:
        ready: the target.
        run_opened: told of the run that the job began, by id.
        launcher: the program, with its arguments, that runs the worker's command; none for the host itself.
        waiting: of a line that the launcher writes to stderr before the worker begins, what the worker waits for, in a
            few words; empty where the line says nothing of that.
        cure: what to do where the worker does not start.
    """

    ready: Prepared
    run_opened: Callable[[str], None]
    launcher: tuple[str, ...] = ()
    waiting: Callable[[str], str] = lambda _line: ""
    cure: str = ""

    def run(self, folder: str, listener: Listener) -> JobOutcome:
        """As `Engine.run`."""
        argv = [*self.launcher, *shell(_WORK, folder, self.ready.package, self.ready.python)]
        with tempfile.TemporaryFile() as errors:
            process = self.ready.host.start(argv, stdin=PIPE, stdout=PIPE, stderr=errors)
            relay = _Relay(process, listener, self.run_opened, errors.fileno(), self.waiting)
            try:
                ended = relay.run()
                if ended:
                    _let_end(process)
            finally:
                kill(process)
            if ended is None:
                raise self._lost(process, relay, errors)
        return JobOutcome(ended.code, tuple(ended.folders), relay.printed.getvalue())

    def _lost(self, process: Popen[bytes], relay: _Relay, errors: BinaryIO) -> MachineError:
        errors.seek(0)
        said = last_line(errors.read().decode(errors="replace"))
        if relay.has_heard:
            return ConnectionLostError(f"the connection to {self.ready.host.name} was cut: {said}")
        return MachineError(
            f"gdnbench does not start on {self.ready.host.name}: {said}",
            self.cure or f"is there an interpreter at {self.ready.python}, with gdnbench's requirements?",
        )


def _let_end(process: Popen[bytes]) -> None:
    """Waits a little for what started the worker: a launcher that is killed may leave its job behind."""
    with suppress(TimeoutExpired):
        process.wait(_END_S)


class _Relay:
    """Reads what a worker tells, and tells it to stop."""

    def __init__(
        self,
        process: Popen[bytes],
        listener: Listener,
        run_opened: Callable[[str], None],
        errors: int,
        waiting: Callable[[str], str],
    ) -> None:
        self._process = process
        self._errors = errors
        self._errors_read = 0
        self._waiting = waiting
        self._waits = False
        self._listener = listener
        self._run_opened = run_opened
        self._stops = 0
        self._told_stops = 0
        self._beat_s = time.monotonic()
        self._rest = b""
        self.printed = io.StringIO()
        self.has_heard = False

    def run(self) -> JobEnded | None:
        """Returns with the last event; None if it never comes."""
        previous = signal.signal(signal.SIGINT, self._note_stop)
        try:
            return self._follow()
        finally:
            signal.signal(signal.SIGINT, previous)

    def _note_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stops += 1

    def _follow(self) -> JobEnded | None:
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        while True:
            self._pass_on_stops()
            ready, _, _ = select.select([output], [], [], _POLL_S)
            if not self.has_heard:
                self._tell_what_it_waits_for()
            if not ready:
                if self._process.poll() is not None:
                    return None
                continue
            chunk = os.read(output, _CHUNK)
            if not chunk:
                with suppress(Exception):
                    self._process.wait(GRACE_S)
                return None
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._check_size(len(self._rest))
            for line in lines:
                ended = self._take(line)
                if ended:
                    return ended

    @staticmethod
    def _check_size(size: int) -> None:
        if size > MOST_TEXT:
            raise UsageError(f"the target prints more than {MOST_TEXT >> 20} MiB, which is refused", "is it yours?")

    def _tell_what_it_waits_for(self) -> None:
        # By its own offset: the process writes at that of the file, which it shares.
        said = os.pread(self._errors, _CHUNK, self._errors_read)
        whole, line_feed, _ = said.rpartition(b"\n")
        self._errors_read += len(whole) + len(line_feed)
        for line in whole.decode(errors="replace").splitlines():
            if what := self._waiting(line):
                self._waits = True
                self._listener.step(what)

    def _pass_on_stops(self) -> None:
        if self._stops > self._told_stops:
            if self._told_stops or (self._waits and not self.has_heard):
                raise KeyboardInterrupt
            self._told_stops = self._stops
            self._listener.note("stopping; what is finished comes home (Ctrl-C again leaves it there)")
            self._say(b"stop\n")
        elif time.monotonic() - self._beat_s > _BEAT_S:
            self._say(b"\n")

    def _say(self, line: bytes) -> None:
        self._beat_s = time.monotonic()
        assert self._process.stdin is not None
        with suppress(OSError):  # that it is gone shows on its stdout
            self._process.stdin.write(line)

    def _take(self, line: bytes) -> JobEnded | None:
        """One line; a greeting that a login shell prints is none of ours."""
        try:
            event: JobEvent = decode(line, EVENTS)
        except ValueError:
            return None
        self.has_heard = True
        match event:
            case JobEnded():
                return event
            case RunOpened(run_id):
                self._run_opened(run_id)
            case TextPrinted("stdout", text):
                self.printed.write(text)
                self._check_size(self.printed.tell())
            case TextPrinted(_, text):
                sys.stderr.write(without_commands(text))
                sys.stderr.flush()
            case _:
                deliver(event, self._listener)
        return None
