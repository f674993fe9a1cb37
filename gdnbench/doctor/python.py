"""The Python that everything runs in."""

from __future__ import annotations

import platform
import sys

from gdnbench.doctor.check import Check, Level

_OLDEST = (3, 11)


def check_python(version: tuple[int, int] = sys.version_info[:2], full: str = platform.python_version()) -> Check:
    """Whether this Python is new enough."""
    if version >= _OLDEST:
        return Check("Python", Level.OK, full, needed_to_measure=True)
    oldest = ".".join(map(str, _OLDEST))
    return Check("Python", Level.FAIL, f"{full} is older than {oldest}", f"install Python {oldest} or newer", True)
