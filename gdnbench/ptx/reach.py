"""How far the accesses of a block's warps are known to one thing, and those of single lanes that came alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdnbench.ptx.cluster_barriers import IntArray

NO_LANE = -1


@dataclass(frozen=True)
class Reach:
    """Steps before which accesses of each warp are ordered; all arrays have the shape (rows, warps of a block).

    A lane that arrives at an mbarrier by itself brings its own accesses, and of its warp's others no more than they had
    joined it in: what those read may be known further, for their values have been used since.

    Attributes:
        steps: of all lanes.
        reads: of all lanes' reads, where they are further.
        lane: thread of the block whose accesses are known further; one a warp, `NO_LANE` for none.
        until: likewise how far.
    """

    steps: IntArray
    reads: IntArray
    lane: IntArray
    until: IntArray

    @classmethod
    def make(cls, rows: int, warps: int) -> Reach:
        """Nothing is known yet."""
        steps, reads, until = (np.zeros((rows, warps), dtype=np.int64) for _ in range(3))
        return cls(steps, reads, np.full((rows, warps), NO_LANE, dtype=np.int64), until)

    def of(self, rows: IntArray) -> Reach:
        """Some rows, as they are now."""
        return Reach(self.steps[rows], self.reads[rows], self.lane[rows], self.until[rows])

    def learn(self, places: Any, other: Reach) -> None:
        """Adds what another knows, at some places, each named once.

        Of two lanes of a warp that came alone, one after the other, the warp's others are taken to have come with the
        first: nothing is reported that may be no race.
        """
        mine = Reach(self.steps[places], self.reads[places], self.lane[places], self.until[places])
        steps = np.maximum(mine.steps, other.steps)
        i_say_more, it_says_more = mine.until > steps, other.until > steps
        apart = i_say_more & it_says_more & (mine.lane != other.lane)
        is_its = it_says_more & (~i_say_more | (other.until >= mine.until))
        self.steps[places] = np.where(apart, np.minimum(mine.until, other.until), steps)
        self.reads[places] = np.maximum(mine.reads, other.reads)
        self.lane[places] = np.where(is_its, other.lane, mine.lane)
        self.until[places] = np.where(is_its, other.until, mine.until)

    def limit(self, places: Any, threads: IntArray, *, of_reads: bool) -> IntArray:
        """Steps before which accesses of threads of a block, or their reads, are ordered, each at one place."""
        steps: IntArray = np.maximum(self.steps[places], self.reads[places]) if of_reads else self.steps[places]
        is_further = self.lane[places] == threads
        return np.where(is_further, np.maximum(steps, self.until[places]), steps)

    def most(self, rows: IntArray) -> IntArray:
        """The furthest that any lane's accesses are known; who passes knowledge on is not asked for more."""
        return np.maximum(self.steps[rows], self.until[rows])
