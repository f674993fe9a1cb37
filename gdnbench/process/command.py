"""Runs a command in a process group of its own, which can be killed as a whole; SIGTERM and SIGHUP act as Ctrl-C.

`timeout`, `kill`, a queue's time limit and a closed terminal end a command so. Nothing is left behind then: temporary
folders go, workers are killed, and what a run has finished is kept.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import IO, TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from subprocess import Popen

    from gdnbench.process.warm import ForkedProcess

PYTHON = (sys.executable, "-P")
"""This Python, without imports from the current folder, where a file may be called `json.py`."""

LONGEST_LIMIT_S = 1e6
"""The longest time limit, twelve days: the system counts the milliseconds of a wait in 31 bits."""

GRACE_S = 30.0  # for the driver to end a process with a running kernel


@dataclass(frozen=True)
class Completed:
    """How a command ended: `returncode` is negative for a signal, `errors` empty if stderr was merged into `output`."""

    returncode: int
    output: str
    errors: str = ""

    @property
    def last_line(self) -> str:
        """The last line of the output that is not blank, or an empty string."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def run_tool(
    command: Sequence[str], *, limit_s: float, environment: Mapping[str, str] | None = None, merge: bool = False
) -> Completed:
    """Runs a command to its end; decodes its output as UTF-8 with replacement characters.

    After `limit_s` seconds it and all that it started are killed. `environment` is added to this process's; `merge`
    sends stderr to stdout. Raises TimeoutError at the limit, OSError if it cannot be started.
    """
    from subprocess import PIPE, STDOUT, TimeoutExpired

    process = start(command, environment=environment, stdout=PIPE, stderr=STDOUT if merge else PIPE)
    try:
        output, errors = process.communicate(timeout=limit_s)
    except TimeoutExpired as error:
        raise TimeoutError(f"{command[0]} did not end within {limit_s:g} s") from error
    finally:
        kill(process)
    return Completed(process.returncode, _text(output), _text(errors))


class Streams(TypedDict, total=False):
    """A program's streams as `subprocess.Popen` takes them; by default stdin is empty and the others are inherited."""

    stdin: int | None
    stdout: int | IO[bytes] | None
    stderr: int | IO[bytes] | None


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    **streams: Unpack[Streams],
) -> Popen[bytes]:
    """Starts a command in its own session; `environment` is added to this process's. OSError if it cannot."""
    from subprocess import DEVNULL, Popen

    return Popen(
        command,
        bufsize=0,
        stdin=DEVNULL if streams.get("stdin") is None else streams["stdin"],
        stdout=streams.get("stdout"),
        stderr=streams.get("stderr"),
        pass_fds=pass_fds,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )


def kill(process: Popen[bytes] | ForkedProcess) -> None:
    """Kills a process of `start` and its group; returns when it has ended, or after `GRACE_S` seconds."""
    from subprocess import TimeoutExpired

    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutExpired):
        process.wait(GRACE_S)


def describe_exit(returncode: int) -> str:
    """Describes the end of a process: `SIGSEGV`, or `exit code 3`."""
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"exit code {returncode}"


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Raises KeyboardInterrupt at the first SIGTERM or SIGHUP, and ignores further ones: `timeout` sends two.

    An existing handler, or an ignored signal, as with `nohup`, stays. Only the main thread can set signals; in others
    this does nothing.
    """
    is_main = threading.current_thread() is threading.main_thread()
    taken = [each for each in _ENDING if is_main and signal.getsignal(each) is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, _interrupt)
    try:
        yield
    finally:
        for each in taken:
            if signal.getsignal(each) is _interrupt:  # the second may be yet to come
                signal.signal(each, signal.SIG_DFL)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # in the background of a shell it is ignored
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)
