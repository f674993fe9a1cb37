"""SIGTERM as Ctrl-C: `timeout`, `kill` and a queue at a job's time limit end a run, and what is finished is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Within it, the first SIGTERM raises KeyboardInterrupt, and further ones do nothing: `timeout` sends two.

    Who started this process with SIGTERM ignored, or handles it already, keeps that. Only a main thread can change it;
    any other leaves it as it is.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
