"""Tensor memory of sm_100, in which sums of `tcgen05.mma` lie: of each block 128 lanes and 512 columns of 32 bits.

A warp reserves columns for its block, a power of two of them, and has to give them back before the block ends. An
address has a lane in its upper half and a column in its lower (PTX ISA, "Tensor Memory").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gdnbench.ptx.numbers import Array, IntArray, Mask
from gdnbench.ptx.ordering import Ordering
from gdnbench.ptx.program import Fault

LANES, COLUMNS, LEAST_COLUMNS = 128, 512, 32
Note = Callable[[Fault, Any, str], None]
"""Reports a fault of the current instruction in the lanes that a mask marks, if any."""


class TensorMemory:
    """The tensor memory of some blocks; `blocks`, shape (n,), are their numbers among these."""

    def __init__(self, blocks: int) -> None:
        # Shape (blocks, 512), the first column of the allocation that has a column, plus one; 0 for none
        self._owner = np.zeros((blocks, COLUMNS), dtype=np.int64)
        # Shape (blocks, 128, columns): those that were ever allocated, and whether they have been written
        self._held = np.zeros((blocks, LANES, 0), dtype=np.uint32)
        self._written = np.zeros(self._held.shape, dtype=bool)
        # Shape (blocks, 128, columns): the number in the grid of the thread that stored last, and the step; 0 for never
        self._by, self._when = (np.zeros(self._held.shape, dtype=np.int64) for _ in range(2))
        # Shape (blocks, 512), the step of the last product whose sums a column has; 0 for none
        self._made = np.zeros((blocks, COLUMNS), dtype=np.int64)

    def allocate(self, blocks: IntArray, count: int, note: Note) -> IntArray:
        """Reserves `count` columns in each block, and returns the addresses."""
        bad = count < LEAST_COLUMNS or count > COLUMNS or count & (count - 1)
        note(Fault.OUT_OF_BOUNDS, np.full(len(blocks), bool(bad)), f"reserves {count} columns of tensor memory")
        if bad:
            return np.zeros(len(blocks), dtype=np.int64)
        free = (self._owner[blocks] == 0).reshape(len(blocks), -1, count).all(axis=2)
        note(Fault.BARRIER, ~free.any(axis=1), f"waits for {count} columns of tensor memory that nobody gives back")
        first: IntArray = free.argmax(axis=1).astype(np.int64) * count
        for block, column in zip(blocks, first, strict=True):
            self._owner[block, column : column + count] = column + 1
        width = max(self._held.shape[2], int(first.max()) + count)
        more = ((0, 0), (0, 0), (0, width - self._held.shape[2]))
        self._held, self._written = np.pad(self._held, more), np.pad(self._written, more)
        self._by, self._when = np.pad(self._by, more), np.pad(self._when, more)
        return first

    def free(self, blocks: IntArray, addresses: IntArray, count: int, note: Note) -> None:
        """Gives back `count` columns of each block, which an allocation has to have reserved."""
        columns = np.clip(addresses[:, None] + np.arange(count), 0, COLUMNS - 1)
        owners = self._owner[blocks[:, None], columns]
        note(Fault.OUT_OF_BOUNDS, (owners != addresses[:, None] + 1).any(axis=1), "gives back what it has not reserved")
        for block, column in zip(blocks, addresses, strict=True):
            self._owner[block, column : column + count] = 0
            self._written[block, :, column : column + count] = False
            self._made[block, column : column + count] = 0

    def is_left(self) -> bool:
        """Returns whether a block has not given back what it reserved."""
        return bool(self._owner.any())

    def read(self, blocks: IntArray, lanes: IntArray, columns: IntArray, note: Note) -> Array:
        """Returns bits, shape (n, k), of lanes and columns of that shape; zero where nothing is reserved."""
        inside = self._inside(blocks, lanes, columns, note, "reads")
        lanes, columns = np.where(inside, lanes, 0), np.where(inside, columns, 0)
        unwritten = inside & ~self._written[blocks[:, None], lanes, columns]
        note(Fault.UNINITIALISED, unwritten.any(axis=1), "reads tensor memory that nobody wrote")
        return np.where(inside, self._held[blocks[:, None], lanes, columns], np.uint32(0))

    def write(self, blocks: IntArray, lanes: IntArray, columns: IntArray, bits: Array, note: Note) -> None:
        """Writes bits, shape (n, k), likewise."""
        inside = self._inside(blocks, lanes, columns, note, "writes")
        place = (np.broadcast_to(blocks[:, None], inside.shape)[inside], lanes[inside], columns[inside])
        self._held[place], self._written[place] = bits[inside], True

    def note_store(self, blocks: IntArray, lanes: IntArray, columns: IntArray, who: IntArray, now: int) -> None:
        """Records that threads `who` of the grid, shape (n,), store into lanes and columns of shape (n, k)."""
        place = blocks[:, None], lanes, np.clip(columns, 0, self._held.shape[2] - 1)
        self._by[place], self._when[place] = who[:, None], now

    def stores(self, blocks: IntArray, lanes: IntArray, columns: IntArray) -> tuple[IntArray, IntArray]:
        """Returns who stored last into lanes and columns of shape (n, k), and when, 0 for never."""
        place = blocks[:, None], lanes, np.clip(columns, 0, self._held.shape[2] - 1)
        return self._by[place], self._when[place]

    def make(self, blocks: IntArray, columns: IntArray, now: int) -> None:
        """Records that a product of step `now` has its sums in columns, shape (n, k), of blocks."""
        self._made[blocks[:, None], np.clip(columns, 0, COLUMNS - 1)] = now

    def made(self, blocks: IntArray, columns: IntArray) -> IntArray:
        """Returns the step of the last product with sums in columns, shape (n, k); shape (n,), 0 for none."""
        last: IntArray = self._made[blocks[:, None], np.clip(columns, 0, COLUMNS - 1)].max(axis=1)
        return last

    def _inside(self, blocks: IntArray, lanes: IntArray, columns: IntArray, note: Note, verb: str) -> Mask:
        known = (lanes >= 0) & (lanes < LANES) & (columns >= 0) & (columns < self._held.shape[2])
        inside = known & (self._owner[blocks[:, None], np.where(known, columns, 0)] > 0)
        text = f"{verb} tensor memory beside the columns that its block reserved"
        note(Fault.OUT_OF_BOUNDS, ~inside.all(axis=1), text)
        return np.asarray(inside)


class Commits:
    """Which products of its block a thread knows to be complete: those before a commit whose phase it waited for.

    A block's products are taken to be begun by one thread, and a commit to stand for all of them before it.
    """

    def __init__(self, ordering: Ordering, block: IntArray) -> None:
        """Takes the block of each lane."""
        self._ordering, self._block = ordering, block
        # Each commit's step, the address of its mbarrier, and, by block, the phase; beyond any where it has none
        self._commits: list[tuple[int, int, IntArray]] = []

    def add(self, barrier: int, blocks: IntArray, phases: IntArray) -> None:
        """Records that commits of this step arrive in phases of an mbarrier in some blocks."""
        every = np.full(int(self._block.max()) + 1, np.iinfo(np.int64).max)
        every[blocks] = phases
        self._commits.append((self._ordering.now, barrier, every))

    def known(self, lanes: IntArray) -> IntArray:
        """Returns, for each lane, the step before which products of its block are complete as far as it knows."""
        steps = np.zeros(len(lanes), dtype=np.int64)
        for step, barrier, phases in self._commits:
            known = self._ordering.phases_known.get(barrier)
            if known is not None:
                steps[known[lanes] > phases[self._block[lanes]]] = step
        return steps
