"""What is measured next: one strategy a file, all with one signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gdnbench.bench.measuring import Collected
from gdnbench.model import Case


@dataclass(frozen=True)
class Leg:
    """A stretch of a run, measured by one worker.

    Attributes:
        phase: what progress calls it.
        cases: what is measured, interleaved.
        rounds: how many whole rounds these cases are to have when it ends, those of earlier legs included.
        standing: what to tell whoever watches; may be empty.
    """

    phase: str
    cases: tuple[Case, ...]
    rounds: int
    standing: str = ""


class Schedule(Protocol):
    """Decides leg by leg; what it decides follows from what was measured, so that a stopped run can go on."""

    def next_leg(
        self, cases: Sequence[Case], collected: Collected, samples: Mapping[str, int], warm_us: Mapping[str, float]
    ) -> Leg | None:
        """The next leg, or None when there is nothing left to find out.

        Args:
            cases: the healthy ones.
            collected: everything measured so far.
            samples: per round, by case id.
            warm_us: time of a warm call, microseconds, by case id.
        """


class FixedRounds:
    """The same number of rounds of every case, in one leg."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    def next_leg(
        self, cases: Sequence[Case], collected: Collected, _samples: Mapping[str, int], _warm_us: Mapping[str, float]
    ) -> Leg | None:
        """All rounds, once."""
        left = tuple(case for case in cases if case.id not in collected.lost)
        if not left or len(collected.whole_rounds(case.id for case in left)) >= self._rounds:
            return None
        return Leg("measure", left, self._rounds)
