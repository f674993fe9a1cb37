"""Whether what is stored of a kernel is of its code as it is now."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class CodeState(StrEnum):
    """Whether a stored time or profile is of a kernel's code as it is now, by the hash of its sources."""

    CURRENT = "current"
    CHANGED = "changed"
    UNKNOWN = "unknown"  # one of the two hashes is not known: older files have none, and not every kernel is here

    @classmethod
    def of(cls, stored: str, now: str) -> CodeState:
        """The state by two hashes, each empty where it is not known."""
        if not (stored and now):
            return cls.UNKNOWN
        return cls.CURRENT if stored == now else cls.CHANGED

    @classmethod
    def together(cls, states: Iterable[CodeState]) -> CodeState:
        """The state of what several sources make: changed if one has, current if all are known to be."""
        found = set(states)
        if cls.CHANGED in found:
            return cls.CHANGED
        return cls.CURRENT if found == {cls.CURRENT} else cls.UNKNOWN
