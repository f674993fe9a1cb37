"""The state of barriers, numbered ones and mbarriers, and of groups in which threads commit asynchronous work."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from gdnbench.ptx.program import BARRIERS, Fault, FaultLog, Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gdnbench.ptx.numbers import IntArray, Mask


class BlockBarriers:
    """The numbered barriers of every block."""

    def __init__(self, block: IntArray, threads: int) -> None:
        """Takes the block of each lane, and the threads of a block."""
        self.block, self.threads = block, threads
        # Shape (lanes,), number of the barrier at which a lane waits; -1 for none
        self.waits_at = np.full(len(block), -1, dtype=np.int64)
        # arrived: shape (blocks, 16), threads that have arrived without waiting
        # wanted: shape (blocks, 16), threads that the barrier is for; 0 for all of the block
        self.arrived, self.wanted = (np.zeros((int(block.max()) + 1, BARRIERS), dtype=np.int64) for _ in range(2))

    def arrive(self, lanes: IntArray, number: IntArray, count: IntArray, *, waits: bool) -> None:
        """Makes lanes arrive at barriers `number`, shape (n,), for `count` threads, shape (n,), 0 for a whole block."""
        self.wanted[self.block[lanes], number] = count
        if waits:
            self.waits_at[lanes] = number
        else:
            np.add.at(self.arrived, (self.block[lanes], number), 1)

    def released(self, exited: Mask) -> tuple[IntArray, IntArray, IntArray]:
        """Returns lanes whose barrier is complete, its number and its count, 0 for all, for each; these wait no more.

        Threads that have ended count as arrived at barriers for all. If more threads wait than a barrier is for, the
        surplus waits for its next completion.
        """
        waiting = np.flatnonzero(self.waits_at >= 0)
        if not len(waiting):
            return waiting, waiting, waiting
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
        return free, number[is_free], wanted[is_free]


def _turns(barriers: IntArray) -> IntArray:
    """Returns, for each lane, how many lanes before it are at the same barrier."""
    order = np.argsort(barriers, kind="stable")
    turns = np.empty_like(barriers)
    turns[order] = np.arange(len(order)) - np.searchsorted(barriers[order], barriers[order])
    return turns


class Mbarrier:
    """An mbarrier at one shared address, in every block; all arrays have the shape (blocks,)."""

    def __init__(self, blocks: int) -> None:
        # expected: arrivals of a phase; 0 if not initialised
        # bytes: what copies have yet to bring; negative if they brought bytes before these were expected
        # phase: phases that are complete; the count goes on when the mbarrier is initialised again
        # first: the phase, an even one, that the last initialisation began
        self.expected, self.pending, self.bytes, self.phase, self.first = np.zeros((5, blocks), dtype=np.int64)
        # maker, made_at, made_by: lane in the grid, step (0 for none) and instruction of that initialisation
        self.maker, self.made_at, self.made_by = np.zeros((3, blocks), dtype=np.int64)

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
        # What arrives beyond a phase's count arrives in those after it, and may complete them, too.
        while len(done := done[(self.pending[done] <= 0) & (self.bytes[done] == 0) & (self.expected[done] > 0)]):
            self.phase[done] += 1
            self.pending[done] += self.expected[done]


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


class ClusterBarriers:
    """The barriers of all clusters; `known`, shape (lanes,), is how many phases a lane knows to be complete.

    A thread that has waited for a phase is ordered after what the cluster's other threads did before they arrived; it
    may still race with what they did between arrival and wait.
    """

    def __init__(self, lanes: int, threads: int, blocks: int) -> None:
        """Makes the barriers of `lanes` lanes, in clusters of `blocks` blocks of `threads` threads."""
        self._threads, self._shape = threads * blocks, (-1, blocks, threads)
        clusters = lanes // self._threads
        self._cluster = np.arange(lanes) // self._threads
        # By address of an mbarrier, shape (clusters, blocks): its phases that are complete, as the cluster knows
        self.told: dict[int, IntArray] = defaultdict(lambda: np.zeros((clusters, blocks), dtype=np.int64))
        self._phase = np.zeros(clusters, dtype=np.int64)
        self._arrivals = np.zeros(clusters, dtype=np.int64)
        self._awaited = np.zeros(lanes, dtype=np.int64)  # phases that are complete once the lane's is
        self._arrived = np.zeros((2, lanes), dtype=np.int64)  # step of the arrival by parity of the phase; 0 if relaxed
        self._came = np.zeros((2, lanes), dtype=np.int64)  # the same, relaxed or not
        self.known = np.zeros(lanes, dtype=np.int64)

    def has_arrived(self, lanes: IntArray) -> Mask:
        """Returns whether lanes have arrived and not waited since."""
        return np.asarray(self._awaited[lanes] > self.known[lanes])

    def arrive(self, lanes: IntArray, now: int, *, is_relaxed: bool) -> None:
        """Makes lanes arrive in step `now`; a relaxed arrival orders nothing that the lane did before it."""
        clusters = self._cluster[lanes]
        phase = self._phase[clusters]
        self._awaited[lanes] = phase + 1
        self._arrived[phase & 1, lanes] = 0 if is_relaxed else now
        self._came[phase & 1, lanes] = now
        np.add.at(self._arrivals, clusters, 1)

    def complete(self, exited: Mask, now: int) -> bool:
        """Ends the phases at which all threads have arrived or ended; returns whether there is one."""
        absent = exited & (self._awaited <= self._phase[self._cluster])
        count = self._arrivals + np.bincount(self._cluster[absent], minlength=len(self._phase))
        done = (self._arrivals > 0) & (count >= self._threads)
        ended = np.flatnonzero(absent & done[self._cluster])
        for each in (self._arrived, self._came):
            each[self._phase[self._cluster[ended]] & 1, ended] = now
        self._phase[done] += 1
        self._arrivals[done] = 0
        return bool(done.any())

    def is_complete(self, lanes: IntArray) -> Mask:
        """Returns whether the phases at which lanes arrived are complete."""
        return np.asarray(self._phase[self._cluster[lanes]] >= self._awaited[lanes])

    def learn(self, lanes: IntArray, phases_known: Mapping[int, IntArray]) -> None:
        """Records that lanes waited for the phases at which they arrived; what a block knows, its cluster then does."""
        self.known[lanes] = np.maximum(self.known[lanes], self._awaited[lanes])
        clusters = np.unique(self._cluster[lanes])
        for barrier, known in phases_known.items():
            self.told[barrier][clusters] = known.reshape(self._shape)[clusters].max(axis=2)

    def came_after(self, lanes: IntArray, times: IntArray, phases: int) -> Mask:
        """Returns whether lanes arrived at the last of `phases` phases after what they did in steps `times`."""
        return np.asarray(times < self._came[(phases - 1) & 1, lanes]) & (phases > 0)

    def is_ordered(self, lanes: IntArray, others: IntArray, times: IntArray) -> Mask:
        """Returns whether accesses of `others`, of any part of the grid, in steps `times` precede what lanes do now."""
        inside = (others >= 0) & (others < len(self._cluster))
        others = np.where(inside, others, 0)
        known = self.known[lanes]
        same = inside & (self._cluster[lanes] == self._cluster[others]) & (known > 0)
        return np.asarray(same & (times < self._arrived[(known - 1) & 1, others]))


class PeerWatch:
    """The last access of each lane to each block of its cluster; only cluster barriers are known to hold blocks back.

    `_when` and `_by`, shape (blocks of a cluster, lanes), have by rank of the other block the step, 0 for none, and the
    instruction of the access.
    """

    def __init__(self, clusters: ClusterBarriers, program: Program, threads: int, findings: FaultLog) -> None:
        self._clusters, self._threads, self._findings = clusters, threads, findings
        self._size, self._instructions = program.cluster, program.instructions
        self._when, self._by = np.zeros((2, program.cluster, len(clusters.known)), dtype=np.int64)

    def touch(self, lanes: IntArray, ranks: IntArray, now: int, step: int) -> None:
        """Records accesses to other blocks of the cluster, and reports those before any barrier of the cluster."""
        began = self._clusters.known.reshape(-1, self._threads).max(axis=1)[lanes // self._threads] > 0
        if not began.all():
            text = (
                "accesses the shared memory of another block with no barrier of the cluster before: it may not run yet"
            )
            self._findings.add(Fault.BARRIER, self._instructions[step].at, text, count=int(np.count_nonzero(~began)))
        self._when[ranks, lanes], self._by[ranks, lanes] = now, step

    def settle(self) -> None:
        """Reports, at the end of the run, accesses for whose end no thread of the other block waited."""
        of_cluster = self._threads * self._size
        for rank in np.flatnonzero(self._when.any(axis=1)):
            lanes = np.flatnonzero(self._when[rank])
            blocks = lanes // of_cluster * self._size + rank
            awaited = np.zeros(len(lanes), dtype=bool)
            for phases in np.unique(self._clusters.known):
                waited = (self._clusters.known.reshape(-1, self._threads) == phases).any(axis=1)[blocks]
                awaited |= waited & self._clusters.came_after(lanes, self._when[rank, lanes], int(phases))
            for step in np.unique(self._by[rank, lanes[~awaited]]):
                count = int(np.count_nonzero(self._by[rank, lanes[~awaited]] == step))
                text = "accesses the shared memory of another block, which does not wait for it and may have ended"
                self._findings.add(Fault.BARRIER, self._instructions[step].at, text, count=count)
