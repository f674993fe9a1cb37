"""Faults that the interpreter finds in a kernel, and their source lines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    """A fault at one source line: `text` describes its first thread, `count` is over all threads and instructions."""

    fault: Fault
    at: SourceLine
    text: str
    count: int

    def __str__(self) -> str:
        more = f" (and {self.count - 1:,} more)" if self.count > 1 else ""
        return f"{self.at}: {self.text}{more}"


@dataclass(frozen=True)
class Traffic:
    """What the loads or stores of one line request from the memory system."""

    at: SourceLine
    verb: str  # `loads` or `stores`
    requests: int  # executions by warps
    sectors: int  # of 32 bytes, that these touch
    least_sectors: int  # that the same bytes would take side by side

    @property
    def is_scattered(self) -> bool:
        """Whether the sectors are at least twice the least number."""
        return self.sectors >= 2 * self.least_sectors

    def __str__(self) -> str:
        each, least = self.sectors / self.requests, self.least_sectors / self.requests
        return f"{self.at}: {self.verb} {each:.3g} sectors a request, where {least:.3g} hold the bytes"


def describe_outside(verb: str, nbytes: int, place: int, name: str, room: int) -> str:
    """Describes an access outside memory of `room` bytes; `verb` is `reads`, say, and `place` may be negative."""
    where = f"{-place} bytes before" if place < 0 else f"at byte {place} of"
    return f"{verb} {nbytes} bytes {where} {name}, which has {room}"


class FaultLog:
    """Collects faults: one per kind and line, however many threads and instructions have it."""

    def __init__(self) -> None:
        self._found: dict[tuple[Fault, SourceLine], LocatedFault] = {}

    def add(self, fault: Fault, at: SourceLine, text: str, *, count: int = 1) -> None:
        """Counts a fault of `count` threads; the first `text` of a kind and line, about one thread, is kept."""
        key = (fault, at)
        known = self._found.get(key)
        self._found[key] = LocatedFault(fault, at, known.text if known else text, count + (known.count if known else 0))

    def all(self) -> tuple[LocatedFault, ...]:
        """Returns the faults in the order in which they were first seen."""
        return tuple(self._found.values())
