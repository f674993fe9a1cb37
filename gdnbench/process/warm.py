"""Forks workers from a process that has imported torch: they start in a tenth of the time."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from subprocess import TimeoutExpired
from typing import IO, BinaryIO

from gdnbench.process import warm_parent
from gdnbench.process.command import PYTHON, start

IDLE_S = 600.0
"""Idle time after which the process ends and frees torch's 300 MB."""
_START_S = 180.0  # torch from a cold network disk
_POLL_S = 0.02
_ANSWER_S = 10.0
_READ_BY_IMPORTS = ("CUDA", "GOMP", "KMP", "LD_", "MKL", "NVIDIA", "OMP", "OPENBLAS", "PYTHON", "TORCH", "TRITON")
"""Prefixes of the environment variables that Python, torch and Triton read when they are loaded."""


_STARTING: dict[Path, threading.Lock] = {}
"""By socket: threads that need a process at once start one."""


class ForkedProcess:
    """A worker forked by another process, through `connection`, whose end kills it; OSError if no answer."""

    stdin: IO[bytes] | None = None

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        self.returncode: int | None = None
        self.pid: int = self._read(_ANSWER_S)["pid"]

    def poll(self) -> int | None:
        """Returns the exit code, negative for a signal, or None if the worker runs."""
        with contextlib.suppress(TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the exit code; raises TimeoutExpired after so many seconds."""
        if self.returncode is None:
            try:
                self.returncode = self._read(timeout)["returncode"]
            except TimeoutError:
                raise TimeoutExpired("a forked worker", timeout or 0.0) from None
            except OSError:  # the forking process is gone, and the worker with it
                self.returncode = -9
            self._connection.close()
        return self.returncode

    def _read(self, timeout: float | None) -> dict[str, int]:
        self._connection.settimeout(timeout or (None if timeout is None else 1e-6))
        while b"\n" not in self._rest:
            try:
                more = self._connection.recv(1 << 12)
            except BlockingIOError:
                raise TimeoutError from None
            if not more:
                raise ConnectionResetError
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, int] = json.loads(line)
        return message


class WarmParent:
    """The process that forks workers of one environment; it starts with the first worker.

    `environment` is added to this process's, for workers and the import of torch; idle for `idle_s` seconds, it ends.
    Python runs it as `program` says.
    """

    program: tuple[str, ...] = ("-m", warm_parent.__name__)

    def __init__(self, environment: Mapping[str, str], idle_s: float = IDLE_S) -> None:
        self._environment = dict(environment)
        self._idle_s = idle_s

    def prepare(self) -> None:
        """Starts the process, and returns when it can fork; if it fails, the first worker reports that."""
        with contextlib.suppress(OSError):
            self._connect().close()

    @property
    def is_up(self) -> bool:
        """Whether the process is there and forks at once."""
        with contextlib.suppress(OSError):
            _open(self._socket_path()).close()
            return True
        return False

    def start(
        self, module: str, arguments: Sequence[str], channel: int, log: BinaryIO, own: Mapping[str, str]
    ) -> ForkedProcess:
        """Forks a worker that runs a module as `python -m` does and prints to `log`; raises OSError if it cannot.

        The number of `channel`, the worker's end, is appended to its arguments. `own` has variables of this worker
        alone, added to those of all.
        """
        connection = self._connect()
        try:
            request = {
                "module": module,
                "arguments": list(arguments),
                "environment": {**os.environ, **self._environment, **own},
                "folder": str(Path.cwd()),
            }
            content = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(connection, [content], [log.fileno(), channel])
            connection.sendall(content[sent:])
            return ForkedProcess(connection)
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> socket.socket:
        path = self._socket_path()
        with _STARTING.setdefault(path, threading.Lock()):
            return self._connect_or_start(path)

    def _connect_or_start(self, path: Path) -> socket.socket:
        with contextlib.suppress(OSError):
            return _open(path)
        with path.with_suffix(".log").open("wb") as log:
            parent = start(
                [*PYTHON, *self.program, str(path), str(self._idle_s)],
                environment=self._environment,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_S
        while parent.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                return _open(path)
            time.sleep(_POLL_S)
        raise OSError(f"no process to fork workers could be started; see {path.with_suffix('.log')}")

    def _socket_path(self) -> Path:
        """Returns a path that differs by all that a fork inherits: Python, its imports, and the variables they read."""
        read = {name: value for name, value in os.environ.items() if name.startswith(_READ_BY_IMPORTS)}
        origins = [spec.origin for name in warm_parent.IMPORTED if (spec := find_spec(name)) and spec.origin]
        own = [
            sys.executable,
            Path(warm_parent.__file__).read_text(),
            sorted({**read, **self._environment}.items()),
            [(origin, Path(origin).stat().st_mtime_ns) for origin in origins],
        ]
        return _private_folder() / blake2b(json.dumps(own).encode(), digest_size=12).hexdigest()


def _open(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _private_folder() -> Path:
    """Returns a folder that only this user may enter: whoever reaches the socket runs code as this user.

    A path in the user's cache may exceed the 107 bytes of a socket's. Raises OSError if another user owns the folder.
    """
    import tempfile

    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"gdnbench-warm-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder
