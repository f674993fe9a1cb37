"""Names the threads that a kernel leaves behind: they may work while others are verified or timed.

Python tells of each of its threads what it runs. Nothing tells whose other threads are, for torch and the driver start
some, too, or whose streams; work that goes to another stream is missing from a replay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType


class ThreadWatch:
    """Python's threads, as they are when this is made: before a kernel is imported.

    Args:
        folder: the kernel's, whose files' functions count.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._before = frozenset(sys._current_frames())

    def notes(self) -> tuple[str, ...]:
        """A line for each thread that is new and is in a function of the kernel's files."""
        new = (frame for ident, frame in sys._current_frames().items() if ident not in self._before)
        return tuple(f"a thread is left behind, which runs {where}" for where in map(self._outermost, new) if where)

    def _outermost(self, frame: FrameType) -> str:
        """The function of the kernel's files that a thread was started in, with its file and line; empty for none."""
        found = ""
        at: FrameType | None = frame
        while at:
            code = at.f_code
            if Path(code.co_filename).resolve().is_relative_to(self._folder):
                found = f"{code.co_qualname} ({Path(code.co_filename).name}:{code.co_firstlineno})"
            at = at.f_back
        return found
