"""Possible races of strong accesses, volatile or atomic: none if their bytes prove to be a flag before the run ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gdnbench.ptx.races import Conflict
from gdnbench.ptx.segments import Access, AccessPart


@dataclass(frozen=True)
class Doubt:
    """A conflict with doubtful pairs, its access, and the verb for that in findings."""

    found: Conflict
    part: AccessPart
    access: Access
    verb: str

    def settled(self) -> Conflict | None:
        """Returns the pairs that are a race by what is known now, or None."""
        shadow, pairs = self.part.segment.shadow, self.found.doubtful
        return shadow.settled(pairs) if shadow is not None and pairs is not None else None


class Doubts:
    """The first unsettled doubt of each pair of instructions."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], Doubt] = {}

    def add(self, doubt: Doubt) -> None:
        """Keeps a doubt, unless an earlier one of the same instructions still seems a race."""
        key = (doubt.access.step, doubt.found.other_step)
        known = self._kept.get(key)
        if known is None or known.settled() is None:
            self._kept[key] = doubt

    def races(self) -> Iterator[tuple[Conflict, Doubt]]:
        """Yields, at the end of the run, the doubts that proved to be races."""
        for doubt in self._kept.values():
            if found := doubt.settled():
                yield found, doubt
