"""How far accesses of a block's warps are known to be ordered, and those of single lanes that came alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdnbench.ptx.cluster_barriers import IntArray

NO_LANE = -1


@dataclass(frozen=True)
class Reach:
    """Steps before which accesses of each warp are ordered; all arrays have the shape (rows, warps of a block).

    A lane that arrives alone at an mbarrier orders its own accesses, and of its warp's others those before they last
    joined it; reads of the others may be ordered further, for their values have been used since.

    Attributes:
        steps: for all lanes.
        reads: for reads of all lanes, if further.
        lane: thread of the block whose accesses are ordered further, one a warp; `NO_LANE` for none.
        until: for accesses of that lane.
    """

    steps: IntArray
    reads: IntArray
    lane: IntArray
    until: IntArray

    @classmethod
    def make(cls, rows: int, warps: int) -> Reach:
        """Returns a reach of nothing."""
        steps, reads, until = (np.zeros((rows, warps), dtype=np.int64) for _ in range(3))
        return cls(steps, reads, np.full((rows, warps), NO_LANE, dtype=np.int64), until)

    def of(self, rows: IntArray) -> Reach:
        """Returns a copy of some rows."""
        return Reach(self.steps[rows], self.reads[rows], self.lane[rows], self.until[rows])

    def learn(self, places: Any, other: Reach) -> None:
        """Adds what `other` knows, at `places` that are each named once.

        Of two lanes of a warp that came alone, one after the other, the warp's others are taken to have come with the
        first, so that nothing is reported that may be no race.
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
        """Returns steps before which accesses of threads of a block, or their reads, are ordered, for each place."""
        steps: IntArray = np.maximum(self.steps[places], self.reads[places]) if of_reads else self.steps[places]
        is_further = self.lane[places] == threads
        return np.where(is_further, np.maximum(steps, self.until[places]), steps)

    def most(self, rows: IntArray) -> IntArray:
        """Returns the furthest step of any lane of each warp: no more than that is passed on."""
        return np.maximum(self.steps[rows], self.until[rows])
