"""The numbers of a schedule under one name each, for tables, JSON and CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gdnbench.binary.schedule import Milestones, Step, count_waits

WIDTH = 80  # of what is printed of schedules, as of a terminal


@dataclass(frozen=True)
class Fact:
    """One number of every schedule.

    Attributes:
        key: its name in JSON and CSV.
        title: its name in tables, under its section's.
        read: its value; None where the way has no such instruction.
    """

    key: str
    title: str
    read: Callable[[Milestones], int | None]


def _first(steps: Sequence[Step]) -> int | None:
    return steps[0].cycle if steps else None


def _last(steps: Sequence[Step]) -> int | None:
    return steps[-1].cycle if steps else None


CYCLES: tuple[Fact, ...] = (
    Fact("first_load", "first global load", lambda it: _last(it.first)),
    Fact("last_early_load", "last one before a load is waited for", lambda it: _last(it.early_loads)),
    Fact("first_wait", "first wait for a load or mbarrier", lambda it: _first(it.arrivals)),
    Fact("last_wait", "last such wait before the last store", lambda it: _last(it.arrivals)),
    Fact("first_store", "first global store", lambda it: _first(it.stores)),
    Fact("last_store", "last global store", lambda it: _last(it.stores)),
    Fact("end", "last instruction", lambda it: it.end),
)

BETWEEN: tuple[Fact, ...] = (
    Fact("to_first_store", "to the first store", lambda it: it.to_first_store),
    Fact("to_last_store", "to the last store", lambda it: it.to_last_store),
)

LOADS: tuple[Fact, ...] = (
    Fact("early_loads", "before one is waited for", lambda it: len(it.early_loads)),
    Fact("late_loads", "only after", lambda it: len(it.late_loads)),
    Fact("trips", "trips to memory in a row", lambda it: it.trips),
)

SECTIONS: Mapping[str, tuple[Fact, ...]] = {
    "issue cycle": CYCLES,
    "issue cycles from the first such wait": BETWEEN,
    "global loads": LOADS,
}

WAITS: Mapping[str, tuple[str, Callable[[Milestones], Mapping[str, int]]]] = {
    "waits_before": ("waits until the first global load", lambda it: count_waits(it.first)),
    "waits_after": ("waits from the first such one to the last store", lambda it: count_waits(it.middle)),
}
"""How many instructions wait for what, by its name in JSON: a section's title, and the counts."""


def numbers(found: Milestones) -> dict[str, int | None]:
    """Every number by its key."""
    return {fact.key: fact.read(found) for facts in SECTIONS.values() for fact in facts}
