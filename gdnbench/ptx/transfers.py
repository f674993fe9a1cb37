"""Loads, stores, atomics and asynchronous copies, also those of boxes by tensor maps.

A launch gives a kernel its maps. The meaning of their 128 bytes is not documented; here each field has bytes of its
own. A map describes a tensor, whose first axis lies side by side in memory, and the box of it that a copy brings: rows
one after the other, whose pieces of 16 bytes are swizzled as `wgmma` reads them. What lies outside the tensor is zero,
and counts as brought (PTX ISA, on "cp.async.bulk.tensor").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from gdnbench.ptx.arithmetic import compute
from gdnbench.ptx.machine import Handler, Machine
from gdnbench.ptx.numbers import BITS, DTYPES, Array, IntArray
from gdnbench.ptx.program import NO_LINE, WIDTHS, Fault, Operand, PtxInstruction, unknown
from gdnbench.ptx.segments import PEER_BITS, Access, MappedTensor
from gdnbench.ptx.waiting import arrive_after_copies, check_shown
from gdnbench.ptx.warpgroups import PIECE_BYTES

_COMPLETES = "mbarrier__complete_tx__bytes"
_SPACES = ("global", "shared", "local", "const", "param")
LEAST_BULK_BYTES = 16
_BULK_RULE = f"a bulk copy's addresses and size are multiples of {LEAST_BULK_BYTES} bytes; one is not"


def _space(instruction: PtxInstruction) -> str:
    for word in instruction.modifiers:
        stem = word.split("__")[0]
        if stem in _SPACES:
            return "global" if stem == "const" else stem
    return "generic"


def _access(machine: Machine, instruction: PtxInstruction, operand: Operand, kind: str, count: int) -> Access:
    addresses = machine.addresses(operand)
    return Access(machine.lanes, addresses, WIDTHS[kind], count, machine.step, instruction)


def _load(machine: Machine, instruction: PtxInstruction) -> None:
    kind, count, space = instruction.types[-1], instruction.vector, _space(instruction)
    target, source = instruction.operands[:2]
    targets = target.parts or (target,)
    if space == "param":
        content = machine.parameter(source, WIDTHS[kind] * count)
        for each, value in zip(targets, np.frombuffer(content, dtype=BITS[WIDTHS[kind]]), strict=True):
            machine.write(each, value, kind)
        return
    values = machine.memory.load(space, _access(machine, instruction, source, kind, count))
    dtype = DTYPES[kind] if kind[0] in "su" else BITS[WIDTHS[kind]]  # by whose sign the value is extended
    for place, each in enumerate(targets):
        machine.write(each, np.ascontiguousarray(values[:, place]).view(dtype), kind)


def _store(machine: Machine, instruction: PtxInstruction) -> None:
    kind, count, space = instruction.types[-1], instruction.vector, _space(instruction)
    target, source = instruction.operands[:2]
    if space == "param":
        raise unknown(instruction)
    values = np.stack([machine.spread(each, f"u{8 * WIDTHS[kind]}") for each in source.parts or (source,)], axis=1)
    machine.memory.store(space, _access(machine, instruction, target, kind, count), values)


def _atomic(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `atom` and `red`: lanes take turns in their order, which a GPU does not guarantee."""
    kind = instruction.types[-1]
    target, place, *values = instruction.operands if instruction.name == "atom" else (None, *instruction.operands)
    if instruction.vector > 1 or place is None:
        raise unknown(instruction)
    operands = [machine.spread(each, kind) for each in values if each is not None]
    function = _atomic_function(instruction, kind)
    bits = BITS[WIDTHS[kind]]

    def replace(old: Array, rows: IntArray) -> Array:
        new = function(old.view(DTYPES[kind]), *(each[rows] for each in operands))
        return np.ascontiguousarray(new).view(bits)

    old = machine.memory.update(_space(instruction), _access(machine, instruction, place, kind, 1), replace)
    if target is not None:
        machine.write(target, old, f"b{8 * WIDTHS[kind]}")


def _atomic_function(instruction: PtxInstruction, kind: str) -> Callable[..., Any]:
    name = next((word for word in instruction.modifiers if word in _ATOMICS), "")
    if name in {"add", "min", "max"} and kind in {"f16x2", "bf16x2", "bf16"}:
        arithmetic = PtxInstruction(name, (kind,), (), None, NO_LINE)
        return lambda old, value: compute(arithmetic, kind, (old, value))
    if not name:
        raise unknown(instruction)
    return _ATOMICS[name]


_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda _old, value: value,
    "cas": lambda old, expected, value: np.where(old == expected, value, old),
    "inc": lambda old, limit: np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1)),
}


def _copy(machine: Machine, instruction: PtxInstruction) -> None:
    words = instruction.modifiers
    if "mbarrier" in words:
        arrive_after_copies(machine, instruction)
    elif "bulk" in words:
        _bulk(machine, instruction)
    elif "commit_group" in words:
        machine.copies.commit(machine.lanes, machine.ordering.now)
    elif "wait_group" in words:
        machine.copies.wait(machine.lanes, int(instruction.operands[0].text))
        done = machine.ordering.copies_done
        np.maximum(done, machine.copies.done, out=done)
    elif "wait_all" in words:
        machine.ordering.copies_done[machine.lanes] = machine.ordering.now
    else:
        _copy_lanes(machine, instruction)


def _copy_lanes(machine: Machine, instruction: PtxInstruction) -> None:
    target, source, size, *more = instruction.operands
    nbytes = int(size.text)
    taken = _bytes_taken(machine, nbytes, more[:-1] if instruction.has("L2__cache_hint") else more)
    places = [machine.addresses(each) for each in (source, target)]
    text = f"copies {nbytes} bytes from or to an address that is not a multiple of {nbytes}"
    _check_multiples(machine, places, nbytes, text)
    accesses = [Access(machine.lanes, each, 1, nbytes, machine.step, instruction) for each in places]
    machine.memory.copy_in(("global", accesses[0]), ("shared", accesses[1]), taken, None)


def _bytes_taken(machine: Machine, nbytes: int, more: Sequence[Operand]) -> Array:
    """Returns how many bytes `cp.async` reads: all, as many as an operand says, or none where a predicate holds."""
    taken = np.full(len(machine.lanes), nbytes, dtype=np.int64)
    if not more:
        return taken
    if len(more) > 1:
        raise unknown(machine.instruction)
    if machine.program.registers.get(more[0].text) == "pred":
        return np.where(machine.read(more[0], "pred"), 0, taken)
    return machine.integers(more[0])


def _check_multiples(machine: Machine, values: Sequence[Array], of: int, text: str) -> None:
    machine.fault(Fault.MISALIGNED, np.concatenate(values) % of != 0, text)


def _bulk(machine: Machine, instruction: PtxInstruction) -> None:
    words = instruction.modifiers
    if "prefetch" in words:
        return
    if "commit_group" in words:
        machine.stores.commit(machine.lanes, machine.ordering.now)
    elif "wait_group" in words:
        machine.stores.wait(machine.lanes, int(instruction.operands[0].text))
        machine.end_reads("cp", machine.stores)
    elif "tensor" in words:
        (_store_boxes if "bulk_group" in words else _load_boxes)(machine, instruction)
    elif "global" in words and instruction.has(_COMPLETES):
        _bulk_in(machine, instruction)
    elif words == ("async", "bulk", "shared__cluster", "shared__cta", _COMPLETES):
        _bulk_to_block(machine, instruction)
    elif "bulk_group" in words:
        _bulk_out(machine, instruction)
    else:
        raise unknown(instruction)


def _bulk_in(machine: Machine, instruction: PtxInstruction) -> None:
    """Copies any number of bytes a lane into shared memory; an mbarrier's phase ends with the last byte."""
    target, source, size, barrier = instruction.operands[:4]
    targets, sources, sizes = machine.shared_addresses(target), machine.addresses(source), machine.integers(size)
    barriers = machine.shared_addresses(barrier)
    _check_multiples(machine, [targets, sources, sizes], LEAST_BULK_BYTES, _BULK_RULE)
    check_shown(machine, instruction, machine.lanes, barriers)
    for rows in _one_a_block(machine.block[machine.lanes], sizes):
        pieces = sources[rows, None], targets[rows, None], sizes[rows, None]
        _copy_pieces(machine, instruction, machine.lanes[rows], barriers[rows], pieces, int(sizes[rows[0]]))
    machine.mbarriers_changed()


def _bulk_to_block(machine: Machine, instruction: PtxInstruction) -> None:
    """Copies into a block of the cluster, one copy a lane, at once, with which a phase of an mbarrier there ends."""
    target, source, size, barrier = instruction.operands[:4]
    targets, sources, sizes = machine.shared_addresses(target), machine.shared_addresses(source), machine.integers(size)
    _check_multiples(machine, [targets, sources, sizes], LEAST_BULK_BYTES, _BULK_RULE)
    ranks, within = (targets >> PEER_BITS) - 1, (1 << PEER_BITS) - 1
    to = np.where(ranks < 0, machine.lanes, machine.in_cluster(machine.lanes, ranks))
    targets, barriers, blocks = targets & within, machine.shared_addresses(barrier) & within, machine.block[to]
    check_shown(machine, instruction, to, barriers)
    for row, nbytes in enumerate(sizes.tolist()):
        one, at, block = slice(row, row + 1), int(barriers[row]), int(blocks[row])
        reads = Access(machine.lanes[one], sources[one], 1, nbytes, machine.step, instruction)
        phase = int(machine.mbarrier(at).phase[block])
        values = machine.memory.begin_read(reads)[0]
        writes = replace(reads, lanes=to[one], addresses=targets[one])
        machine.memory.receive(writes, values, machine.ordering.begin_transaction(block, at, phase))
        machine.mbarrier(at).expect(blocks[one], np.full(1, -nbytes))
    machine.mbarriers_changed()


def _bulk_out(machine: Machine, instruction: PtxInstruction) -> None:
    """Copies out of shared memory, one copy a lane; the asynchronous proxy reads until the lane waits for it."""
    target, source, size = instruction.operands[:3]
    targets, sources, sizes = machine.addresses(target), machine.shared_addresses(source), machine.integers(size)
    _check_multiples(machine, [targets, sources, sizes], LEAST_BULK_BYTES, _BULK_RULE)
    for row in range(len(machine.lanes)):
        one = slice(row, row + 1)
        _store_pieces(machine, machine.lanes[one], targets[one], sources[one], int(sizes[row]))


def _store_pieces(machine: Machine, lane: IntArray, targets: IntArray, sources: IntArray, nbytes: int) -> None:
    """Copies a lane's pieces of `nbytes` bytes out of shared memory, which stay pending reads."""
    lanes = np.repeat(lane, len(sources))
    reads, writes = (Access(lanes, each, 1, nbytes, machine.step, machine.instruction) for each in (sources, targets))
    values, pending = machine.memory.begin_read(reads)
    machine.pending_reads += pending
    machine.memory.store("global", writes, values)


MAP_BYTES = 128
_MOST = 5  # dimensions
_FIELDS = np.dtype([
    ("global_address", "u8"), ("global_stride", "u8", _MOST - 1), ("rank", "u4"), ("box_dim", "u4", _MOST),
    ("global_dim", "u4", _MOST), ("elemtype", "u4"), ("swizzle_mode", "u4"),
])  # fmt: skip
_ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 9: 8, 10: 2}
_SWIZZLED_PIECES = {0: 1, 1: 2, 2: 4, 3: 8}
_ALIGNMENT, _LONGEST_BOX = 128, 256  # bytes, of a box in shared memory; elements along an axis


def map_bytes(mapped: MappedTensor, address: int) -> bytes:
    """Returns a map of a tensor that begins at an address."""
    sizes, box, rank = mapped.sizes[::-1], mapped.box[::-1], len(mapped.box)
    strides = np.cumprod([mapped.element_bytes, *sizes[:-1]])[1:]
    one = np.zeros(1, dtype=_FIELDS)
    one["global_address"], one["rank"] = address, rank - 1
    one["elemtype"] = next(kind for kind, size in _ELEMENT_BYTES.items() if size == mapped.element_bytes)
    one["swizzle_mode"] = (0, 32, 64, 128).index(mapped.swizzle)
    for name, values in (("global_dim", sizes), ("box_dim", box), ("global_stride", strides)):
        one[name][0, : len(values)] = values
    return one.tobytes().ljust(MAP_BYTES, b"\0")


@dataclass(frozen=True)
class _Boxes:
    """The boxes that lanes copy, alike in all but where they lie. The axis that lies side by side is the first."""

    first: IntArray  # shape (n,), address of the tensor
    strides: IntArray  # shape (n, rank), bytes from one element along each axis to the next
    sizes: IntArray  # shape (n, rank), elements
    box: tuple[int, ...]  # elements
    swizzled: int  # pieces that the swizzle exchanges, 1 for none
    begin: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))  # shape (n, rank), first element

    @classmethod
    def read(cls, words: Array, rank: int) -> _Boxes | None:
        """Decodes maps of `rank` axes, shape (n, 128) bytes; returns None for an unknown kind."""
        maps = np.ascontiguousarray(words[:, : _FIELDS.itemsize]).view(_FIELDS)[:, 0]
        kind, *others = np.unique(maps[["rank", "box_dim", "elemtype", "swizzle_mode"]])
        element = _ELEMENT_BYTES.get(int(kind["elemtype"]), 0)
        swizzled = _SWIZZLED_PIECES.get(int(kind["swizzle_mode"]), 0)
        if others or kind["rank"] != rank - 1 or not element or not swizzled:
            return None
        first, sizes = maps["global_address"].astype(np.int64), maps["global_dim"][:, :rank].astype(np.int64)
        outer, box = maps["global_stride"][:, : rank - 1].astype(np.int64), tuple(map(int, kind["box_dim"][:rank]))
        row = box[0] * element
        wanted = np.concatenate([first, outer.ravel(), sizes[:, 0] * element * (rank > 1), [row]]) % PIECE_BYTES
        # How rows lie that are shorter than what is swizzled is not documented.
        is_row = swizzled == 1 or row == swizzled * PIECE_BYTES
        if wanted.any() or not is_row or not all(0 < each <= _LONGEST_BOX for each in box):
            return None
        return cls(first, np.insert(outer, 0, element, axis=1), sizes, box, swizzled)

    def of(self, rows: IntArray) -> _Boxes:
        cut = {name: getattr(self, name)[rows] for name in ("first", "strides", "sizes", "begin")}
        return replace(self, **cut)

    def pieces(self, shared: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Returns each piece's place in memory, that in shared memory, and its bytes inside the tensor.

        Each array has the shape (n, pieces); `shared` is where each box begins in shared memory, shape (n,).
        """
        element = int(self.strides[0, 0])
        step = PIECE_BYTES // element
        places = np.arange(prod(self.box) // step) * step
        at, inside = (
            self.begin[:, :, None] + np.stack(np.unravel_index(places, self.box, order="F")),
            self.sizes[:, :, None],
        )
        there = np.clip(inside[:, 0] - at[:, 0], 0, step) * ((at >= 0) & (at < inside)).all(axis=1) * element
        sources = self.first[:, None] + (at * self.strides[:, :, None]).sum(axis=1)
        to = shared[:, None] + places * element
        return sources, to ^ (to >> 7 & self.swizzled - 1) * PIECE_BYTES, there


def _boxes(
    machine: Machine, instruction: PtxInstruction, of_map: Operand, shared: Operand, *words: str
) -> tuple[_Boxes, IntArray]:
    """Returns the lanes' boxes and where they lie in shared memory; `words` end the instruction's name."""
    lanes, (place, coordinates) = machine.lanes, of_map.parts
    if instruction.modifiers != ("async", "bulk", "tensor", f"{len(coordinates.parts)}d", *words):
        raise unknown(instruction)
    of_maps = Access(lanes, machine.addresses(place), 8, MAP_BYTES // 8, machine.step, instruction)
    boxes = _Boxes.read(machine.memory.load("global", of_maps).view(np.uint8), len(coordinates.parts))
    if boxes is None:
        raise unknown(instruction)
    begin = np.stack([machine.integers(each, "s32") for each in coordinates.parts], axis=1)
    addresses = machine.shared_addresses(shared)
    text = f"copies a box to or from an address that is not a multiple of {_ALIGNMENT}"
    machine.fault(Fault.MISALIGNED, addresses % _ALIGNMENT != 0, text)
    into = begin[:, 0] * boxes.strides[:, 0]
    if (within := into % PIECE_BYTES != 0).any():
        text = f"copies a box that begins at byte {into[within][0]} of a row, which is not a multiple of {PIECE_BYTES}"
        machine.note(Fault.MISALIGNED, instruction, lanes[within], text)
    return replace(boxes, begin=begin), addresses


def _load_boxes(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `cp.async.bulk.tensor` into shared memory: one box a lane, whose bytes an mbarrier awaits."""
    target, source, barrier, *more = instruction.operands
    space = "shared__cta" if instruction.has("shared__cta") else "shared__cluster"
    is_shared = instruction.has("multicast__cluster")
    hints = ("multicast__cluster" if is_shared else "L2__cache_hint",) if more else ()
    boxes, targets = _boxes(machine, instruction, source, target, space, "global", _COMPLETES, *hints)
    lanes, barriers = machine.lanes, machine.shared_addresses(barrier)
    check_shown(machine, instruction, lanes, barriers)
    masks = machine.integers(more[0], "u16") if is_shared else 1 << machine.ranks(lanes)
    for rank in range(machine.program.cluster):
        # What comes into another block's memory is taken to be brought by the same thread of that block.
        named = np.flatnonzero(masks >> rank & 1)
        if not len(named):
            continue
        to = machine.in_cluster(lanes, rank)
        for these in (named[each] for each in _one_a_block(machine.block[lanes[named]], np.zeros_like(named))):
            pieces = boxes.of(these).pieces(targets[these])
            _copy_pieces(machine, instruction, to[these], barriers[these], pieces, PIECE_BYTES)
    machine.mbarriers_changed()


def _store_boxes(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `cp.async.bulk.tensor` out of shared memory: of one box a lane what lies inside its tensor."""
    target, source, *policy = instruction.operands
    hint = ("L2__cache_hint",) if policy else ()
    boxes, addresses = _boxes(machine, instruction, target, source, "global", "shared__cta", "bulk_group", *hint)
    for row in range(len(machine.lanes)):
        one = slice(row, row + 1)
        targets, sources, taken = (each[0] for each in boxes.of(np.arange(row, row + 1)).pieces(addresses[one]))
        _store_pieces(machine, machine.lanes[one], targets[taken > 0], sources[taken > 0], PIECE_BYTES)


def _copy_pieces(
    machine: Machine,
    instruction: PtxInstruction,
    lanes: IntArray,
    barriers: IntArray,
    pieces: tuple[IntArray, IntArray, IntArray],
    nbytes: int,
) -> None:
    """Copies pieces of `nbytes` bytes into shared memory: those of a lane are one transaction of its mbarrier.

    `pieces` are their sources, their targets, and how many bytes to read of each; each array has the shape (lanes, k).
    """
    blocks, begin = machine.block[lanes], machine.ordering.begin_transaction
    named = [(int(each), machine.mbarrier(int(each))) for each in barriers]
    of_blocks = zip(blocks, named, strict=True)
    transactions = np.array(
        [begin(each, address, int(mbarrier.phase[each])) for each, (address, mbarrier) in of_blocks]
    )
    count = pieces[0].shape[1]
    every, (sources, targets, taken) = np.repeat(lanes, count), (each.ravel() for each in pieces)
    reads, writes = (Access(every, each, 1, nbytes, machine.step, instruction) for each in (sources, targets))
    machine.memory.copy_in(("global", reads), ("shared", writes), taken, np.repeat(transactions, count))
    for each in np.unique(barriers):
        of_barrier = blocks[barriers == each]
        machine.mbarrier(int(each)).expect(of_barrier, np.full(len(of_barrier), -count * nbytes))


def _one_a_block(blocks: IntArray, sizes: IntArray) -> Iterator[IntArray]:
    """Yields positions of bulk copies to make together: of one size, one a block, so that overlaps are found."""
    order = np.argsort(blocks, kind="stable")
    first = np.searchsorted(blocks[order], blocks[order])
    _, group = np.unique(np.stack([np.arange(len(order)) - first, sizes[order]]), axis=1, return_inverse=True)
    for number in range(int(group.max(initial=-1)) + 1):
        yield order[group.ravel() == number]


TRANSFERS: dict[str, Handler] = {
    "ld": _load, "ldu": _load, "st": _store, "atom": _atomic, "red": _atomic, "cp": _copy,
}  # fmt: skip
