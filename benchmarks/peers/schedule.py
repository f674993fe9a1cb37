"""Which trial is next: pure functions.

A pass visits every group once, in an order of its own, so that what drifts moves all tools alike, and a run that is cut
off leaves them with equally many trials, give or take one.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .records import Line


@dataclass(frozen=True)
class Visit:
    """One trial of the peers of a group.

    Attributes:
        group: its name.
        trial: its number, from 1.
    """

    group: str
    trial: int


def plan_visits(
    copies: Mapping[str, int], trials: int, done: Collection[tuple[str, int]], seed: int
) -> Iterator[Visit]:
    """What is left to do, pass by pass.

    Args:
        copies: how many comparisons of each kind a trial of a group makes, by group.
        trials: comparisons of each kind to make.
        done: group and number of the trials that there are.
        seed: of the order within a pass.
    """
    for trial in range(1, trials + 1):
        groups = [name for name, each in copies.items() if trial <= -(-trials // each)]
        random.Random(f"{seed}/{trial}").shuffle(groups)
        yield from (Visit(name, trial) for name in groups if (name, trial) not in done)


def seconds_of_visits(lines: Iterable[Line]) -> dict[str, list[float]]:
    """What the visits of a record took at most, by group: each of its peers counts as if it had been alone."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for line in lines:
        found.setdefault((line.group, line.trial), {})[line.peer] = line.seconds
    by_group: dict[str, list[float]] = {}
    for (group, _), seconds in found.items():
        by_group.setdefault(group, []).append(sum(seconds.values()))
    return by_group


def fits(seconds_so_far: Sequence[float], left_s: float) -> bool:
    """Whether another visit of a group is likely to end in time.

    Args:
        seconds_so_far: what its visits took; the longest counts. Before the first, any time that is left will do.
        left_s: the time that is left.
    """
    return left_s > max(seconds_so_far, default=0.0)
