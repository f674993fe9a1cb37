"""What an exception from a user's file was, and on which line of theirs: `kernel.py:12: ValueError: no such head`."""

from __future__ import annotations

import traceback
from pathlib import Path

from gdnbench.errors import GdnbenchError


def raised_at(error: BaseException, *places: Path) -> tuple[Path, int] | None:
    """File and line, in these files or folders, where an exception passed last; None if it did not pass there.

    What the line called is not told: it may be deep within a library.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno and _is_in(error.filename, places):
        return Path(error.filename), error.lineno
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_in(frame.filename, places)]
    if frames:
        return Path(frames[-1].filename), frames[-1].lineno or 0
    return raised_at(error.__cause__, *places) if error.__cause__ else None


def tell_raised(error: Exception, *places: Path) -> str:
    """One line: where in these files or folders, the exception's type, and the first line of what it says."""
    if isinstance(error, GdnbenchError):
        return error.message
    first = str(error).strip().partition("\n")[0]
    at = raised_at(error, *places)
    return ": ".join(filter(None, [f"{at[0].name}:{at[1]}" if at else "", type(error).__name__, first]))


def _is_in(filename: str, places: tuple[Path, ...]) -> bool:
    return any(Path(filename).is_relative_to(place) for place in places)
