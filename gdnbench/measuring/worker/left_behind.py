"""Names the threads that a kernel leaves behind, which may work while others are verified or timed.

Python reports which function each of its threads runs. Other threads and streams have no known owner, since torch and
the driver start some, too; work on another stream is missing from a replay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType


class ThreadWatch:
    """Compares Python's threads, in functions of a kernel's folder, with those at construction, before its import."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._before = frozenset(sys._current_frames())

    def notes(self) -> tuple[str, ...]:
        """A line for each new thread that runs a function of the kernel's files."""
        new = (frame for ident, frame in sys._current_frames().items() if ident not in self._before)
        return tuple(f"a thread is left behind, which runs {where}" for where in map(self._outermost, new) if where)

    def _outermost(self, frame: FrameType) -> str:
        """A thread's outermost function in the kernel's files, with file and line; empty if there is none."""
        found = ""
        at: FrameType | None = frame
        while at:
            code = at.f_code
            if Path(code.co_filename).resolve().is_relative_to(self._folder):
                found = f"{code.co_qualname} ({Path(code.co_filename).name}:{code.co_firstlineno})"
            at = at.f_back
        return found
