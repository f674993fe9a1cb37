"""Work that has no need to wait for other work, each in a thread; a fault or Ctrl-C stops all of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event

Part = Callable[[Event], None]
"""Supervises worker processes until it is done, or the event is set."""


def run_side_by_side(*parts: Part) -> None:
    """Runs the parts at once and returns when all have ended; one alone runs in this thread.

    Raises:
        Exception: what the first part that fails raises.
        KeyboardInterrupt: on Ctrl-C; no worker outlives it.
    """
    stop = Event()
    if len(parts) < 2:
        for part in parts:
            part(stop)
        return
    with ThreadPoolExecutor(len(parts)) as threads:
        working = [threads.submit(part, stop) for part in parts]
        try:
            for ended in as_completed(working):
                ended.result()
        except BaseException:
            stop.set()
            raise
