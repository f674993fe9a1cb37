"""One measurement at a time on a GPU: two gdnbench processes at once would both measure wrong times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.errors import MachineError
from gdnbench.model.gpu import Gpu
from gdnbench.process.events import NoteMade, Observer

if TYPE_CHECKING:
    from filelock import BaseFileLock

_FOR_EVERY_USER = 0o666  # `filelock` opens the file for writing, so every user needs that permission


@contextmanager
def gpu_lock(gpu: Gpu | None, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds the GPU, or the CPU for None, against every gdnbench process of every user of this machine.

    The operating system releases the lock when the process ends, however it ends. The file stays. `on_wait` is called
    once, before waiting, if another process holds the GPU. MachineError is raised if the lock file cannot be opened.
    """
    from filelock import FileLock

    # FileLock follows no link that someone left in the file's place, and does not remove the file.
    lock = FileLock(_lock_file(gpu), mode=_FOR_EVERY_USER)
    if not _acquire(lock, wait=False):
        on_wait()
        _acquire(lock, wait=True)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def alone_on(gpu: Gpu | None, observer: Observer) -> Iterator[None]:
    """As `gpu_lock`, with a note for the user where it has to wait."""
    with gpu_lock(gpu, lambda: observer(NoteMade("another gdnbench is measuring here; waiting for it to finish"))):
        yield


def _acquire(lock: BaseFileLock, *, wait: bool) -> bool:
    from filelock import Timeout

    try:
        lock.acquire(blocking=wait)
    except Timeout:
        return False
    except OSError as error:
        raise MachineError(
            f"The lock file {lock.lock_file} cannot be opened: {error.strerror}.",
            "Remove it, or point TMPDIR elsewhere.",
        ) from error
    return True


def _lock_file(gpu: Gpu | None) -> Path:
    import tempfile

    return Path(tempfile.gettempdir()) / f"gdnbench-{gpu.uuid if gpu else 'cpu'}.lock"
