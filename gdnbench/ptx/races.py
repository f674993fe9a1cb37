"""Which accesses race: for every few bytes, who wrote and read them last and when.

What is reported is a race on every GPU, for no barrier orders it, whatever the order in which this interpreter happens
to run threads. The reverse does not hold: of many readers one is remembered, and mbarriers are taken to order more than
they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdnbench.ptx.numbers import Array
from gdnbench.ptx.ordering import ATOMIC, BULK_COPY, COPY, NO_COPY, IntArray, Ordering

NOBODY = -1
ONE, MANY_IN_WARP, MANY = 0, 1, 2


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
        any_of_block = np.where(same_block, ordering.block_sync[lanes], 0)
        limit = np.where(stored == MANY, any_of_block, ordering.limit(lanes, before))
        times = self._read_time[flat]
        is_over = (times < limit) | ordering.is_ordered_by_cluster(lanes, before, times)
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

    def update(self, ordering: Ordering, lanes: IntArray, granules: IntArray, step: int) -> Conflict | None:
        """Notes atomics; tells whether they race with what was done before, by others than atomics."""
        all_of_it = np.ones(granules.shape, dtype=bool)
        by_store = self._copy[granules] != ATOMIC
        conflict = self._against_writes(ordering, lanes, granules, by_store) or self._against_reads(
            ordering, lanes, granules, all_of_it
        )
        who = ordering.in_grid(lanes)
        self._note_writer(granules, np.broadcast_to(who[:, None], granules.shape), ordering.now, step, ATOMIC)
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
        copied = np.isin(self._copy[granules], (COPY, BULK_COPY))
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
        same_block = others // ordering.threads == ordering.in_grid(mine) // ordering.threads
        any_of_block = np.where(same_block, ordering.block_sync[mine], 0)
        fine = times < np.where(kind == MANY, any_of_block, ordering.limit(mine, others))
        fine |= (kind == ONE) & (others == ordering.in_grid(mine))
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
