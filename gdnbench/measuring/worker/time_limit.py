"""A limit on what runs in this thread: its end is an exception, which passes where the time ran out."""

from __future__ import annotations

import signal
from typing import Self


class TimeLimit:
    """Raises TimeoutError within its `with`, once.

    It is of Python code in a process's first thread. What stays in native code, or catches the error, is for whoever
    watches the process.

    Args:
        seconds: until then.

    Attributes:
        is_over: whether it was raised: it may have been caught, and raised as something else.
    """

    is_over = False

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> Self:
        """The time begins."""
        self._before = signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        """What comes now has no limit."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _stop(self, *_: object) -> None:
        self.is_over = True
        raise TimeoutError
