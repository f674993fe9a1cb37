"""Finds the timed launches in a record of what the GPU did. Pure Python: the rules can be tried on any list.

A case begins with an empty kernel of ours. A launch of it is a fill, which flushes the L2, then whatever the case
does, then an empty kernel of ours: so a case may launch several kernels, and even fill memory itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gdnbench.errors import ProfilerError

FILL = "Memset (Device)"  # as torch's profiler names it
CASE = "case"
END = "end"
FEWEST_WHOLE = 0.5  # of the launches of a round: with fewer, what is missing is no accident


class Record(NamedTuple):
    """One thing that the GPU did, with its begin and end on the GPU's own clock."""

    name: str
    start_ns: int
    end_ns: int


Launch = list[Record]
"""What one launch of a case did, its flush left out."""


def split_cases(records: Iterable[Record], ours: str) -> list[list[Record]]:
    """The records of each case, in the order in which the GPU saw them.

    Args:
        records: of a round, in any order.
        ours: what the names of our own kernels begin with.
    """
    cases: list[list[Record]] = []
    for record in sorted(records, key=lambda record: record.start_ns):
        if record.name == ours + CASE:
            cases.append([])
        elif cases:
            cases[-1].append(record)
    return cases


def split_launches(records: Iterable[Record], ours: str) -> list[Launch]:
    """The launches of a case; one whose flush or kernels were not recorded is shorter, or not there."""
    launches: list[Launch] = []
    is_open = False
    for record in records:
        if record.name.startswith(ours):
            is_open = False
        elif is_open:
            launches[-1].append(record)
        elif record.name == FILL:
            launches.append([])
            is_open = True
    return launches


def launch_times_us(launches: Sequence[Launch], expected: int) -> tuple[float, ...]:
    """Time of each launch, first start to last end, microseconds; those with records missing are left out.

    Args:
        launches: of one case in one round.
        expected: how many there were.

    Raises:
        ProfilerError: if fewer than half of them are whole.
    """
    sizes = Counter(len(launch) for launch in launches if launch)
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
    whole = [launch for launch in launches if launch and len(launch) == usual]
    if not whole or len(whole) < FEWEST_WHOLE * expected:
        raise ProfilerError(f"CUPTI recorded {len(whole)} of {expected} launches")
    return tuple(
        (max(record.end_ns for record in launch) - min(record.start_ns for record in launch)) / 1e3 for launch in whole
    )
