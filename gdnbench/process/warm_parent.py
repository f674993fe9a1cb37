"""The process that has imported torch and stays up: `python -P -m gdnbench.process.warm_parent SOCKET IDLE_S`.

Importing torch takes seconds, most of what a worker of a short measurement does. This process has done so, holds no
CUDA context, for a fork could not use one, and runs nothing of a kernel's: each worker is a fork of it, as fresh as the
first, and what a kernel does to its process ends with that. It ends by itself once nobody has asked for IDLE_S seconds.
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
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

IMPORTED = ("torch", "triton")
"""What workers spend their start on. Nothing here may touch the GPU when it is imported."""
_LARGEST_REQUEST = 1 << 20


def main(arguments: list[str]) -> int:
    """Listens on a socket of that path until it has been idle for long."""
    path = Path(arguments[0])
    gc.disable()  # what is imported here stays for ever: no collection of a fork need look at it
    for name in IMPORTED:
        if find_spec(name):
            import_module(name)
    gc.freeze()
    gc.enable()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        own = _listen(listener, path)
        _Parent(listener).serve(float(arguments[1]))
        if path.exists() and path.stat().st_ino == own:
            path.unlink()
    return 0


def _listen(listener: socket.socket, path: Path) -> int:
    """Takes the path, and gives its inode: of several that start at once the last has it, and the others idle."""
    own = path.with_name(f"{path.name}.{os.getpid()}")
    listener.bind(str(own))
    listener.listen()
    own.replace(path)
    return path.stat().st_ino


class _Parent:
    """Forks a worker for each connection, and tells over it how the worker ended.

    Args:
        listener: the socket that it is asked on.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._connections: dict[int, socket.socket] = {}  # by the worker's process
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
        """Answers until it has had no worker for so many seconds."""
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
        """The asker is gone, for it sends nothing more: so must be the worker."""
        connection = self._connections[pid]
        self._selector.unregister(connection)
        connection.close()
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not come to lead its group yet, or has ended
            os.kill(pid, signal.SIGKILL)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request, and the descriptors that came with it: the worker's log, and its end of the channel.

    Raises:
        ValueError: if it is none.
        OSError: if the connection breaks.
    """
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
    with contextlib.suppress(OSError):  # the asker is gone, which `_drop` is told of
        connection.sendall(json.dumps(message).encode() + b"\n")


def _become_worker(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Runs a module as `python -m` would, in this fork; never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        log, channel = descriptors
        os.dup2(log, 1)
        os.dup2(log, 2)
        _close_all_but(channel)
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None  # it may have been looked up here
        os.chdir(request["folder"])
        sys.argv = [request["module"], *request["arguments"], str(channel)]
        _take_path()
        # Of gdnbench as it is now: this process may be older than its sources.
        for name in [name for name in sys.modules if name.partition(".")[0] == "gdnbench"]:
            del sys.modules[name]
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


def _close_all_but(kept: int) -> None:
    """Closes every descriptor but the standard ones and one more: the sockets here are no kernel's business."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _draw_seeds() -> None:
    """Has libraries draw other random numbers than in the last fork; Python's own `random` does so by itself."""
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _take_path() -> None:
    """Has modules be found as by a process that is started with this environment, none in the folder where it is."""
    sys.path[:] = [*_python_path(), *_OWN_PATH]


def _python_path() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


_OWN_PATH = [path for path in sys.path if path not in _python_path()]
"""Where Python's own modules and installed ones are."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
