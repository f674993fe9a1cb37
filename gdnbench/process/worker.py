"""A worker process: the worker's ends of its connections, and the parent's.

A worker is `python -P -m MODULE ARGUMENTS… FD`. Its arguments say what to do; further requests, if any, follow on its
stdin, a line of JSON each. It answers with messages on the `Channel` to descriptor FD, apart from all that a kernel or
a library prints, which goes to a log, whose end tells why it died. Its parent reads with a deadline, and kills it with
its group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from tempfile import TemporaryDirectory, gettempdir
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Generic, TextIO

from gdnbench.process.channel import KEY_BYTES, Message, Seal, decode
from gdnbench.process.command import GRACE_S, PYTHON, describe_exit, kill, start

if TYPE_CHECKING:
    from gdnbench.process.warm import ForkedProcess, WarmParent

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_TORCH_CACHE = "TORCHINDUCTOR_CACHE_DIR"

_POLL_S = 0.5  # seconds between checks for a stop, and for a dead process whose child keeps the socket open
_TAIL_BYTES = 1 << 16
_LINE_CHARS = 300


def take_stdin() -> int:
    """Returns stdin on a new descriptor; kernel sources, libraries and what they start find stdin empty."""
    descriptor, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return descriptor


def take_requests() -> TextIO:
    """Returns stdin's lines, as `take_stdin`."""
    return os.fdopen(take_stdin())


def die_with_parent() -> None:
    """Has the OS kill this process when its parent ends: a hung GPU kernel would keep the GPU for ever."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Worker(Generic[Message]):
    """A Python process that sends messages; leaving its `with` block kills it and all that it started.

    Its temporary files lie in a folder that is removed with it. Runs `module` as `python -m` does, with `arguments` and
    the descriptor of its channel. `kinds` are the dataclasses of its messages; `log` is open for writing and reading,
    and the caller closes it. `environment` is added to this process's; `PYTHONPATH` leads to this gdnbench unless set
    there. With `takes_requests`, they follow on its stdin, which is empty otherwise. A `warm` process forks it, with
    that process's environment, and takes no requests. Raises OSError if it cannot be started.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        kinds: Sequence[type[Message]],
        log: BinaryIO,
        environment: Mapping[str, str] | None = None,
        *,
        takes_requests: bool = False,
        warm: WarmParent | None = None,
    ) -> None:
        self._kinds = kinds
        self._log = log
        self._lines: deque[bytes] = deque()
        self._rest = b""
        key = os.urandom(KEY_BYTES)
        self._seal = Seal(key)
        self._temporary = TemporaryDirectory(prefix="gdnbench-", ignore_cleanup_errors=True)
        # A socket, because /proc lets another process open a pipe's end by its number.
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._socket.sendall(key)
                self._process = self._start(module, arguments, theirs.fileno(), environment, takes_requests, warm)
            except BaseException:
                self._socket.close()
                self._temporary.cleanup()
                raise

    def _start(
        self,
        module: str,
        arguments: Sequence[str],
        channel: int,
        environment: Mapping[str, str] | None,
        takes_requests: bool,
        warm: WarmParent | None,
    ) -> Popen[bytes] | ForkedProcess:
        # torch keeps what it compiled from one worker to the next.
        torch_cache = os.environ.get(_TORCH_CACHE, str(Path(gettempdir(), f"torchinductor_{os.getuid()}")))
        own = {"TMPDIR": self._temporary.name, _TORCH_CACHE: torch_cache}
        if warm:
            # Without a socket, the worker only starts later.
            with contextlib.suppress(OSError):
                return warm.start(module, arguments, channel, self._log, own)
        return start(
            [*PYTHON, "-m", module, *arguments, str(channel)],
            environment={"PYTHONPATH": python_path(), **own, **(environment or {})},
            stdin=PIPE if takes_requests else None,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[channel],
        )

    def __enter__(self) -> Worker[Message]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def has_message(self) -> bool:
        """Whether a message has been read from the socket and not received."""
        return bool(self._lines)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when there is a message, or the worker has ended."""
        return self._socket.fileno()

    def request(self, line: str) -> None:
        """Sends a request, a line of JSON; if the worker has died, `receive` finds out."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")

    def tell(self, line: str) -> None:
        """Sends a line on the channel to a worker that waits for one; if it has died, `receive` finds out."""
        with contextlib.suppress(BrokenPipeError):
            self._socket.sendall(line.encode() + b"\n")

    def receive(self, deadline: float, stop: threading.Event | None = None) -> Message | None:
        """Returns the next message, or None if the worker has closed its end of the socket or is gone.

        Raises TimeoutError at the deadline, in seconds of `time.monotonic`; CancelledError if another thread sets
        `stop`; ForgedMessageError for a line that the worker's channel did not send next.
        """
        while not self._lines:
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            if stop and stop.is_set():
                raise CancelledError
            if not wait_for_any([self], min(left, _POLL_S)):
                # A child of the worker may keep the socket open after the worker's death.
                if self._process.poll() is not None:
                    return None
                continue
            if not (chunk := self._read()):
                return None
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._lines.extend(lines)
        return decode(self._seal.remove(self._lines.popleft()), self._kinds)

    def _read(self) -> bytes:
        try:
            return self._socket.recv(1 << 16)
        except ConnectionResetError:  # the worker ended before it read its key
            return b""

    def end(self, grace_s: float = GRACE_S) -> int:
        """Waits for the worker's end, kills it and all it started after the grace period, and returns its exit code."""
        with contextlib.suppress(TimeoutExpired):
            self._process.wait(grace_s)
        kill(self._process)
        return self._exit_code

    def describe_end(self) -> str:
        """Describes the worker's end: `SIGSEGV`, or `exit code 3`."""
        return describe_exit(self._exit_code)

    @property
    def _exit_code(self) -> int:
        # The process outlasts SIGKILL where the driver holds it with a running kernel.
        return -9 if self._process.returncode is None else self._process.returncode

    def log_bytes(self) -> int:
        """Returns the number of bytes that the worker has printed."""
        return os.fstat(self._log.fileno()).st_size

    def log_tail(self, lines: int, since: int = 0) -> list[str]:
        """Returns the last non-blank lines of the log after byte `since`; a kernel may have printed any amount."""
        size = self.log_bytes()
        begin = max(since, size - _TAIL_BYTES)
        text = os.pread(self._log.fileno(), size - begin, begin).decode(errors="replace")
        printable = ("".join(filter(str.isprintable, line)).rstrip()[-_LINE_CHARS:] for line in text.splitlines())
        return [line for line in printable if line][-lines:]

    def close(self) -> None:
        """Kills the worker and all that it started."""
        kill(self._process)
        if self._process.stdin:
            self._process.stdin.close()
        self._socket.close()
        self._temporary.cleanup()


def wait_for_any(workers: Sequence[Worker[Message]], timeout_s: float) -> list[Worker[Message]]:
    """Waits until a worker has a message or has ended; returns those workers, or none after the timeout."""
    if known := [worker for worker in workers if worker.has_message]:
        return known
    poll = select.poll()
    for worker in workers:
        poll.register(worker.fileno(), select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(max(0.0, timeout_s) * 1e3)}
    return [worker for worker in workers if worker.fileno() in ready]


def python_path() -> str:
    """Returns the PYTHONPATH by which workers find this gdnbench, installed or not, then this process's own paths."""
    own = str(Path(__file__).resolve().parents[2])
    paths = [own, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.pathsep.join(dict.fromkeys(paths))
