"""Finds races: for every few bytes, who wrote and read them last and when.

A reported race is one on every GPU, for no barrier orders it, in whatever order this interpreter runs threads. Some
races are missed: of many readers one is remembered, and an mbarrier is taken to order what precedes any arrival at it
that there was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdnbench.ptx.numbers import Array, IntArray, Mask
from gdnbench.ptx.ordering import ATOMIC, BULK_COPY, COPY, NO_COPY, Ordering

NOBODY = -1
ONE, MANY_IN_WARP, MANY = 0, 1, 2


@dataclass(frozen=True)
class Pairs:
    """Pairs of accesses to the same bytes that nothing orders; each array has the shape (n,)."""

    rows: IntArray  # positions among the lanes that access now
    granules: IntArray
    others: IntArray  # numbers of the other threads in the grid
    steps: Array  # the instructions by which these accessed
    is_copy: Array  # whether by an asynchronous copy

    def of(self, which: Mask) -> Pairs:
        """Returns the pairs that a mask selects."""
        parts = (each[which] for each in (self.rows, self.granules, self.others, self.steps, self.is_copy))
        return Pairs(*parts)


@dataclass(frozen=True)
class Conflict:
    """Accesses that race; `lanes` are positions, among those that access now, of the lanes in conflict."""

    lanes: IntArray
    other: int  # of the first, the other thread's number in the grid
    other_step: int  # the instruction by which that accessed
    is_copy: bool = False  # whether by an asynchronous copy
    doubtful: Pairs | None = None  # of strong accesses, a race only where their bytes are no flag; else None


@dataclass(frozen=True)
class Touch:
    """Granules, shape (n, k), that lanes, shape (n,), access by the instruction of number `step`."""

    ordering: Ordering
    lanes: IntArray
    granules: IntArray
    step: int
    is_strong: bool = False  # volatile, or orders others

    @property
    def who(self) -> IntArray:
        """The lanes' numbers in the grid."""
        return self.ordering.in_grid(self.lanes)


class Shadow:
    """The last writer and readers of each of `granules` granules of memory."""

    def __init__(self, granules: int) -> None:
        self._writer = np.full(granules, NOBODY, dtype=np.int64)
        self._write_time = np.zeros(granules, dtype=np.int64)
        self._write_step = np.zeros(granules, dtype=np.int32)
        self._copy = np.zeros(granules, dtype=np.uint8)
        self._reader = np.full(granules, NOBODY, dtype=np.int64)
        self._read_time = np.zeros(granules, dtype=np.int64)
        self._read_step = np.zeros(granules, dtype=np.int32)
        self._readers = np.zeros(granules, dtype=np.uint8)
        self._is_strong_write = np.zeros(granules, dtype=bool)
        self._is_strong_read = np.zeros(granules, dtype=bool)
        self._is_signal = np.zeros(granules, dtype=bool)

    def note_signal(self, granules: IntArray) -> None:
        """Marks granules as flags, for which strong accesses and atomics need no order."""
        self._is_signal[granules] = True

    def settled(self, pairs: Pairs) -> Conflict | None:
        """Returns the race among doubtful pairs, as far as flags are known by now, or None."""
        races = ~self._is_signal[pairs.granules]
        return _conflict(pairs.of(races)) if races.any() else None

    def read(self, touch: Touch) -> Conflict | None:
        """Records a read; returns its race with an earlier write, or None."""
        conflict = self.against_writes(touch)
        self.note_read(touch)
        return conflict

    def note_read(self, touch: Touch) -> None:
        """Records a read that ends now."""
        flat, columns = touch.granules.ravel(), touch.granules.shape[1]
        ordering, who = touch.ordering, np.repeat(touch.who, columns)
        kind = self._readers_so_far(ordering, np.repeat(touch.lanes, columns), who, flat)
        self._is_strong_read[flat] = touch.is_strong & (self._is_strong_read[flat] | (kind == ONE))
        self._reader[flat] = who
        winner = self._reader[flat]
        together = np.where(winner == who, ONE, np.where(ordering.same_warp(winner, who), MANY_IN_WARP, MANY))
        self._readers[flat] = 0
        np.maximum.at(self._readers, flat, np.maximum(kind, together).astype(np.uint8))
        self._read_time[flat], self._read_step[flat] = ordering.now, touch.step

    def unfenced(self, touch: Touch) -> Conflict | None:
        """Returns writes that the asynchronous proxy may not see, for no `fence.proxy.async` follows, or None."""
        written = (self._writer[touch.granules] != NOBODY) & (self._copy[touch.granules] != BULK_COPY)
        rows, columns = np.nonzero(written)
        picked = touch.granules[rows, columns]
        bad = ~touch.ordering.is_fenced(touch.lanes[rows], self._writer[picked], self._write_time[picked])
        none = np.zeros(len(rows), dtype=bool)
        pairs = Pairs(rows, picked, self._writer[picked], self._write_step[picked], none)
        return _conflict(pairs.of(bad)) if bad.any() else None

    def last_write(self, granules: IntArray) -> int:
        """Returns the number of the instruction that wrote to one of the granules last."""
        flat = granules.ravel()
        return int(self._write_step[flat[np.argmax(self._write_time[flat])]])

    def _readers_so_far(self, ordering: Ordering, lanes: IntArray, who: IntArray, flat: IntArray) -> IntArray:
        """Returns how many read granules since the last barrier of `lanes`, these too: ONE, MANY_IN_WARP or MANY."""
        before, stored = self._reader[flat], self._readers[flat]
        limit = np.where(stored == MANY, ordering.limit_of_any(lanes, before), ordering.limit(lanes, before))
        times = self._read_time[flat]
        is_over = (times < limit) | ordering.is_ordered_by_cluster(lanes, before, times)
        is_open = (before != NOBODY) & ~is_over
        apart = np.where(before == who, ONE, np.where(ordering.same_warp(before, who), MANY_IN_WARP, MANY))
        return np.where(is_open, np.maximum(stored, apart), ONE).astype(np.int64)

    def write(self, touch: Touch, changed: Mask, lost: Mask) -> Conflict | None:
        """Records a write; returns its race with earlier accesses or with other lanes of the same step, or None.

        `changed` tells whether a granule gets other bytes than before: writing the same bytes is no race, for the
        outcome does not depend on the order. `lost` tells whether another lane of this step wrote other bytes there.
        """
        conflict = self._against_all(touch, changed, changed)
        self._note_writer(touch, touch.who, NO_COPY)
        self._is_strong_write[touch.granules] = touch.is_strong
        if lost.any():
            rows = np.nonzero(lost)[0]
            picked, strong = touch.granules[lost], np.full(len(rows), touch.is_strong)
            pairs = Pairs(rows, picked, self._writer[picked], np.full(len(rows), touch.step), np.zeros_like(strong))
            conflict = _worse(conflict, self._conflict(pairs, strong))
        return conflict

    def update(self, touch: Touch) -> Conflict | None:
        """Records atomics; returns their race with earlier accesses other than atomics, or None."""
        by_store = self._copy[touch.granules] != ATOMIC
        conflict = self._against_all(touch, by_store, np.ones_like(by_store))
        self._note_writer(touch, touch.who, ATOMIC)
        return conflict

    def copy(self, touch: Touch, transactions: IntArray | None) -> Conflict | None:
        """Records an asynchronous copy; returns its race, or None. `transactions`, (n,), are None for `cp.async`."""
        every = np.ones(touch.granules.shape, dtype=bool)
        conflict = self._against_all(touch, every, every)
        if transactions is None:
            self._note_writer(touch, touch.who, COPY)
        else:
            self._note_writer(touch, transactions, BULK_COPY)
        return conflict

    def receive(self, touch: Touch, transaction: int) -> None:
        """Records what another block copies here, at a time that this block's threads need not know."""
        self._note_writer(touch, np.full(len(touch.lanes), transaction), BULK_COPY)

    def _note_writer(self, touch: Touch, owners: IntArray, copy: int) -> None:
        granules = touch.granules
        self._writer[granules], self._write_time[granules] = owners[:, None], touch.ordering.now
        self._write_step[granules], self._copy[granules] = touch.step, copy
        self._is_strong_write[granules] = False

    def _against_all(self, touch: Touch, counts: Mask, changed: Mask) -> Conflict | None:
        writes = self.against_writes(touch, counts)
        if writes is not None and writes.doubtful is None:
            return writes
        return _worse(writes, self._against_reads(touch, changed))

    def against_writes(self, touch: Touch, counts: Mask | None = None) -> Conflict | None:
        """Returns the race with earlier writes, of the granules that count, or None."""
        ordering, lanes, granules = touch.ordering, touch.lanes, touch.granules
        writer, copied = self._writer[granules], np.isin(self._copy[granules], (COPY, BULK_COPY))
        suspect = (writer != NOBODY) & ((writer != touch.who[:, None]) | copied)
        if counts is not None:
            suspect &= counts
        if not suspect.any():
            return None
        rows, columns = np.nonzero(suspect)
        picked = granules[rows, columns]
        owners, times, is_copy = writer[rows, columns], self._write_time[picked], copied[rows, columns]
        fine, plain = np.zeros(len(rows), dtype=bool), ~is_copy
        fine[plain] = ordering.is_ordered(lanes[rows[plain]], owners[plain], times[plain])
        if is_copy.any():
            kinds = self._copy[picked[is_copy]]
            fine[is_copy] = ordering.is_copied(lanes[rows[is_copy]], kinds, owners[is_copy], times[is_copy])
        pairs = Pairs(rows, picked, owners, self._write_step[picked], is_copy)
        return self._conflict(pairs.of(~fine), ((touch.is_strong | self._is_strong_write[picked]) & plain)[~fine])

    def _against_reads(self, touch: Touch, changed: Mask) -> Conflict | None:
        ordering, granules = touch.ordering, touch.granules
        reader, many = self._reader[granules], self._readers[granules]
        suspect = (reader != NOBODY) & ((reader != touch.who[:, None]) | (many != ONE)) & changed
        if not suspect.any():
            return None
        rows, columns = np.nonzero(suspect)
        picked, mine = granules[rows, columns], touch.lanes[rows]
        others, times, kind = reader[rows, columns], self._read_time[picked], many[rows, columns]
        limit = ordering.limit(mine, others, of_reads=True)
        fine = times < np.where(kind == MANY, ordering.limit_of_any(mine, others), limit)
        fine |= (kind == ONE) & (others == ordering.in_grid(mine))
        fine |= ordering.is_ordered_by_cluster(mine, others, times)
        pairs = Pairs(rows, picked, others, self._read_step[picked], np.zeros(len(rows), dtype=bool))
        return self._conflict(pairs.of(~fine), (touch.is_strong | self._is_strong_read[picked])[~fine])

    def _conflict(self, pairs: Pairs, is_strong: Array) -> Conflict | None:
        """Returns the race of pairs without a strong access; if all have one, a doubtful race unless they are flags."""
        if not is_strong.all():
            return _conflict(pairs.of(~is_strong))
        pairs = pairs.of(~self._is_signal[pairs.granules])
        return replace(_conflict(pairs), doubtful=pairs) if len(pairs.rows) else None


def _conflict(pairs: Pairs) -> Conflict:
    return Conflict(np.unique(pairs.rows), int(pairs.others[0]), int(pairs.steps[0]), bool(pairs.is_copy[0]))


def _worse(one: Conflict | None, other: Conflict | None) -> Conflict | None:
    """Returns one of two conflicts, one without doubt if there is one."""
    if one is None or (other is not None and one.doubtful is not None and other.doubtful is None):
        return other
    return one
