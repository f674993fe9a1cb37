"""Runs a command in a process group of its own, so that all that it starts can be killed with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol, TypedDict, Unpack

if TYPE_CHECKING:
    from subprocess import Popen

PYTHON = (sys.executable, "-P")
"""This Python, which imports nothing from the folder that it is started in: a file there may be called `json.py`."""

LONGEST_LIMIT_S = 1e6
"""Twelve days: the system counts the milliseconds of a wait in 31 bits."""

GRACE_S = 30.0  # for the driver to end a process that has a kernel running


class Process(Protocol):
    """A process that was started, as `subprocess.Popen` has it; it leads a process group of its own."""

    @property
    def pid(self) -> int:
        """Its number, and its group's."""

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal; None while it is not known to have ended."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Where it reads from, if that was asked for."""

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; `subprocess.TimeoutExpired` after so many seconds."""


@dataclass(frozen=True)
class Completed:
    """How a command ended.

    Attributes:
        returncode: its exit code; negative for a signal.
        output: what it printed on stdout, and on stderr where the two were merged.
        errors: what it printed on stderr; empty where it was merged into `output`.
    """

    returncode: int
    output: str
    errors: str = ""

    @property
    def last_line(self) -> str:
        """The last line of the output that is not blank; empty if there is none."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def run_tool(
    command: Sequence[str], *, limit_s: float, environment: Mapping[str, str] | None = None, merge: bool = False
) -> Completed:
    """Runs a command to its end; what it prints is read as UTF-8, with a replacement for what is not.

    Args:
        command: the program and its arguments.
        limit_s: seconds after which it is killed, with all that it started.
        environment: variables on top of this process's.
        merge: whether stderr goes where stdout goes.

    Raises:
        TimeoutError: if it does not end in time.
        OSError: if it cannot be started.
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
    """A program's streams, as `subprocess.Popen` takes them; stdin is empty by default, the others are inherited."""

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
    """Starts a command in a session, and so a process group, of its own: Ctrl-C is the parent's to handle.

    Args:
        command: the program and its arguments.
        environment: variables on top of this process's.
        pass_fds: descriptors that it inherits.
        streams: its own.

    Raises:
        OSError: if it cannot be started.
    """
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


def kill(process: Process) -> None:
    """Kills what `start` started and all of its group; returns when it has ended, or after `GRACE_S` seconds."""
    import contextlib
    import signal
    from subprocess import TimeoutExpired

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutExpired):
        process.wait(GRACE_S)


def describe_exit(returncode: int) -> str:
    """How a process ended: `SIGSEGV`, or `exit code 3`."""
    import signal

    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"exit code {returncode}"


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
