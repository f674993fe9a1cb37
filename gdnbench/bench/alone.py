"""The GPU to oneself: who measures or profiles waits until no other gdnbench process does, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdnbench.bench.observer import Observer
from gdnbench.machine import gpu_lock
from gdnbench.model import Gpu


@contextmanager
def alone_on(gpu: Gpu | None, observer: Observer) -> Iterator[None]:
    """Holds the GPU, or the CPU if there is none, against every other gdnbench process of this machine.

    Raises:
        MachineError: the lock file cannot be opened.
    """
    with gpu_lock(gpu, lambda: observer.note("another gdnbench is measuring here; waiting for it to finish")):
        yield
