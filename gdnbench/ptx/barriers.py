"""The state of barriers, numbered ones and mbarriers, and of groups in which threads commit asynchronous work."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gdnbench.ptx.grid import BARRIERS
from gdnbench.ptx.ordering import IntArray


@dataclass
class BlockBarriers:
    """The numbered barriers of every block, which has `threads` threads.

    Attributes:
        block: shape (lanes,), the block of each lane.
        waits_at: shape (lanes,), number of the barrier at which a lane waits; -1 for none.
        arrived: shape (blocks, 16), threads that have arrived without waiting.
        wanted: shape (blocks, 16), threads that the barrier is for; 0 for all of the block.
    """

    block: IntArray
    threads: int
    waits_at: IntArray = field(init=False)
    arrived: IntArray = field(init=False)
    wanted: IntArray = field(init=False)

    def __post_init__(self) -> None:
        blocks = int(self.block.max()) + 1
        self.waits_at = np.full(len(self.block), -1, dtype=np.int64)
        self.arrived = np.zeros((blocks, BARRIERS), dtype=np.int64)
        self.wanted = np.zeros((blocks, BARRIERS), dtype=np.int64)

    def arrive(self, lanes: IntArray, number: IntArray, count: IntArray, *, waits: bool) -> None:
        """Makes lanes arrive at barriers `number`, shape (n,), for `count` threads, shape (n,), 0 for a whole block."""
        self.wanted[self.block[lanes], number] = count
        if waits:
            self.waits_at[lanes] = number
        else:
            np.add.at(self.arrived, (self.block[lanes], number), 1)

    def released(self, exited: npt.NDArray[np.bool_]) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
        """Returns lanes whose barrier is complete, its number for each, and whether it is for all; these wait no more.

        Threads that have ended count as arrived at barriers for all. If more threads wait than a barrier is for, the
        surplus waits for its next completion.
        """
        waiting = np.flatnonzero(self.waits_at >= 0)
        if not len(waiting):
            return waiting, waiting, np.zeros(0, dtype=bool)
        block, number = self.block[waiting], self.waits_at[waiting]
        count = self.arrived.copy()
        np.add.at(count, (block, number), 1)
        ended = np.bincount(self.block[exited], minlength=len(count))[:, None]
        complete = np.where(self.wanted == 0, count + ended >= self.threads, count >= self.wanted)
        wanted, turn = self.wanted[block, number], _turns(block * BARRIERS + number)
        is_free = complete[block, number] & ((wanted == 0) | (turn < wanted - self.arrived[block, number]))
        free = waiting[is_free]
        self.arrived[block[is_free], number[is_free]] = 0
        self.waits_at[free] = -1
        return free, number[is_free], wanted[is_free] == 0


def _turns(barriers: IntArray) -> IntArray:
    """Returns, for each lane, how many lanes before it are at the same barrier."""
    order = np.argsort(barriers, kind="stable")
    turns = np.empty_like(barriers)
    turns[order] = np.arange(len(order)) - np.searchsorted(barriers[order], barriers[order])
    return turns


@dataclass
class Mbarrier:
    """An mbarrier at one shared address, in every block; all arrays have the shape (blocks,).

    Attributes:
        expected: arrivals of a phase; 0 if not initialised.
        bytes: what copies have yet to bring; negative if they brought bytes before these were expected.
        phase: phases that are complete; the count goes on when the mbarrier is initialised again.
        first: the phase, an even one, that the last initialisation began.
        maker, made_at, made_by: lane in the grid, step (0 for none) and instruction of that initialisation.
    """

    expected: IntArray
    pending: IntArray
    bytes: IntArray
    phase: IntArray
    first: IntArray
    maker: IntArray
    made_at: IntArray
    made_by: IntArray

    @classmethod
    def make(cls, blocks: int) -> Mbarrier:
        """Returns an mbarrier that no block has initialised."""
        return cls(*(np.zeros(blocks, dtype=np.int64) for _ in range(8)))

    def initialise(self, blocks: IntArray, count: IntArray) -> None:
        """Begins an even phase in some blocks; what threads know of earlier phases still holds."""
        self.expected[blocks] = self.pending[blocks] = count
        self.bytes[blocks] = 0
        self.first[blocks] = self.phase[blocks] = self.phase[blocks] + self.phase[blocks] % 2

    def arrive(self, blocks: IntArray, count: IntArray) -> None:
        """Counts `count` arrivals for each entry of `blocks`."""
        np.subtract.at(self.pending, blocks, count)
        self._complete(blocks)

    def expect(self, blocks: IntArray, nbytes: IntArray) -> None:
        """Adds bytes that copies are to bring; negative ones have been brought."""
        np.add.at(self.bytes, blocks, nbytes)
        self._complete(blocks)

    def _complete(self, blocks: IntArray) -> None:
        done = np.unique(blocks)
        done = done[(self.pending[done] <= 0) & (self.bytes[done] == 0) & (self.expected[done] > 0)]
        self.phase[done] += 1
        self.pending[done] = self.expected[done]


class Groups:
    """The commit groups of each lane; `done`, shape (lanes,), is the step up to which a lane's work is complete."""

    def __init__(self, lanes: int) -> None:
        self.done = np.zeros(lanes, dtype=np.int64)
        self._commits: list[IntArray] = []  # by group number: the step up to which it reaches, by lane
        self._count = np.zeros(lanes, dtype=np.int64)

    def commit(self, lanes: IntArray, now: int) -> None:
        """Makes a group of the work that lanes have begun and not yet committed."""
        self._count[lanes] += 1
        while len(self._commits) < int(self._count.max()):
            self._commits.append(np.zeros(len(self.done), dtype=np.int64))
        for number in np.unique(self._count[lanes]):
            self._commits[number - 1][lanes[self._count[lanes] == number]] = now

    def wait(self, lanes: IntArray, pending: int) -> None:
        """Completes all groups of each lane but the last `pending`."""
        last = self._count[lanes] - pending
        for number in np.unique(last[last > 0]):
            these = lanes[last == number]
            self.done[these] = np.maximum(self.done[these], self._commits[number - 1][these])
