"""What the interpreter finds wrong in a kernel, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gdnbench.ptx.program import SourceLine


class Fault(StrEnum):
    """The kinds of faults."""

    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED = "reads what nobody wrote"
    RACE = "race"
    BARRIER = "barrier"  # misused, or waited at for ever
    INACTIVE_LANE = "inactive lane"
    TRAP = "trap"
    ENDLESS = "does not end"


@dataclass(frozen=True)
class LocatedFault:
    """A fault at one line of the source.

    Attributes:
        fault: its kind.
        at: the line.
        text: what happens, of the first thread that it happens to.
        count: how often it does, over all threads and instructions.
    """

    fault: Fault
    at: SourceLine
    text: str
    count: int

    def __str__(self) -> str:
        more = f" (and {self.count - 1:,} more)" if self.count > 1 else ""
        return f"{self.at}: {self.text}{more}"


@dataclass(frozen=True)
class Traffic:
    """What a load or store asks of the memory system.

    Attributes:
        at: its line.
        verb: `loads` or `stores`.
        requests: how often a warp executed it.
        sectors: 32-byte sectors that its requests touch, summed.
        least_sectors: as many as the same bytes would take side by side.
    """

    at: SourceLine
    verb: str
    requests: int
    sectors: int
    least_sectors: int

    @property
    def is_scattered(self) -> bool:
        """Whether it moves at least twice what it asks for."""
        return self.sectors >= 2 * self.least_sectors

    def __str__(self) -> str:
        each, least = self.sectors / self.requests, self.least_sectors / self.requests
        return f"{self.at}: {self.verb} {each:.3g} sectors a request, where {least:.3g} hold the bytes"


def told_outside(verb: str, nbytes: int, place: int, name: str, room: int) -> str:
    """Tells an access beside a piece of memory.

    Args:
        verb: `reads`, `writes` or `updates`.
        nbytes: of the access.
        place: its first byte, negative before the beginning.
        name: of the memory.
        room: bytes that it has.
    """
    where = f"{-place} bytes before" if place < 0 else f"at byte {place} of"
    return f"{verb} {nbytes} bytes {where} {name}, which has {room}"


class FaultLog:
    """Collects findings: one for a kind of fault at a line, however many threads and instructions it happens to."""

    def __init__(self) -> None:
        self._found: dict[tuple[Fault, SourceLine], LocatedFault] = {}

    def add(self, fault: Fault, at: SourceLine, text: str, *, count: int = 1) -> None:
        """Notes a fault.

        Args:
            fault: its kind.
            at: the line.
            text: what happens, for one thread.
            count: how many threads it happens to.
        """
        key = (fault, at)
        known = self._found.get(key)
        self._found[key] = LocatedFault(fault, at, known.text if known else text, count + (known.count if known else 0))

    def all(self) -> tuple[LocatedFault, ...]:
        """In the order in which they were first seen."""
        return tuple(self._found.values())
