"""What barriers order: which accesses of other threads precede what a thread does now.

Time is the number of the step in which the interpreter executed an access. An access of another thread is ordered
before one's own if it precedes the last barrier, of the block or the cluster, that both took part in, or a chain of
barriers between them. Barriers of the block are known warp by warp, and so are fences with atomics or flags between
them. A thread that waited for an mbarrier's phase is ordered after what threads did or knew that arrived there, be it
for that phase or another; for a lane that arrives without its warp, see `Reach`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdnbench.ptx.barriers import ClusterBarriers
from gdnbench.ptx.numbers import Array, IntArray, Mask
from gdnbench.ptx.program import BARRIERS, WARP

NO_LANE = -1


@dataclass(frozen=True)
class Reach:
    """Steps before which accesses of each warp are ordered; all arrays have the shape (rows, warps of a block).

    A lane that arrives alone at an mbarrier orders its own accesses, and of its warp's others those before they last
    joined it; reads of the others may be ordered further, for their values have been used since.
    """

    steps: IntArray  # for all lanes
    reads: IntArray  # for reads of all lanes, if further
    lane: IntArray  # thread of the block whose accesses are ordered further, one a warp; `NO_LANE` for none
    until: IntArray  # for accesses of that lane

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


NO_COPY, COPY, BULK_COPY, ATOMIC = 0, 1, 2, 3
"""How something was written: by a store, by `cp.async`, by a bulk copy, or by an atomic."""


class Ordering:
    """What each lane knows of the others' progress; arrays have the shape (lanes,) unless another is named."""

    def __init__(self, first_lane: int, lanes: int, threads: int, cluster: int = 1) -> None:
        self.now = 1  # the step
        self.threads = threads  # of a block
        self._first_lane = first_lane
        self._warps = -(-threads // WARP)
        self.block_sync = np.zeros(lanes, dtype=np.int64)  # step after the lane's last wait for any others of its block
        self._reach = Reach.make(lanes // threads * self._warps, self._warps)
        self._arrived: dict[int, Reach] = {}  # by mbarrier, one row for each block
        self._has_single = False  # whether a lane has arrived alone
        # Shape (warps, warps of a block), steps before which accesses of each warp of the block are ordered before what
        # a warp does; more may be known of single lanes
        self.met = self._reach.steps
        # Step of the last instruction at which the lane's warp reconverged, such as a shuffle
        self.converged = np.zeros(lanes, dtype=np.int64)
        self.warp_sync = np.zeros(lanes, dtype=np.int64)  # step after the lane's last barrier of its warp
        # Step up to which the lane's own asynchronous copies are complete
        self.copies_done = np.zeros(lanes, dtype=np.int64)
        # `copies_done`, as the block's other threads know it since the last barrier
        self.published = np.zeros(lanes, dtype=np.int64)
        # `copies_done`, as the warp's other lanes know it since the last barrier of the warp
        self.shown = np.zeros(lanes, dtype=np.int64)
        self.proxy_fence = np.zeros(lanes, dtype=np.int64)  # step of the last `fence.proxy.async`
        self.init_fence = np.zeros(lanes, dtype=np.int64)  # step of the last `fence.mbarrier_init`
        # Shape (blocks,), steps before which the block's accesses preceded a barrier that some thread met before it
        # executed `fence.proxy.async`
        self.block_fence = np.zeros(lanes // threads, dtype=np.int64)
        self.fenced = np.zeros(lanes, dtype=np.int64)  # step of the last memory fence
        self._signalled = np.zeros((lanes // threads, self._warps), dtype=np.int64)
        self._has_observed = np.zeros(lanes, dtype=bool)
        self.clusters = ClusterBarriers(lanes, threads, cluster)
        # By address of an mbarrier, how many phases the lane knows to be complete
        self.phases_known: dict[int, IntArray] = {}
        self.transactions: list[tuple[int, int, int]] = []
        self._brought: dict[int, dict[int, IntArray]] = {}
        self._left: dict[int, IntArray] = {}  # by mbarrier: shape (blocks, 16)
        self._arriving: dict[int, list[tuple[IntArray, IntArray, int]]] = {}  # by mbarrier: lanes, phases, step
        self._left_met = np.zeros((lanes // threads, BARRIERS, self._warps), dtype=np.int64)

    def in_grid(self, lanes: IntArray) -> IntArray:
        """Returns the numbers in the grid of lanes of this part of it."""
        return lanes + self._first_lane

    def is_ordered(self, lanes: IntArray, others: IntArray, times: IntArray) -> Mask:
        """Returns whether accesses of `others`, by numbers in the grid, precede what lanes do now."""
        by_block = (others == self.in_grid(lanes)) | (times < self.limit(lanes, others))
        return np.asarray(by_block | self.is_ordered_by_cluster(lanes, others, times))

    def limit(self, lanes: IntArray, others: IntArray, *, of_reads: bool = False) -> IntArray:
        """Returns steps before which accesses of others precede what lanes do now, by barriers of block or warp."""
        mine = self.in_grid(lanes)
        other_warp = others % self.threads // WARP
        in_block, in_warp = self.block_sync[lanes], np.maximum(self.block_sync[lanes], self.warp_sync[lanes])
        places = self._warp(lanes), other_warp
        if self._has_single:
            known = self._reach.limit(places, others % self.threads, of_reads=of_reads)
        else:
            known = self.met[places]
        by_block = np.minimum(in_block, known)
        limit = np.where(mine % self.threads // WARP == other_warp, in_warp, by_block)
        return np.where(others // self.threads == mine // self.threads, limit, 0)

    def limit_of_any(self, lanes: IntArray, others: IntArray) -> IntArray:
        """Returns steps before which accesses of any threads in the blocks of `others` precede what lanes do now."""
        same_block = others // self.threads == self.in_grid(lanes) // self.threads
        return np.where(same_block, self.block_sync[lanes], 0)

    def same_warp(self, one: IntArray, other: IntArray) -> Mask:
        """Returns whether threads, by numbers in the grid, are of one warp."""
        same_block = one // self.threads == other // self.threads
        return np.asarray(same_block & (one % self.threads // WARP == other % self.threads // WARP))

    def _warp(self, lanes: IntArray) -> IntArray:
        return lanes // self.threads * self._warps + lanes % self.threads // WARP

    def is_ordered_by_cluster(self, lanes: IntArray, others: IntArray, times: IntArray) -> Mask:
        """Returns whether accesses of `others` precede what lanes do now by the barrier of their cluster."""
        return self.clusters.is_ordered(lanes, others - self._first_lane, times)

    def begin_transaction(self, block: int, barrier: int, phase: int) -> int:
        """Returns the number of a new bulk copy that completes with a phase of a block's mbarrier at that address."""
        self.transactions.append((barrier, phase, block))
        return len(self.transactions) - 1

    def arrive_after_copies(self, lanes: IntArray, barrier: int, phases: IntArray) -> None:
        """Lets lanes' copies so far complete with phases of an mbarrier, for threads that wait for these."""
        self._arriving.setdefault(barrier, []).append((lanes, phases, self.now))
        self._arrive(lanes, barrier)

    def bring(self, lanes: IntArray, barrier: int) -> None:
        """Makes lanes arrive at an mbarrier: threads that wait for it will know what these lanes know."""
        self.published[lanes] = self.copies_done[lanes]
        self._arrive(lanes, barrier)
        brought = self._brought.setdefault(barrier, {})
        for other, known in self.phases_known.items():
            most = brought.setdefault(other, np.zeros(len(self.block_sync) // self.threads, dtype=np.int64))
            np.maximum.at(most, lanes // self.threads, known[lanes])

    def _arrive(self, lanes: IntArray, barrier: int) -> None:
        """Records what precedes the arrival of lanes, which must be in order, and what their warps know of others."""
        arrived = self._arrived.get(barrier)
        if arrived is None:
            arrived = self._arrived[barrier] = Reach.make(len(self.block_fence), self._warps)
        warps, first, counts = np.unique(self._warp(lanes), return_index=True, return_counts=True)
        blocks, own = warps // self._warps, warps % self._warps
        np.maximum.at(arrived.steps, blocks, self._passed_on(warps))
        alone = (counts == 1) & (self.threads - own * WARP > 1)
        arrived.steps[blocks[~alone], own[~alone]] = self.now
        if alone.any():
            self._has_single = True
            who, warp, its = lanes[first[alone]], warps[alone], own[alone]
            joined = np.maximum(self.warp_sync[who], self.met[warp, its])
            reads = np.maximum(joined, self.converged[who])
            came = Reach(joined, reads, who % self.threads, np.full(len(who), self.now))
            arrived.learn((blocks[alone], its), came)

    def _passed_on(self, warps: IntArray) -> IntArray:
        """Returns what warps know of others, to pass on to threads that synchronise with them."""
        return self._reach.most(warps) if self._has_single else self.met[warps]

    def learn_phase(self, lanes: IntArray, barrier: int, phases: IntArray) -> None:
        """Records that lanes waited until `phases` phases of an mbarrier were complete."""
        known = self._known(barrier)
        known[lanes] = np.maximum(known[lanes], phases)
        self.block_sync[lanes] = self.now + 1
        if len(lanes) and (arrived := self._arrived.get(barrier)):
            warps = np.unique(self._warp(lanes))
            self._reach.learn(warps, arrived.of(warps // self._warps))
        self._complete_copies(lanes, barrier, phases)
        for other, most in self._brought.get(barrier, {}).items():
            known = self.phases_known[other]
            known[lanes] = np.maximum(known[lanes], most[lanes // self.threads])

    def _complete_copies(self, lanes: IntArray, barrier: int, phases: IntArray) -> None:
        learned = np.zeros(len(self.block_fence), dtype=np.int64)
        np.maximum.at(learned, lanes // self.threads, phases)
        left = []
        for owners, ends, step in self._arriving.pop(barrier, []):
            is_done = ends < learned[owners // self.threads]
            done = owners[is_done]
            self.copies_done[done] = np.maximum(self.copies_done[done], step)
            self.published[done] = np.maximum(self.published[done], step)
            if not is_done.all():
                left.append((owners[~is_done], ends[~is_done], step))
        if left:
            self._arriving[barrier] = left

    def learn_parity(self, lanes: IntArray, barrier: int, parity: IntArray, first: IntArray) -> None:
        """Records that lanes waited for a phase of that parity, knowing no more than that it must be complete.

        Such a wait ends, too, if the phase before is not complete. A lane that does not know that phase to be complete
        has waited for nothing: a GPU may let it go on at once. Phases before `first`, with which the mbarrier was
        initialised, are over.
        """
        known = np.maximum(self._known(barrier)[lanes], first)
        news = known & 1 == parity & 1
        self.learn_phase(lanes[news], barrier, known[news] + 1)

    def _known(self, barrier: int) -> IntArray:
        return self.phases_known.setdefault(barrier, np.zeros(len(self.block_sync), dtype=np.int64))

    def leave(self, lanes: IntArray, block: IntArray, numbers: IntArray) -> None:
        """Makes lanes arrive at a barrier of their block without waiting: those that wait learn what these know."""
        self.published[lanes] = self.copies_done[lanes]
        for barrier, known in self.phases_known.items():
            left = self._left.setdefault(barrier, np.zeros((len(self.block_fence), BARRIERS), dtype=np.int64))
            np.maximum.at(left, (block, numbers), known[lanes])
        warps, first = np.unique(self._warp(lanes), return_index=True)
        places = block[first], numbers[first]
        np.maximum.at(self._left_met, places, self._passed_on(warps))
        self._left_met[*places, warps % self._warps] = self.now + 1

    def join(self, lanes: IntArray, block: IntArray, numbers: IntArray) -> None:
        """Synchronises lanes at barriers of their block: what one of a barrier's lanes knows, all of them know."""
        self.block_sync[lanes] = self.now + 1
        self.published[lanes] = self.copies_done[lanes]
        barriers = block * BARRIERS + numbers
        for known in (self.clusters.known, *self.phases_known.values()):
            _share(known, lanes, barriers)
        self._meet(lanes, barriers)
        for barrier, left in self._left.items():
            known = self.phases_known[barrier]
            known[lanes] = np.maximum(known[lanes], left[block, numbers])

    def _meet(self, lanes: IntArray, barriers: IntArray) -> None:
        warps, first = np.unique(self._warp(lanes), return_index=True)
        barriers = barriers[first]
        most = self._left_met.reshape(-1, self._warps).copy()
        np.maximum.at(most, barriers, self._passed_on(warps))
        most[barriers, warps % self._warps] = self.now + 1
        self.met[warps] = most[barriers]

    def join_ended(self, lanes: IntArray, ended: IntArray) -> None:
        """Orders lanes after ended threads, which count as arrived at barriers of all threads of a block."""
        is_gone = np.zeros(len(self.met), dtype=bool)
        is_gone[self._warp(ended)] = True
        warps = np.unique(self._warp(lanes))
        gone_of_block = is_gone.reshape(-1, self._warps)[warps // self._warps]
        self.met[warps] = np.where(gone_of_block, self.now + 1, self.met[warps])

    def signal(self, lanes: IntArray, *, is_release: bool) -> None:
        """Records writes to a flag or counter, by an atomic or a strong store, that later readers may observe.

        A write covers what its lane did before its last fence; a release covers everything before. Addresses are not
        followed: a block has one flag.
        """
        warps, blocks = self._warp(lanes), lanes // self.threads
        every, first = np.unique(warps, return_index=True)
        np.maximum.at(self._signalled, blocks[first], self._passed_on(every))
        np.maximum.at(self._signalled, (blocks, warps % self._warps), self.now if is_release else self.fenced[lanes])

    def observe(self, lanes: IntArray, *, is_acquire: bool) -> None:
        """Records reads of a flag or counter: an acquire or a later fence orders lanes after what was signalled."""
        self._has_observed[lanes] = True
        if is_acquire:
            self._acquire(lanes)

    def fence(self, lanes: IntArray) -> None:
        """Records a memory fence of lanes."""
        self.fenced[lanes] = self.now
        self._acquire(lanes[self._has_observed[lanes]])

    def _acquire(self, lanes: IntArray) -> None:
        warps = np.unique(self._warp(lanes))
        self.met[warps] = np.maximum(self.met[warps], self._signalled[warps // self._warps])
        self.block_sync[lanes] = self.now + 1
        self._has_observed[lanes] = False

    def join_warp(self, lanes: IntArray, warp: IntArray) -> None:
        """Synchronises lanes of warps; what one was ordered after in the block, the others now are, too."""
        self.warp_sync[lanes] = self.now + 1
        self.shown[lanes] = self.copies_done[lanes]
        for known in (self.block_sync, self.clusters.known, *self.phases_known.values()):
            _share(known, lanes, warp)

    def fence_proxy(self, lanes: IntArray) -> None:
        """Records a `fence.proxy.async`: what precedes it is visible to the asynchronous proxy."""
        self.proxy_fence[lanes] = self.now
        np.maximum.at(self.block_fence, lanes // self.threads, self.block_sync[lanes])

    def is_shown(self, lanes: IntArray, makers: IntArray, times: IntArray) -> Mask:
        """Returns whether the asynchronous proxy sees mbarriers that `makers` of the grid made in steps `times`."""
        own = np.maximum(self.init_fence[lanes], self.init_fence[makers - self._first_lane])
        return np.asarray((times < own) | self.is_fenced(lanes, makers, times))

    def is_fenced(self, lanes: IntArray, writers: IntArray, times: IntArray) -> Mask:
        """Returns whether a `fence.proxy.async` followed writes: by writer, reader, or another thread after a barrier.

        `lanes` read by the asynchronous proxy; `writers` are numbers in the grid. The writes, in steps `times`, are
        ordered before the reads.
        """
        own = np.maximum(self.proxy_fence[lanes], self.proxy_fence[writers - self._first_lane])
        return np.asarray((times < own) | (times < self.block_fence[lanes // self.threads]))

    def is_copied(self, lanes: IntArray, kinds: Array, owners: IntArray, times: IntArray) -> Mask:
        """Returns whether asynchronous copies, begun in steps `times`, are complete as far as accessing lanes know.

        The owner of a COPY is the lane's number in the grid, of a BULK_COPY the transaction's number.
        """
        done = np.zeros(len(lanes), dtype=bool)
        own = kinds == COPY
        if own.any():
            local = owners[own] - self._first_lane
            mine, thread, other_thread = local == lanes[own], lanes[own] % self.threads, local % self.threads
            same_warp = (local - other_thread == lanes[own] - thread) & (thread // 32 == other_thread // 32)
            published = np.where(same_warp, np.maximum(self.published[local], self.shown[local]), self.published[local])
            has_met = mine | self.is_ordered(lanes[own], owners[own], times[own])
            done[own] = has_met & (times[own] <= np.where(mine, self.copies_done[local], published))
        if not len(bulk := np.flatnonzero(~own)):
            return done
        numbers, which = np.unique(owners[bulk], return_inverse=True)
        begun = np.array([self.transactions[int(number)] for number in numbers], dtype=np.int64)[which.ravel()]
        for barrier in set(begun[:, 0].tolist()) & self.phases_known.keys():
            these = begun[:, 0] == barrier
            who, phases, blocks = lanes[bulk[these]], *begun[these, 1:].T
            here, told = self.phases_known[barrier][who], self.clusters.told[barrier].ravel()[blocks]
            done[bulk[these]] = np.where(who // self.threads == blocks, here, told) > phases
        return done


class EarlierLaunches:
    """Which lanes of a launch that begins early know that the launches in front of it have ended.

    A lane does that has waited for them, or that a barrier orders after one of its block that has.
    """

    def __init__(self, ordering: Ordering, warp: IntArray, peers: int) -> None:
        """Before any wait; `warp`, shape (lanes,), are numbers of warps, `peers` those of a cluster."""
        self._ordering, self._warp, self._peers = ordering, warp, peers
        self._has_waited = np.zeros(len(warp), dtype=bool)
        # Shape (warps,): the first lane that waited, -1 for none, and the step
        self._first, self._when = np.full(int(warp.max()) + 1, -1), np.zeros(int(warp.max()) + 1, dtype=np.int64)

    def wait(self, lanes: IntArray) -> None:
        """Records that lanes wait."""
        self._has_waited[lanes] = True
        warps, first = np.unique(self._warp[lanes], return_index=True)
        is_first = self._first[warps] < 0
        self._first[warps[is_first]] = lanes[first[is_first]]
        self._when[warps[is_first]] = self._ordering.now

    @property
    def are_awaited(self) -> bool:
        """Whether any lane has waited."""
        return bool(self._has_waited.any())

    def are_over(self, lanes: IntArray) -> Mask:
        """Returns which lanes know it now."""
        known = self._has_waited[lanes]
        for peer in range(self._peers):
            warp = self._warp[lanes] // self._peers * self._peers + peer
            others = self._ordering.in_grid(self._first[warp])
            known |= (self._first[warp] >= 0) & self._ordering.is_ordered(lanes, others, self._when[warp])
        return known


def _share(known: IntArray, lanes: IntArray, group: IntArray) -> None:
    """Gives each lane the most that any lane of its group knows."""
    best = np.zeros(int(group.max()) + 1, dtype=np.int64)
    np.maximum.at(best, group, known[lanes])
    known[lanes] = best[group]
