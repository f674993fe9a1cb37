"""Treats SIGTERM and SIGHUP as Ctrl-C: `timeout`, `kill`, a queue's time limit and a closed terminal end a command.

Nothing is left behind then: temporary folders go, workers are killed, and what a run has finished is kept.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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


_ENDING = (signal.SIGTERM, signal.SIGHUP)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # in the background of a shell it is ignored
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)
