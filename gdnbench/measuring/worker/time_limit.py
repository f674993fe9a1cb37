"""A time limit for code in this thread, which raises TimeoutError where the time ran out."""

from __future__ import annotations

import signal
from typing import Self


class TimeLimit:
    """Raises TimeoutError within its `with`, once, after some seconds.

    It works for Python code in a process's first thread. Native code, and code that catches the error, is stopped by
    the process that watches this one. `is_over`: the error was raised; it may have been caught and replaced.
    """

    is_over = False

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _stop(self, *_: object) -> None:
        self.is_over = True
        raise TimeoutError
