"""Runs one worker process and turns its death, its hanging and its silence into outcomes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from gdnbench.bench.events import Event, Examined, Refused, Step, decode
from gdnbench.bench.task import Task
from gdnbench.errors import MachineError
from gdnbench.model import Status

GRACE_S = 30.0  # for the driver to take down a process that has a kernel running
LOG_LINES = 3
LOG_LINE_CHARS = 300
LOG_TAIL_BYTES = 1 << 16
POLL_S = 0.5


class End(Enum):
    """How a worker ended."""

    FINISHED = auto()
    DIED = auto()
    HUNG = auto()


@dataclass(frozen=True)
class Outcome:
    """How a worker ended, and what it was doing.

    Attributes:
        end: how.
        case: id of the case it was on; empty if none.
        reason: what to say of that case.
        step: what it was doing then.
    """

    end: End
    case: str = ""
    reason: str = ""
    step: str = ""

    @property
    def loss(self) -> Examined | None:
        """The verdict on the case that the worker was lost on; None if it finished."""
        if self.end is End.FINISHED:
            return None
        status = Status.CRASHED if self.end is End.DIED else Status.TIMED_OUT
        return Examined(self.case, status, self.reason)


def supervise(
    task: Task,
    folder: Path,
    name: str,
    environment: Mapping[str, str],
    on_event: Callable[[Event], None],
    stop: threading.Event | None = None,
) -> Outcome:
    """Runs a worker to its end.

    Args:
        task: what it is to do.
        folder: where its task file and its log go.
        name: of those files.
        environment: variables on top of this process's.
        on_event: called with each event as it arrives.
        stop: set by another thread when the work is no longer wanted.

    Returns:
        How it ended. A worker that dies or hangs outside any case is the machine's fault, not a case's.

    Raises:
        MachineError: if the worker refused the task, or died or hung outside any case.
        CancelledError: if it was stopped.
    """
    task_file, log = folder / f"{name}.json", folder / f"{name}.log"
    task.write(task_file)
    watch = _Watch(on_event, stop or threading.Event())
    read_end, write_end = os.pipe()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "gdnbench.bench.worker", str(task_file), str(write_end)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[write_end],
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )
    os.close(write_end)
    try:
        in_time = watch.read_all(read_end, process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S if in_time else 0)
    finally:
        os.close(read_end)
        _kill(process)
    return watch.outcome(in_time, process.returncode, log)


class _Watch:
    """Reads a worker's events and keeps the time."""

    def __init__(self, on_event: Callable[[Event], None], stop: threading.Event) -> None:
        self._on_event = on_event
        self._stop = stop
        self._step = Step("", "start", GRACE_S)
        self._deadline = time.monotonic() + GRACE_S
        self._refused: Refused | None = None
        self._in_step = False

    def read_all(self, descriptor: int, process: subprocess.Popen[bytes]) -> bool:
        """Reads until the worker closes its end or is gone; False if a step outlasted its limit first."""
        pending = b""
        while (wait := self._deadline - time.monotonic()) > 0:
            if self._stop.is_set():
                raise CancelledError
            ready, _, _ = select.select([descriptor], [], [], min(wait, POLL_S))
            if not ready:
                # A child of the worker may keep the pipe open after the worker's death.
                if process.poll() is not None:
                    return True
                continue
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return True
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                self._take(decode(line.decode()))
        return False

    def _take(self, event: Event) -> None:
        self._in_step = isinstance(event, Step) and bool(event.case)
        if isinstance(event, Step):
            self._step = event
        if isinstance(event, Refused):
            self._refused = event
        self._deadline = time.monotonic() + self._step.limit_s
        self._on_event(event)

    def outcome(self, in_time: bool, returncode: int, log: Path) -> Outcome:
        """What became of the worker."""
        if self._refused:
            raise MachineError(self._refused.message, self._refused.hint)
        # A kernel may end its process with exit code 0; a worker that is done leaves no step of a case open.
        if in_time and returncode == 0 and not self._in_step:
            return Outcome(End.FINISHED)
        step, case = self._step, self._step.case
        if in_time:
            reason = f"the process died in step `{step.step}` ({_cause(returncode)}){_last_words(log)}"
        else:
            reason = f"step `{step.step}` did not end within {step.limit_s:.0f} s"
        if not case:
            raise MachineError(f"worker: {reason}", "see `gdnbench doctor`")
        return Outcome(End.DIED if in_time else End.HUNG, case, reason, step.step)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the worker and whatever it started; returns when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)


def _cause(returncode: int) -> str:
    if returncode < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-returncode).name
    return f"exit code {returncode}"


def _last_words(log: Path) -> str:
    """The end of the log as far as it is text: a kernel may have printed anything, and any amount of it."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
        text = file.read().decode(errors="replace")
    lines = ["".join(filter(str.isprintable, line)).strip()[-LOG_LINE_CHARS:] for line in text.splitlines()]
    return ": " + " | ".join([line for line in lines if line][-LOG_LINES:]) if any(lines) else ""
