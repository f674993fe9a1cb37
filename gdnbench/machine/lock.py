"""One measurement at a time on a GPU: two gdnbench processes at once would both print wrong numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gdnbench.errors import MachineError
from gdnbench.model import Gpu

_FOR_EVERY_USER = 0o644  # a lock needs no more than the right to read


@contextmanager
def gpu_lock(gpu: Gpu | None, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds the GPU for this process, against every gdnbench process of every user of this machine.

    The kernel releases the lock when the process ends, however it ends. The file itself stays: to remove it would
    let a third process lock a new file while a second still waits for the old one.

    Args:
        gpu: the GPU; None for the CPU.
        on_wait: called once, before waiting, if another process holds the GPU.

    Raises:
        MachineError: the lock file cannot be opened.
    """
    import fcntl

    descriptor = _open(_lock_file(gpu))
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock_file(gpu: Gpu | None) -> Path:
    import tempfile

    return Path(tempfile.gettempdir()) / f"gdnbench-{gpu.uuid if gpu else 'cpu'}.lock"


def _open(path: Path) -> int:
    """Opens the lock file, made by this user or another; follows no link that someone left in its place."""
    try:
        try:
            # O_CREAT only where it is missing: Linux refuses it on another user's file in a sticky folder.
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_NOFOLLOW, _FOR_EVERY_USER)
            os.fchmod(descriptor, _FOR_EVERY_USER)  # whatever the umask
        except FileExistsError:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise MachineError(
            f"The lock file {path} cannot be opened: {error.strerror}.", "Remove it, or point TMPDIR elsewhere."
        ) from error
    return descriptor
