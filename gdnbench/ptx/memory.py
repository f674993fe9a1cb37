"""The memory that a kernel sees: tensors, shared and local memory, with every access checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gdnbench.ptx.barriers import PeerWatch
from gdnbench.ptx.numbers import BITS, Array, IntArray, Mask
from gdnbench.ptx.program import Fault, describe_outside
from gdnbench.ptx.races import Conflict, Shadow, Touch
from gdnbench.ptx.segments import (
    FIRST_SHARED,
    LOCAL_WINDOW,
    PEER_BITS,
    SHARED_WINDOW,
    Access,
    AccessPart,
    MemorySegment,
    PendingRead,
    SectorCounts,
    layout,
    nearest_tensor,
)

if TYPE_CHECKING:
    from gdnbench.ptx.machine import Machine

_VERBS = {
    "ld": "reads", "ldmatrix": "reads", "st": "writes", "stmatrix": "writes", "wgmma": "reads", "atom": "updates",
    "red": "updates",
}  # fmt: skip


class Memory:
    """All memory of the part of the grid that runs at once."""

    # shared_bytes, local_bytes: of a block, of a thread
    shared_bytes: int

    def __init__(
        self,
        machine: Machine,
        tensors: Sequence[MemorySegment],
        variables: Mapping[str, int],
        granule: int,
        polls: frozenset[int],
        sectors: SectorCounts | None,
    ) -> None:
        """Sets up the memory of a machine's lanes: see `Machine`."""
        self._machine, self.ordering, self.instructions = machine, machine.ordering, machine.program.instructions
        # Global memory, the module's variables first
        self.tensors, self._variables, self.polls, self._sectors = tensors, variables, polls, sectors
        self._shared_places, self.shared_bytes = layout(machine.program, "shared", machine.grid.shared_bytes)
        self._local_places, self.local_bytes = layout(machine.program, "local", 0)
        room = machine.blocks * self.shared_bytes
        granule = granule if self.shared_bytes % granule == 0 else 1
        written, shadow = np.zeros(room // granule, dtype=bool), Shadow(room // granule)
        # shared, local: the memory of all blocks, of all lanes, one after the other
        self.shared = MemorySegment("shared memory", np.zeros(room, dtype=np.uint8), granule, written, shadow)
        local = np.zeros(len(machine.block) * self.local_bytes, dtype=np.uint8)
        self.local = MemorySegment("local memory", local, 1)
        self._doubts: dict[tuple[int, int], tuple[Conflict, AccessPart, Access, str]] = {}  # by pair of instructions
        program, clusters = machine.program, machine.ordering.clusters
        # Blocks that may signal each other by flags or atomics are not watched.
        are_watched = program.cluster > 1 and not program.has_strong_accesses("shared__cluster", "global")
        watch = PeerWatch(clusters, program, machine.grid.threads, machine.findings)
        self._peers = watch if are_watched else None

    def address_of(self, name: str) -> IntArray | int | None:
        """Returns a variable's address in its own space, in a cluster for each running lane; None if it is unknown."""
        if name in self._shared_places:
            own = self._machine.own_ranks() if self._machine.program.cluster > 1 else 0
            return FIRST_SHARED + self._shared_places[name] + own
        return self._local_places.get(name, self._variables.get(name))

    def load(self, space: str, access: Access) -> Array:
        """Returns the elements that lanes read; shape (n, count), unsigned, zero where they may not be read."""
        values = np.zeros((len(access.lanes), access.count), dtype=BITS[access.size])
        if access.instruction.is_strong:
            self._order(access, writes=False)
        for part in self._parts(space, access, "reads"):
            elements = self._elements(part, access)
            values[part.rows] = part.segment.view(access.size)[elements]
            self._watch_read(part, access)
        return values

    def begin_read(self, access: Access) -> tuple[Array, list[PendingRead]]:
        """Reads shared memory by the asynchronous proxy: at once, but pending until `end_reads`.

        Returns the elements, shape (n, count), zero where they may not be read; and the pending reads.
        """
        values = np.zeros((len(access.lanes), access.count), dtype=BITS[access.size])
        pending = []
        for part in self._parts("shared", access, "reads"):
            elements, touch = self._elements(part, access), self._touch(part, access)
            values[part.rows] = part.segment.view(access.size)[elements]
            self._watch_initialised(part, access)
            shadow = part.segment.shadow
            if shadow is None:
                continue
            conflict = shadow.against_writes(touch)
            self._note_race(conflict, part, access, "reads")
            if conflict is None and (hidden := shadow.unfenced(touch)):
                at = self.instructions[hidden.other_step].at
                text = f"reads shared memory that is written at {at}, with no `fence.proxy.async` between"
                self._note(Fault.RACE, access, part.rows[hidden.lanes], text)
            begun = self.ordering.now
            pending.append(PendingRead(access, begun, touch.lanes, touch.granules, elements, values[part.rows]))
        return values, pending

    def end_reads(self, pending: PendingRead, done: Mask) -> PendingRead | None:
        """Ends a read for the lanes that `done` marks, and returns its rest; reports memory overwritten meanwhile."""
        shadow, mine = self.shared.shadow, pending.of(done)
        assert shadow is not None
        self.check_unchanged(mine)
        shadow.note_read(Touch(self.ordering, mine.lanes, mine.granules, mine.access.step))
        return None if done.all() else pending.of(~done)

    def check_unchanged(self, mine: PendingRead) -> None:
        """Reports memory that a read goes on reading and that was overwritten since it began."""
        shadow = self.shared.shadow
        assert shadow is not None
        now = self.shared.view(mine.access.size)[mine.elements]
        changed = (now != mine.values).any(axis=1)
        if changed.any():
            writer = self.instructions[shadow.last_write(mine.granules[changed])]
            reader = mine.access.instruction
            what = "copy" if reader.name == "cp" else f"`{reader.name}`"
            text = f"shared memory is overwritten while the {what} at {reader.at} reads it"
            self._machine.findings.add(Fault.RACE, writer.at, text, count=int(np.count_nonzero(changed)))

    def store(self, space: str, access: Access, values: Array) -> None:
        """Writes elements; `values` has the shape (n, count)."""
        if access.instruction.is_strong:
            self._order(access, reads=False)
        for part in self._parts(space, access, "writes"):
            elements, new = self._elements(part, access), values[part.rows]
            view = part.segment.view(access.size)
            before = view[elements]
            view[elements] = new
            self._watch_write(part, access, before != new, view[elements] != new)

    def update(self, space: str, access: Access, function: Any) -> Array:
        """Replaces one element per lane by an atomic; returns the old elements, shape (n,).

        `function` takes old elements and positions of lanes, of which no two name the same element.
        """
        old = np.zeros(len(access.lanes), dtype=BITS[access.size])
        self._order(access)
        for part in self._parts(space, access, "updates"):
            elements = self._elements(part, access)[:, 0]
            view = part.segment.view(access.size)
            self._watch_initialised(part, access)
            self._watch_update(part, access)
            for turn in _turns(elements):
                picked = elements[turn]
                old[part.rows[turn]] = view[picked]
                view[picked] = function(view[picked], part.rows[turn])
        return old

    def copy_in(
        self, source: tuple[str, Access], target: tuple[str, Access], taken: IntArray, bulk: IntArray | None
    ) -> None:
        """Copies asynchronously, byte by byte: at once, but readers must wait for it.

        `source` and `target` are spaces with each lane's access. `taken`, shape (n,), are bytes to read for each lane;
        zeros follow, and a lane that reads none may have any address. `bulk`, shape (n,), are the transactions of bulk
        copies, None for `cp.async`.
        """
        read = taken > 0
        values = np.zeros((len(taken), source[1].count), dtype=BITS[source[1].size])
        values[read] = self.load(source[0], source[1].of(read))
        values[np.arange(values.shape[1])[None, :] >= taken[:, None]] = 0
        for part, touch, shadow in self._write_copied(*target, values):
            conflict = shadow.copy(touch, None if bulk is None else bulk[part.rows])
            self._note_race(conflict, part, target[1], "copies over")

    def receive(self, access: Access, values: Array, transaction: int) -> None:
        """Writes to shared memory what a bulk copy brings from another block; `values` has the shape (n, count)."""
        for _, touch, shadow in self._write_copied("shared", access, values):
            shadow.receive(touch, transaction)

    def settle(self) -> None:
        """Reports what only the end of the run shows, such as races of strong accesses whose bytes were no flags."""
        if self._peers is not None:
            self._peers.settle()
        for doubt, part, access, verb in self._doubts.values():
            self._note_race(_settled(doubt, part), part, access, verb)

    def _write_copied(self, space: str, access: Access, values: Array) -> Iterator[tuple[AccessPart, Touch, Shadow]]:
        """Writes what a copy brings; yields the parts of which a shadow records who wrote."""
        for part in self._parts(space, access, "writes"):
            part.segment.data[self._elements(part, access)] = values[part.rows]
            touch = self._touch(part, access)
            if part.segment.written is not None:
                part.segment.written[touch.granules] = True
            if part.segment.shadow is not None:
                yield part, touch, part.segment.shadow

    def _parts(self, space: str, access: Access, verb: str) -> Iterator[AccessPart]:
        """Yields where accesses fall; reports and leaves out those that may not be made."""
        addresses = access.addresses.astype(np.int64)
        alignment = access.size if access.instruction.name == "cp" else access.nbytes
        misaligned = addresses % alignment != 0
        if misaligned.any():
            text = f"{verb} {access.nbytes} bytes at an address that is not a multiple of {alignment}"
            self._note(Fault.MISALIGNED, access, np.flatnonzero(misaligned), text)
        fine = np.flatnonzero(~misaligned)
        for segment, rows, places in self._located(space, access, addresses, fine, verb):
            inside = (places >= 0) & (places + access.nbytes <= self._room(segment))
            if not inside.all():
                first = int(places[~inside][0])
                text = describe_outside(verb, access.nbytes, first, segment.name, self._room(segment))
                self._note(Fault.OUT_OF_BOUNDS, access, rows[~inside], text)
            if inside.any():
                rows_inside = rows[inside]
                base = self._base(segment, access.lanes[rows_inside])
                if segment is self.shared and access.may_be_of_peers:
                    base += self._peer(access, rows_inside) * self.shared_bytes
                    self._watch_peers(access, rows_inside)
                part = AccessPart(segment, rows_inside, places[inside] + base)
                self._watch_launches(part, access, verb)
                yield part

    def _watch_launches(self, part: AccessPart, access: Access, verb: str) -> None:
        """Reports what an early launch does to bytes of launches that it has not waited for; marks what is written."""
        segment = part.segment
        if segment.changed is None:
            return
        every = part.places[:, None] + np.arange(access.nbytes)
        if segment.earlier is not None:
            theirs = np.flatnonzero(segment.earlier[every].any(axis=1))
            theirs = theirs[~self._machine.launches.are_over(access.lanes[part.rows[theirs]])]
            if len(theirs):
                text = f"{verb} {segment.name} where an earlier launch writes, with no `griddepcontrol.wait` before"
                self._note(Fault.RACE, access, part.rows[theirs], text)
        if verb != "reads":
            segment.changed[every] = True

    def _located(
        self, space: str, access: Access, addresses: IntArray, rows: IntArray, verb: str
    ) -> Iterator[tuple[MemorySegment, IntArray, IntArray]]:
        if not len(rows):
            return
        if space == "shared":
            mine = addresses[rows] & ((1 << PEER_BITS) - 1) if access.may_be_of_peers else addresses[rows]
            yield self.shared, rows, mine - FIRST_SHARED
            return
        if space == "local":
            yield self.local, rows, addresses[rows]
            return
        mine = addresses[rows]
        in_shared, in_local = mine & SHARED_WINDOW != 0, mine & LOCAL_WINDOW != 0
        if space == "generic" and (in_shared.any() or in_local.any()):
            yield self.shared, rows[in_shared], mine[in_shared] - SHARED_WINDOW - FIRST_SHARED
            yield self.local, rows[in_local], mine[in_local] - LOCAL_WINDOW
            rows = rows[~(in_shared | in_local)]
            mine = addresses[rows]
        number, place = nearest_tensor(mine)
        for each in np.unique(number):
            these = number == each
            if 0 <= each < len(self.tensors):
                yield self.tensors[each], rows[these], place[these]
            else:
                text = f"{verb} {access.nbytes} bytes at {int(mine[these][0]):#x}, an address in no tensor"
                self._note(Fault.OUT_OF_BOUNDS, access, rows[these], text)

    def _room(self, segment: MemorySegment) -> int:
        if segment is self.shared:
            return self.shared_bytes
        return self.local_bytes if segment is self.local else len(segment.data)

    def _base(self, segment: MemorySegment, lanes: IntArray) -> IntArray:
        """Returns where each lane's memory begins in a segment that holds that of all."""
        if segment is self.shared:
            return self._machine.block[lanes] * self.shared_bytes
        return lanes * self.local_bytes if segment is self.local else np.zeros_like(lanes)

    def _peer(self, access: Access, rows: IntArray) -> IntArray:
        """Returns by how many blocks the block that a cluster address names follows the lane's own."""
        rank = (access.addresses[rows].astype(np.int64) >> PEER_BITS) - 1
        return np.where(rank < 0, 0, rank - self._machine.ranks(access.lanes[rows]))

    def _watch_peers(self, access: Access, rows: IntArray) -> None:
        others = rows[self._peer(access, rows) != 0]
        if self._peers is not None and len(others):
            ranks = (access.addresses[others].astype(np.int64) >> PEER_BITS) - 1
            self._peers.touch(access.lanes[others], ranks, self.ordering.now, access.step)

    def _elements(self, part: AccessPart, access: Access) -> IntArray:
        return (part.places // access.size)[:, None] + np.arange(access.count)

    def _granules(self, part: AccessPart, access: Access) -> IntArray:
        granule = part.segment.granule
        count = max(1, access.nbytes // granule)
        return (part.places // granule)[:, None] + np.arange(count)

    def _touch(self, part: AccessPart, access: Access) -> Touch:
        lanes, is_strong = access.lanes[part.rows], access.instruction.is_strong
        return Touch(self.ordering, lanes, self._granules(part, access), access.step, is_strong)

    def _watch_read(self, part: AccessPart, access: Access) -> None:
        self._watch_initialised(part, access)
        shadow = part.segment.shadow
        if shadow is not None:
            touch = self._touch(part, access)
            if access.step in self.polls:
                shadow.note_signal(touch.granules)
            self._note_race(shadow.read(touch), part, access, "reads")
        self._count(part, access)

    def _watch_initialised(self, part: AccessPart, access: Access) -> None:
        if part.segment.written is None:
            return
        unwritten = ~part.segment.written[self._granules(part, access)].all(axis=1)
        if unwritten.any():
            text = f"reads {access.nbytes} bytes of {part.segment.name} that nobody has written"
            self._note(Fault.UNINITIALISED, access, part.rows[unwritten], text)

    def _watch_write(self, part: AccessPart, access: Access, changed: Array, lost: Array) -> None:
        segment, touch = part.segment, self._touch(part, access)
        if segment.written is not None:
            segment.written[touch.granules] = True
        if segment.shadow is not None:
            by_granule = (_by_granule(each, touch.granules.shape[1]) for each in (changed, lost))
            self._note_race(segment.shadow.write(touch, *by_granule), part, access, "writes")
        self._count(part, access)

    def _watch_update(self, part: AccessPart, access: Access) -> None:
        """Checks an atomic for races; `cas` is exempt, as it detects that a value read plainly before is old."""
        shadow, touch = part.segment.shadow, self._touch(part, access)
        if shadow is None:
            return
        shadow.note_signal(touch.granules)
        if not access.instruction.has("cas"):
            self._note_race(shadow.update(replace(touch, is_strong=False)), part, access, "updates")

    def _order(self, access: Access, *, reads: bool = True, writes: bool = True) -> None:
        """Records what a strong access or an atomic signals to other threads, or observes of theirs."""
        if writes:
            self.ordering.signal(access.lanes, is_release=access.instruction.has("release", "acq_rel"))
        if reads:
            self.ordering.observe(access.lanes, is_acquire=access.instruction.has("acquire", "acq_rel"))

    def _count(self, part: AccessPart, access: Access) -> None:
        if self._sectors is not None and part.segment is not self.shared and part.segment is not self.local:
            self._sectors.add(access, part.places, self._machine.warp[access.lanes[part.rows]])

    def _note_race(self, conflict: Conflict | None, part: AccessPart, access: Access, verb: str) -> None:
        if conflict is None:
            return
        if conflict.doubtful is not None:
            earlier = self._doubts.get(key := (access.step, conflict.other_step))
            if earlier is None or _settled(*earlier[:2]) is None:
                self._doubts[key] = conflict, part, access, verb
            return
        rows = part.rows[conflict.lanes]
        other = self.instructions[conflict.other_step]
        if conflict.is_copy:
            what = f"without waiting for the copy there of {other.at}"
        else:
            block, thread = divmod(conflict.other, self.ordering.threads)
            is_same = int(self._machine.block[access.lanes[rows[0]]]) + self._machine.first_block == block
            who = f"thread {thread}" + ("" if is_same else f" of block {block}")
            what = f"where {who} {_VERBS.get(other.name, 'accesses')} at {other.at}, with no barrier between"
        self._note(Fault.RACE, access, rows, f"{verb} {part.segment.name} {what}")

    def _note(self, fault: Fault, access: Access, rows: IntArray, text: str) -> None:
        self._machine.note(fault, access.instruction, access.lanes[rows], text)


def _settled(doubt: Conflict, part: AccessPart) -> Conflict | None:
    """Returns the race among the doubtful pairs of a conflict, as far as flags are known by now, or None."""
    shadow, pairs = part.segment.shadow, doubt.doubtful
    return shadow.settled(pairs) if shadow is not None and pairs is not None else None


def _by_granule(elements: Array, granules: int) -> Array:
    """Converts flags of elements to flags of the granules that hold them or lie in them; shape (n, granules)."""
    together = max(1, elements.shape[1] // granules)
    grouped = elements.reshape(len(elements), -1, together).any(axis=2)
    return np.asarray(np.repeat(grouped, granules // grouped.shape[1], axis=1))


def _turns(elements: IntArray) -> Iterator[IntArray]:
    """Yields all positions in groups without repeated elements; positions of one element stay in order."""
    order = np.argsort(elements, kind="stable")
    ordered = elements[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    rank = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    for turn in range(int(rank.max()) + 1 if len(rank) else 0):
        yield order[rank == turn]
