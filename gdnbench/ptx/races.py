"""Which accesses are ordered by barriers, and which race: for every few bytes, who wrote and read them last and when.

Time is the number of the step in which the interpreter executed an access. An access of another thread is ordered
before one's own if it lies before the last barrier that both took part in, of the block or of the cluster. So what is
reported is a race on every GPU, whatever the order in which this interpreter happens to run threads. The reverse does
not hold: of many readers one is remembered, and a thread that waited for an mbarrier's phase is taken to be ordered
after all that was done before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdnbench.ptx.cluster_barriers import ClusterBarriers
from gdnbench.ptx.grid import BARRIERS
from gdnbench.ptx.numbers import Array

IntArray = npt.NDArray[np.int64]
NOBODY = -1
ONE, MANY_IN_WARP, MANY = 0, 1, 2
NO_COPY, COPY, BULK_COPY = 0, 1, 2


@dataclass(frozen=True)
class Conflict:
    """Accesses that race.

    Attributes:
        lanes: positions, among those that access now, of the lanes in conflict.
        other: number of the other thread in the grid, for the first of them.
        other_step: number of the instruction by which the other accessed.
        is_copy: whether the other access is an asynchronous copy.
    """

    lanes: IntArray
    other: int
    other_step: int
    is_copy: bool = False


class Ordering:
    """What each lane knows of the others' progress.

    Attributes:
        now: the step.
        threads: of a block.
        block_sync: shape (lanes,), steps before which the block's accesses are ordered before what the lane does.
        warp_sync: likewise of the warp's accesses.
        copies_done: steps up to which the lane's own asynchronous copies are complete.
        published: likewise, as the block's other threads know it since the last barrier.
        shown: likewise, as the warp's other lanes know it since the last barrier of the warp.
        proxy_fence: the step of the lane's last `fence.proxy.async`.
        block_fence: shape (blocks,), steps before which the block's accesses lay before a barrier that some thread met
            and then executed `fence.proxy.async`.
        clusters: the barriers of clusters.
        phases_known: of each mbarrier, by its address, how many phases the lane knows to be complete.
    """

    def __init__(self, first_lane: int, lanes: int, threads: int, cluster: int = 1) -> None:
        self.now = 1
        self.threads = threads
        self._first_lane = first_lane
        self.block_sync = np.zeros(lanes, dtype=np.int64)
        self.warp_sync = np.zeros(lanes, dtype=np.int64)
        self.copies_done = np.zeros(lanes, dtype=np.int64)
        self.published = np.zeros(lanes, dtype=np.int64)
        self.shown = np.zeros(lanes, dtype=np.int64)
        self.proxy_fence = np.zeros(lanes, dtype=np.int64)
        self.block_fence = np.zeros(lanes // threads, dtype=np.int64)
        self.clusters = ClusterBarriers(lanes, threads * cluster)
        self.phases_known: dict[int, IntArray] = {}
        self.transactions: list[tuple[int, int]] = []
        self._brought: dict[int, dict[int, IntArray]] = {}
        self._left: dict[int, IntArray] = {}  # by mbarrier, for each block and barrier of it

    def in_grid(self, lanes: IntArray) -> IntArray:
        """Numbers in the grid of lanes of this part of it."""
        return lanes + self._first_lane

    def is_ordered(self, lanes: IntArray, others: IntArray, times: IntArray) -> npt.NDArray[np.bool_]:
        """Whether accesses of other lanes lie before what lanes do now; `others` are numbers in the grid."""
        mine = self.in_grid(lanes)
        same_block = others // self.threads == mine // self.threads
        thread, other_thread = mine % self.threads, others % self.threads
        same_warp = same_block & (thread // 32 == other_thread // 32)
        limit = np.where(same_warp, np.maximum(self.warp_sync[lanes], self.block_sync[lanes]), self.block_sync[lanes])
        by_block = (others == mine) | (same_block & (times < limit))
        return np.asarray(by_block | self.is_ordered_by_cluster(lanes, others, times))

    def is_ordered_by_cluster(self, lanes: IntArray, others: IntArray, times: IntArray) -> npt.NDArray[np.bool_]:
        """Whether they do by the barrier of their cluster."""
        return self.clusters.is_ordered(lanes, others - self._first_lane, times)

    def begin_transaction(self, barrier: int, phase: int) -> int:
        """The number of a bulk copy that completes with a phase of an mbarrier, told by its address."""
        self.transactions.append((barrier, phase))
        return len(self.transactions) - 1

    def bring(self, lanes: IntArray, barrier: int) -> None:
        """Lanes arrive at an mbarrier: those that wait for it will know what these know."""
        self.published[lanes] = self.copies_done[lanes]
        brought = self._brought.setdefault(barrier, {})
        for other, known in self.phases_known.items():
            most = brought.setdefault(other, np.zeros(len(self.block_sync) // self.threads, dtype=np.int64))
            np.maximum.at(most, lanes // self.threads, known[lanes])

    def learn_phase(self, lanes: IntArray, barrier: int, phases: IntArray) -> None:
        """Lanes have waited until so many phases of an mbarrier were complete."""
        known = self._known(barrier)
        known[lanes] = np.maximum(known[lanes], phases)
        self.block_sync[lanes] = self.now + 1
        for other, most in self._brought.get(barrier, {}).items():
            known = self.phases_known[other]
            known[lanes] = np.maximum(known[lanes], most[lanes // self.threads])

    def learn_parity(self, lanes: IntArray, barrier: int, parity: IntArray, first: IntArray) -> None:
        """Lanes have waited for a phase of an mbarrier of that parity, and know no more than that it must be complete.

        Such a wait ends, too, where the phase before is not complete. A lane that does not know of that one has waited
        for nothing: a GPU may let it go on at once. Phases before the `first`,
        with which the mbarrier was initialised, are over.
        """
        known = np.maximum(self._known(barrier)[lanes], first)
        news = known & 1 == parity & 1
        self.learn_phase(lanes[news], barrier, known[news] + 1)

    def _known(self, barrier: int) -> IntArray:
        return self.phases_known.setdefault(barrier, np.zeros(len(self.block_sync), dtype=np.int64))

    def leave(self, lanes: IntArray, block: IntArray, numbers: IntArray) -> None:
        """Lanes arrive at a barrier of their block and do not wait: those that do will know what these know."""
        self.published[lanes] = self.copies_done[lanes]
        for barrier, known in self.phases_known.items():
            left = self._left.setdefault(barrier, np.zeros((len(self.block_fence), BARRIERS), dtype=np.int64))
            np.maximum.at(left, (block, numbers), known[lanes])

    def join(self, lanes: IntArray, block: IntArray, numbers: IntArray) -> None:
        """A barrier of all of these lanes, whose blocks and barriers are given: what one knows, all know."""
        self.block_sync[lanes] = self.now + 1
        self.published[lanes] = self.copies_done[lanes]
        for known in (self.clusters.known, *self.phases_known.values()):
            _share(known, lanes, block)
        for barrier, left in self._left.items():
            known = self.phases_known[barrier]
            known[lanes] = np.maximum(known[lanes], left[block, numbers])

    def join_warp(self, lanes: IntArray, warp: IntArray) -> None:
        """Likewise a barrier of lanes of warps; what one was ordered after in the block, the others now are, too."""
        self.warp_sync[lanes] = self.now + 1
        self.shown[lanes] = self.copies_done[lanes]
        for known in (self.block_sync, self.clusters.known, *self.phases_known.values()):
            _share(known, lanes, warp)

    def fence_proxy(self, lanes: IntArray) -> None:
        """Lanes execute `fence.proxy.async`: what lies before it is visible to the asynchronous proxy."""
        self.proxy_fence[lanes] = self.now
        np.maximum.at(self.block_fence, lanes // self.threads, self.block_sync[lanes])

    def is_fenced(self, lanes: IntArray, writers: IntArray, times: IntArray) -> npt.NDArray[np.bool_]:
        """Whether a `fence.proxy.async` came after writes: of the writer, of the reader, or of another after a barrier.

        Args:
            lanes: that read by the asynchronous proxy.
            writers: their numbers in the grid.
            times: steps of the writes, which are ordered before the reads.
        """
        own = np.maximum(self.proxy_fence[lanes], self.proxy_fence[writers - self._first_lane])
        return np.asarray((times < own) | (times < self.block_fence[lanes // self.threads]))

    def is_copied(self, lanes: IntArray, kinds: Array, owners: IntArray, times: IntArray) -> npt.NDArray[np.bool_]:
        """Whether asynchronous copies are complete as far as lanes know.

        Args:
            lanes: that access what was copied.
            kinds: COPY or BULK_COPY.
            owners: number in the grid of the lane that copied; of a bulk copy, the transaction's number.
            times: steps in which they were begun.
        """
        done = np.zeros(len(lanes), dtype=bool)
        own = kinds == COPY
        if own.any():
            local = owners[own] - self._first_lane
            mine, thread, other_thread = local == lanes[own], lanes[own] % self.threads, local % self.threads
            same_warp = (local - other_thread == lanes[own] - thread) & (thread // 32 == other_thread // 32)
            told = np.where(same_warp, np.maximum(self.published[local], self.shown[local]), self.published[local])
            done[own] = times[own] <= np.where(mine, self.copies_done[local], told)
        bulk = np.flatnonzero(~own)
        if not len(bulk):
            return done
        numbers, which = np.unique(owners[bulk], return_inverse=True)
        begun = np.array([self.transactions[int(number)] for number in numbers], dtype=np.int64)[which.ravel()]
        for barrier in np.unique(begun[:, 0]):
            these = begun[:, 0] == barrier
            known = self.phases_known.get(int(barrier))
            done[bulk[these]] = known is not None and known[lanes[bulk[these]]] > begun[these, 1]
        return done


def _share(known: IntArray, lanes: IntArray, group: IntArray) -> None:
    """Gives lanes the most that any lane of their group knows."""
    best = np.zeros(int(group.max()) + 1, dtype=np.int64)
    np.maximum.at(best, group, known[lanes])
    known[lanes] = best[group]


class Shadow:
    """For each granule of a piece of memory, who wrote and read it last.

    Args:
        granules: how many there are.
    """

    def __init__(self, granules: int) -> None:
        self._writer = np.full(granules, NOBODY, dtype=np.int64)
        self._write_time = np.zeros(granules, dtype=np.int64)
        self._write_step = np.zeros(granules, dtype=np.int32)
        self._copy = np.zeros(granules, dtype=np.uint8)
        self._reader = np.full(granules, NOBODY, dtype=np.int64)
        self._read_time = np.zeros(granules, dtype=np.int64)
        self._read_step = np.zeros(granules, dtype=np.int32)
        self._readers = np.zeros(granules, dtype=np.uint8)

    def read(self, ordering: Ordering, lanes: IntArray, granules: IntArray, step: int) -> Conflict | None:
        """Notes a read; tells whether it races with an earlier write.

        Args:
            ordering: of the lanes.
            lanes: shape (n,), that read.
            granules: shape (n, k), what each reads.
            step: number of the instruction.
        """
        conflict = self.conflict_of_read(ordering, lanes, granules)
        self.note_read(ordering, lanes, granules, step)
        return conflict

    def conflict_of_read(self, ordering: Ordering, lanes: IntArray, granules: IntArray) -> Conflict | None:
        """Whether a read, which is not noted, races with an earlier write."""
        return self._against_writes(ordering, lanes, granules)

    def note_read(self, ordering: Ordering, lanes: IntArray, granules: IntArray, step: int) -> None:
        """Notes a read that ends now."""
        flat, who = granules.ravel(), np.repeat(ordering.in_grid(lanes), granules.shape[1])
        kind = self._readers_so_far(ordering, np.repeat(lanes, granules.shape[1]), who, flat)
        self._reader[flat] = who
        winner = self._reader[flat]
        together = np.where(winner == who, ONE, np.where(self._same_warp(ordering, winner, who), MANY_IN_WARP, MANY))
        self._readers[flat] = 0
        np.maximum.at(self._readers, flat, np.maximum(kind, together).astype(np.uint8))
        self._read_time[flat], self._read_step[flat] = ordering.now, step

    def unfenced(self, ordering: Ordering, lanes: IntArray, granules: IntArray) -> Conflict | None:
        """Writes that the asynchronous proxy may not see, for no `fence.proxy.async` follows.

        Args:
            ordering: of the lanes.
            lanes: shape (n,), that read.
            granules: shape (n, k), what each reads by the asynchronous proxy.
        """
        writer = self._writer[granules]
        is_generic = (writer != NOBODY) & (self._copy[granules] != BULK_COPY)
        rows, columns = np.nonzero(is_generic)
        picked = granules[rows, columns]
        bad = ~ordering.is_fenced(lanes[rows], writer[rows, columns], self._write_time[picked])
        rows, columns = rows[bad], columns[bad]
        picked = granules[rows, columns]
        none = np.zeros(len(rows), dtype=bool)
        return self._conflict(rows, ~none, writer[rows, columns], self._write_step[picked], none)

    def last_write(self, granules: IntArray) -> int:
        """The number of the instruction that wrote to one of some granules last."""
        flat = granules.ravel()
        return int(self._write_step[flat[np.argmax(self._write_time[flat])]])

    def _readers_so_far(self, ordering: Ordering, lanes: IntArray, who: IntArray, flat: IntArray) -> IntArray:
        """ONE, or how many read granules since the last barrier that the lanes took part in, these among them."""
        before, stored = self._reader[flat], self._readers[flat]
        same_warp = self._same_warp(ordering, before, who)
        same_block = before // ordering.threads == who // ordering.threads
        block_sync, warp_sync = ordering.block_sync[lanes], ordering.warp_sync[lanes]
        limit = np.where(same_warp & (stored != MANY), np.maximum(block_sync, warp_sync), block_sync)
        times = self._read_time[flat]
        is_over = (same_block & (times < limit)) | ordering.is_ordered_by_cluster(lanes, before, times)
        is_open = (before != NOBODY) & ~is_over
        apart = np.where(before == who, ONE, np.where(same_warp, MANY_IN_WARP, MANY))
        return np.where(is_open, np.maximum(stored, apart), ONE).astype(np.int64)

    def write(
        self,
        ordering: Ordering,
        lanes: IntArray,
        granules: IntArray,
        step: int,
        changed: npt.NDArray[np.bool_],
        lost: npt.NDArray[np.bool_],
    ) -> Conflict | None:
        """Notes a write; tells whether it races with earlier reads or writes, or with other lanes of the same step.

        Args:
            ordering: of the lanes.
            lanes: shape (n,), that write.
            granules: shape (n, k), what each writes.
            step: number of the instruction.
            changed: shape (n, k), whether it holds other bytes than before. Writing what is there already is no race:
                its outcome does not depend on the order.
            lost: shape (n, k), whether another lane of this step has given it other bytes.
        """
        conflict = self._against_writes(ordering, lanes, granules, changed) or self._against_reads(
            ordering, lanes, granules, changed
        )
        who = ordering.in_grid(lanes)
        self._note_writer(granules, np.broadcast_to(who[:, None], granules.shape), ordering.now, step, NO_COPY)
        if conflict is None and lost.any():
            winner = int(self._writer[granules[lost]][0])
            conflict = Conflict(np.flatnonzero(lost.any(axis=1)), winner, step)
        return conflict

    def copy(
        self, ordering: Ordering, lanes: IntArray, granules: IntArray, step: int, transactions: IntArray | None
    ) -> Conflict | None:
        """Notes an asynchronous copy into granules; tells whether it races with what was done before.

        Args:
            ordering: of the lanes.
            lanes: shape (n,), that ask for it.
            granules: shape (n, k), where it goes.
            step: number of the instruction.
            transactions: shape (n,), of bulk copies; None for `cp.async`.
        """
        all_of_it = np.ones(granules.shape, dtype=bool)
        conflict = self._against_writes(ordering, lanes, granules, all_of_it) or self._against_reads(
            ordering, lanes, granules, all_of_it
        )
        owners = ordering.in_grid(lanes) if transactions is None else transactions
        kind = COPY if transactions is None else BULK_COPY
        self._note_writer(granules, np.broadcast_to(owners[:, None], granules.shape), ordering.now, step, kind)
        return conflict

    def _note_writer(self, granules: IntArray, owners: IntArray, now: int, step: int, copy: int) -> None:
        self._writer[granules], self._write_time[granules] = owners, now
        self._write_step[granules], self._copy[granules] = step, copy

    def _against_writes(
        self, ordering: Ordering, lanes: IntArray, granules: IntArray, counts: npt.NDArray[np.bool_] | None = None
    ) -> Conflict | None:
        writer, who = self._writer[granules], ordering.in_grid(lanes)[:, None]
        copied = self._copy[granules] != NO_COPY
        suspect = (writer != NOBODY) & ((writer != who) | copied)
        if counts is not None:
            suspect &= counts
        if not suspect.any():
            return None
        rows, columns = np.nonzero(suspect)
        picked = granules[rows, columns]
        owners, times, is_copy = writer[rows, columns], self._write_time[picked], copied[rows, columns]
        fine = np.zeros(len(rows), dtype=bool)
        plain = ~is_copy
        fine[plain] = ordering.is_ordered(lanes[rows[plain]], owners[plain], times[plain])
        if is_copy.any():
            kinds = self._copy[picked[is_copy]]
            fine[is_copy] = ordering.is_copied(lanes[rows[is_copy]], kinds, owners[is_copy], times[is_copy])
        return self._conflict(rows, ~fine, owners, self._write_step[picked], is_copy)

    def _against_reads(
        self, ordering: Ordering, lanes: IntArray, granules: IntArray, changed: npt.NDArray[np.bool_]
    ) -> Conflict | None:
        reader, many = self._reader[granules], self._readers[granules]
        who = ordering.in_grid(lanes)[:, None]
        suspect = (reader != NOBODY) & ((reader != who) | (many != ONE)) & changed
        if not suspect.any():
            return None
        rows, columns = np.nonzero(suspect)
        picked, mine = granules[rows, columns], lanes[rows]
        others, times, kind = reader[rows, columns], self._read_time[picked], many[rows, columns]
        same_warp = self._same_warp(ordering, others, ordering.in_grid(mine))
        fine = np.where(
            kind == ONE,
            ordering.is_ordered(mine, others, times),
            np.where(
                (kind == MANY_IN_WARP) & same_warp,
                times < np.maximum(ordering.warp_sync[mine], ordering.block_sync[mine]),
                (others // ordering.threads == ordering.in_grid(mine) // ordering.threads)
                & (times < ordering.block_sync[mine]),
            ),
        )
        fine |= ordering.is_ordered_by_cluster(mine, others, times)
        return self._conflict(rows, ~fine, others, self._read_step[picked], np.zeros(len(rows), dtype=bool))

    @staticmethod
    def _same_warp(ordering: Ordering, one: IntArray, other: IntArray) -> npt.NDArray[np.bool_]:
        threads = ordering.threads
        same_block = one // threads == other // threads
        result: npt.NDArray[np.bool_] = same_block & (one % threads // 32 == other % threads // 32)
        return result

    @staticmethod
    def _conflict(rows: IntArray, bad: Array, others: IntArray, steps: Array, is_copy: Array) -> Conflict | None:
        if not bad.any():
            return None
        first = int(np.flatnonzero(bad)[0])
        return Conflict(np.unique(rows[bad]), int(others[first]), int(steps[first]), bool(is_copy[first]))
