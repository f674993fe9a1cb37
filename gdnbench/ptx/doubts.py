"""Races of strong accesses, volatile or atomic, that are none if their bytes prove to be a flag before the run ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gdnbench.ptx.races import Conflict
from gdnbench.ptx.segments import Access, AccessPart


@dataclass(frozen=True)
class Doubt:
    """One of them.

    Attributes:
        found: the conflict, with its doubtful pairs.
        part: the lanes of the access that fall into one segment.
        access: it.
        verb: as findings call it.
    """

    found: Conflict
    part: AccessPart
    access: Access
    verb: str

    def settled(self) -> Conflict | None:
        """What of it is a race, as far as is known by now."""
        shadow, pairs = self.part.segment.shadow, self.found.doubtful
        return shadow.settled(pairs) if shadow is not None and pairs is not None else None


class Doubts:
    """Of each pair of instructions the first that is not settled."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], Doubt] = {}

    def add(self, doubt: Doubt) -> None:
        """Keeps one, unless one of the same instructions still stands."""
        key = (doubt.access.step, doubt.found.other_step)
        known = self._kept.get(key)
        if known is None or known.settled() is None:
            self._kept[key] = doubt

    def races(self) -> Iterator[tuple[Conflict, Doubt]]:
        """At the end of the run: what has proved to be a race."""
        for doubt in self._kept.values():
            if found := doubt.settled():
                yield found, doubt
