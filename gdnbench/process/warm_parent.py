"""The process that has imported torch and forks workers: `python -P -m gdnbench.process.warm_parent SOCKET IDLE_S …`.

Importing torch takes seconds, most of the time of a worker of a short measurement. This process holds no CUDA context,
which a fork could not use, and runs no kernel code: each worker is a fresh fork, and what a kernel does to its process
ends with it. It ends after IDLE_S seconds without a request.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

IMPORTED = ("torch", "triton", "cuda.core")
"""The imports that dominate a worker's start. None may touch the GPU when it is imported."""
IMPORTED_FOR_GPUS = ("torch.distributed.fsdp", "torch._inductor.compile_fx", "triton.experimental.gluon")
"""What libraries of GPU kernels import, such as FLA, which itself asks for the GPU: most of a worker's start."""
_LARGEST_REQUEST = 1 << 20


def main(arguments: list[str]) -> int:
    """Listens on the socket path until idle for long; arguments after IDLE_S name imports to leave out."""
    path = Path(arguments[0])
    gc.disable()  # these imports stay for ever: no collection in a fork need scan them
    left_out = arguments[2:]
    _import(name for name in IMPORTED if name not in left_out)
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        with _gpus_reported_unasked():
            _import(name for name in IMPORTED_FOR_GPUS if name not in left_out)
        if not _can_fork():
            os.execv(sys.executable, [*sys.orig_argv, *IMPORTED_FOR_GPUS])
    gc.freeze()
    gc.enable()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        own = _listen(listener, path)
        _Parent(listener).serve(float(arguments[1]))
        if path.exists() and path.stat().st_ino == own:
            path.unlink()
    return 0


def _import(names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            import_module(name)


@contextlib.contextmanager
def _gpus_reported_unasked() -> Iterator[None]:
    """Makes torch report GPUs without asking the driver: some modules ask at import, and then forks cannot use CUDA."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    is_available = torch.cuda.is_available
    torch.cuda.is_available = lambda: True
    try:
        yield
    finally:
        torch.cuda.is_available = is_available


def _can_fork() -> bool:
    """Whether forks may use CUDA: what was imported may have asked the driver for GPUs all the same."""
    torch = sys.modules.get("torch")
    if torch is None:
        return True
    pid = os.fork()
    if pid == 0:
        os._exit(torch.cuda._is_in_bad_fork())
    return os.waitpid(pid, 0)[1] == 0


def _listen(listener: socket.socket, path: Path) -> int:
    """Binds the path and returns its inode; of several processes that start at once the last gets it, others idle."""
    own = path.with_name(f"{path.name}.{os.getpid()}")
    listener.bind(str(own))
    listener.listen()
    own.replace(path)
    return path.stat().st_ino


class _Parent:
    """Forks a worker for each connection to `listener`, and reports the worker's end on it."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._connections: dict[int, socket.socket] = {}  # by process id of the worker
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._ended, wake = socket.socketpair()
        self._ended.setblocking(False)
        wake.setblocking(False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        self._selector.register(self._ended, selectors.EVENT_READ)

    def serve(self, idle_s: float) -> None:
        """Serves requests until there has been no worker for so many seconds."""
        while ready := self._selector.select(None if self._connections else idle_s):
            for key, _ in ready:
                if key.fileobj is self._listener:
                    self._fork_for(self._listener.accept()[0])
                elif key.fileobj is self._ended:
                    self._ended.recv(1 << 12)
                    self._tell_ended()
                else:
                    self._drop(key.data)

    def _fork_for(self, connection: socket.socket) -> None:
        try:
            request, descriptors = _receive(connection)
        except (OSError, ValueError):
            connection.close()
            return
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _become_worker(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._connections[pid] = connection
        _send(connection, {"pid": pid})
        self._selector.register(connection, selectors.EVENT_READ, pid)

    def _tell_ended(self) -> None:
        while self._connections:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            connection = self._connections.pop(pid)
            if connection.fileno() >= 0:
                self._selector.unregister(connection)
                _send(connection, {"returncode": os.waitstatus_to_exitcode(status)})
                connection.close()

    def _drop(self, pid: int) -> None:
        connection = self._connections[pid]
        self._selector.unregister(connection)
        connection.close()
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:  # it does not lead its group yet, or has ended
            os.kill(pid, signal.SIGKILL)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns a request and its descriptors, log and channel; raises ValueError if invalid, OSError if it breaks."""
    connection.settimeout(5.0)
    content, descriptors, *_ = socket.recv_fds(connection, 1 << 16, 2)
    while not content.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more or len(content) > _LARGEST_REQUEST:
            raise ValueError("the request is cut off, or too large")
        content += more
    connection.settimeout(None)
    request = json.loads(content)
    if len(descriptors) != 2 or not isinstance(request, dict):
        raise ValueError("a request has two descriptors")
    return request, list(descriptors)


def _send(connection: socket.socket, message: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # the client disconnected, which `_drop` handles
        connection.sendall(json.dumps(message).encode() + b"\n")


def _become_worker(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        log, channel = descriptors
        os.dup2(log, 1)
        os.dup2(log, 2)
        # Kernels must not reach this process's sockets.
        os.closerange(3, channel)
        os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None  # it may have been looked up here
        os.chdir(request["folder"])
        sys.argv = [request["module"], *request["arguments"], str(channel)]
        sys.path[:] = [*_python_path(), *_OWN_PATH]
        forget_own_modules()
        _draw_seeds()
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def forget_own_modules() -> None:
    """Has a fork import the current gdnbench: this process may be older than its sources."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "gdnbench"]:
        del sys.modules[name]


def _draw_seeds() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()
    if "numpy.random" in sys.modules:  # which numpy imports at its first use, and seeds
        sys.modules["numpy.random"].seed()


def _python_path() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


_OWN_PATH = [path for path in sys.path if path not in _python_path()]
"""Paths of Python's own modules and of installed ones."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
