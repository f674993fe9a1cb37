"""Products of sm_100 (`tcgen05`), whose sums lie in tensor memory, and loads and stores of that by warps.

One thread begins a product of a whole block: A has 128 rows and B 8 to 256 columns, of f16 or bf16, both in shared
memory as for `wgmma`; row r of the sums is lane r of tensor memory and column c a column of it (PTX ISA,
"tcgen05.mma", "Data path layout D"). Of two blocks (`cta_group::2`), each has 128 of 256 rows of A and of the sums, and
half of the columns of B ("Data path layout A"). Other shapes, A in tensor memory, scales of blocks, sparse matrices,
and copies from shared memory are unknown. Products are made at once, but they read until a thread has waited for the
phase at which their `commit` arrives, and no other may access their sums.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gdnbench.ptx.machine import Handler, Machine
from gdnbench.ptx.numbers import Array, IntArray, Mask, canonical
from gdnbench.ptx.program import WARP, Fault, PtxInstruction, unknown
from gdnbench.ptx.segments import PEER_BITS, Access
from gdnbench.ptx.tensor_memory import LANES
from gdnbench.ptx.waiting import arrive_from_products
from gdnbench.ptx.warpgroups import Descriptors
from gdnbench.ptx.warps import as_doubles, together

_KINDS = {0: "f16", 1: "bf16"}  # of A and B, by their number in the instruction's descriptor
_F32, _ROWS = 1, LANES
_NO_SWIZZLE_OF_32 = np.uint64(1 << 61 | 1 << 52)  # of 32 bytes at a time, and other strides
_SCALED = 1 << 27 | 1 << 10 | 1 << 7  # of e2m1, scales in e4m3, 128 rows
_OWN_LANES = 4  # quarters of the lanes, one for each warp of a warpgroup


def _bits(word: int, first: int, count: int) -> int:
    return word >> first & (1 << count) - 1


def _multiply(machine: Machine, instruction: PtxInstruction) -> None:
    """Computes D = A B, or D = A B + D, for the block or the pair of each running lane; sums are rounded once."""
    place, a, b, described, *more = instruction.operands
    words = {int(each) for each in np.unique(machine.spread(described, "u32"))}
    first = machine.block[machine.lanes]
    if len(words) != 1 or not instruction.has("kind__f16") or len(np.unique(first)) != len(first):
        raise unknown(instruction)
    word, group = words.pop(), _group(machine, instruction)
    of_a, of_b = (_KINDS.get(_bits(word, first, 3)) for first in (7, 10))
    columns, rows = 8 * _bits(word, 17, 6), 16 * _bits(word, 24, 5)
    is_plain = not _bits(word, 0, 4) and _bits(word, 4, 2) == _F32 and not _bits(word, 15, 2) and not word >> 29
    if a.is_address or of_a is None or of_b is None or not is_plain or rows != group * _ROWS or not columns:
        raise unknown(instruction)
    masks = [each for each in more if each.parts]
    adds, *scales = (each for each in more if not each.parts)
    if scales or any(machine.read(part, "u32").any() for mask in masks for part in mask.parts):
        raise unknown(instruction)
    left, right = (machine.spread(each, "u64") for each in (a, b))
    by_block = [
        (_matrix(machine, left, _ROWS, peer, group), _matrix(machine, right, columns // group, peer, group))
        for peer in range(group)
    ]
    of_all = as_doubles(of_b, np.concatenate([each for _, each in by_block], axis=1)).swapaxes(1, 2)
    sign = -1 if _bits(word, 13, 1) != _bits(word, 14, 1) else 1
    adds_up = machine.spread(adds, "pred")
    for peer, (own, _) in enumerate(by_block):
        sums = sign * np.matmul(as_doubles(of_a, own), of_all)
        _add(machine, first + peer, machine.addresses(place), sums, adds_up)


def _multiply_scaled(machine: Machine, instruction: PtxInstruction) -> None:
    """Computes D = A B, or D = A B + D, of numbers in e2m1 with a scale in e4m3 for each 16, which lie as tiles do.

    The four scales of row r are a word, in lane r % 32 of each quarter of the lanes and in column r // 32.
    """
    place, a, b, described, *places, adds = instruction.operands
    words = {int(each) for each in np.unique(machine.spread(described, "u32"))}
    blocks = machine.block[machine.lanes]
    columns = 8 * _bits(next(iter(words)), 17, 6)
    is_plain = words == {_SCALED | columns // 8 << 17} and len(places) == 2 and len(np.unique(blocks)) == len(blocks)
    if not is_plain or not instruction.has("cta_group__1") or not instruction.has("block16", "scale_vec__4X"):
        raise unknown(instruction)
    factors = []
    for matrix, scales, size in zip((a, b), places, (_ROWS, columns), strict=True):
        held = _matrix(machine, machine.spread(matrix, "u64"), size, 0, 1).view(np.uint8)
        codes = np.stack([held & 15, held >> 4], axis=3).reshape(len(blocks), size, -1)
        of_each = np.repeat(_scales(machine, machine.addresses(scales), size), 16, axis=2)
        factors.append(as_doubles("e2m1", codes) * of_each)
    sums = np.matmul(factors[0], factors[1].swapaxes(1, 2))
    _add(machine, blocks, machine.addresses(place), sums, machine.spread(adds, "pred"))


def _check_stores(machine: Machine, lanes: IntArray, blocks: IntArray, at: IntArray, columns: IntArray) -> None:
    """Reports products by `lanes` of what other threads store with no barrier between, in lanes `at` and columns."""
    who, when = machine.tensor_memory.stores(blocks, at, columns)
    rows, places = np.nonzero(when)
    fine = machine.ordering.is_ordered(lanes[rows], who[rows, places], when[rows, places])
    bad = np.isin(np.arange(len(lanes)), rows[~fine])
    machine.fault(Fault.RACE, bad, "begins a product of what another thread stores, with no barrier between")


def _scales(machine: Machine, addresses: Array, size: int) -> Array:
    """Returns the scales of `size` rows from tensor memory, shape (lanes, size, 4)."""
    blocks, rows = machine.block[machine.lanes], np.arange(size)
    column = rows // WARP + (addresses & 0xFFFF)[:, None]
    quarters = []
    for first in range(0, LANES, WARP):
        lanes = np.broadcast_to(rows % WARP + first, column.shape)
        _check_stores(machine, machine.lanes, blocks, lanes, column)
        quarters.append(machine.tensor_memory.read(blocks, lanes, column, machine.fault))
    differ: Mask = np.any([(each != quarters[0]).any(axis=1) for each in quarters], axis=0)
    machine.fault(Fault.UNINITIALISED, differ, "has other scales in another quarter of the lanes")
    machine.tensor_memory.make(blocks, column, machine.ordering.now)
    codes = np.ascontiguousarray(quarters[0]).view(np.uint8).reshape(len(blocks), size, 4)
    return as_doubles("e4m3", codes & 0x7F)


def _group(machine: Machine, instruction: PtxInstruction) -> int:
    """Returns how many blocks multiply together; of two the first has to begin it."""
    if instruction.has("cta_group__1"):
        return 1
    if machine.program.cluster % 2 or (machine.ranks(machine.lanes) % 2).any():
        raise unknown(instruction)
    return 2


def _add(machine: Machine, blocks: IntArray, addresses: Array, sums: Array, adds: Array) -> None:
    """Leaves sums, shape (n, 128, columns), in tensor memory of blocks, added to what is there where `adds` says so."""
    columns = sums.shape[2]
    lane = np.broadcast_to(np.arange(_ROWS)[:, None], sums.shape[1:]).reshape(1, -1) + (addresses >> 16)[:, None]
    column = np.tile(np.arange(columns), _ROWS) + (addresses & 0xFFFF)[:, None]
    if adds.any():
        these = np.flatnonzero(adds)
        before = machine.tensor_memory.read(blocks[these], lane[these], column[these], machine.fault)
        _check_stores(machine, machine.lanes[these], blocks[these], lane[these], column[these])
        sums[these] += before.view(np.float32).reshape(len(these), _ROWS, columns)
    rounded = canonical(sums.astype(np.float32)).reshape(len(blocks), -1)
    machine.tensor_memory.write(blocks, lane, column, rounded.view(np.uint32), machine.fault)
    machine.tensor_memory.make(blocks, column[:, :columns], machine.ordering.now)


def _matrix(machine: Machine, words: Array, size: int, peer: int, group: int) -> Array:
    """Reads a matrix of each lane's block, or of the `peer`-th of its pair, by descriptors, as bits.

    Of shape (lanes, size, numbers to sum over). A read of the pair's other block ends as one by the same thread there.
    """
    descriptors = None if (words & _NO_SWIZZLE_OF_32).any() else Descriptors.read(words)
    pieces = None if descriptors is None else descriptors.pieces(size, is_transposed=False)
    if pieces is None:
        raise unknown(machine.instruction)
    count = pieces.shape[1] * pieces.shape[2]
    rank = machine.ranks(machine.lanes) + peer
    places = pieces.reshape(len(words), -1) | (rank + 1 << PEER_BITS if group > 1 else 0 * rank)[:, None]
    access = Access(np.repeat(machine.lanes, count), places.ravel(), 4, 4, machine.step, machine.instruction)
    values, pending = machine.memory.begin_read(access)
    machine.pending_reads += [replace(each, lanes=each.lanes + peer * machine.grid.threads) for each in pending]
    return np.ascontiguousarray(values).view(np.uint16).reshape(len(words), size, -1)


def _commit(machine: Machine, instruction: PtxInstruction) -> None:
    """Ends the products so far, and arrives at an mbarrier, in all blocks of the cluster that a mask names."""
    lanes, addresses = machine.lanes, machine.shared_addresses(instruction.operands[0])
    group, threads, every = _group(machine, instruction), machine.grid.threads, [lanes]
    machine.commit_products(np.concatenate([lanes + peer * threads for peer in range(group)]))
    machine.ordering.now += 1  # the arrival comes after what was read
    if instruction.has("multicast__cluster"):
        masks = machine.integers(instruction.operands[1], "u16")
        named = [(rank, masks >> rank & 1 > 0) for rank in range(machine.program.cluster)]
        every = [machine.in_cluster(lanes, rank)[is_named] for rank, is_named in named]
        addresses = np.concatenate([addresses[is_named] for _, is_named in named])
    elif (addresses >> PEER_BITS).any():
        raise unknown(instruction)
    arrive_from_products(machine, instruction, np.concatenate(every), addresses & ((1 << PEER_BITS) - 1))


def _allocate(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    place, count = instruction.operands
    first = np.flatnonzero(machine.lane[machine.lanes] == 0)
    lanes = machine.lanes[first]
    columns = np.unique(machine.integers(count))
    if len(columns) != 1:
        raise unknown(instruction)
    found = machine.tensor_memory.allocate(machine.block[lanes], int(columns[0]), machine.fault)
    addresses = machine.shared_addresses(place)[first]
    access = Access(lanes, addresses, 4, 1, machine.step, instruction)
    machine.memory.store("shared", access, found.astype(np.uint32)[:, None])


def _free(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    place, count = instruction.operands
    first = np.flatnonzero(machine.lane[machine.lanes] == 0)
    columns = np.unique(machine.integers(count))
    if len(columns) != 1:
        raise unknown(instruction)
    addresses = machine.integers(place)[first]
    machine.tensor_memory.free(machine.block[machine.lanes[first]], addresses, int(columns[0]), machine.fault)


# Row and column of register r of lane t, by shape: a lane's own row, or 8 of 16 rows in a register or in half the lanes
# (PTX ISA, "Matrix fragments for tcgen05.ld").
_SHAPES: dict[str, Callable[[IntArray, IntArray], tuple[IntArray, IntArray]]] = {
    "32x32b": lambda t, r: (t, r),
    "16x64b": lambda t, r: (t // 4 + t % 2 * 8, t // 2 % 2 + r * 2),
    "16x128b": lambda t, r: (t // 4 + r % 2 * 8, t % 4 + r // 2 * 4),
    "16x256b": lambda t, r: (t // 4 + r // 2 % 2 * 8, t % 4 * 2 + r % 2 + r // 4 * 8),
}


def _places(machine: Machine, address: IntArray, shape: str, count: int) -> tuple[IntArray, IntArray, IntArray]:
    """Returns blocks, lanes and columns of `count` registers of the running lanes, of their warp's quarter."""
    first, quarter = address >> 16, machine.thread[machine.lanes] // WARP % _OWN_LANES * WARP
    lanes = quarter + (first & WARP // 2 if shape != "32x32b" else 0)
    machine.fault(Fault.OUT_OF_BOUNDS, first != lanes, "moves another quarter of the lanes than its warp's")
    row, column = np.broadcast_arrays(*_SHAPES[shape](machine.lane[machine.lanes][:, None], np.arange(count)))
    return machine.block[machine.lanes], lanes[:, None] + row, (address & 0xFFFF)[:, None] + column


def _move(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    """Executes `ld` and `st`."""
    found = re.fullmatch(r"(ld|st)\.sync\.aligned\.(\w+)\.x\d+\.b32", ".".join(instruction.modifiers))
    if not found:
        raise unknown(instruction)
    place, held = instruction.operands if found[1] == "st" else instruction.operands[::-1]
    registers = held.parts or (held,)
    blocks, lanes, columns = _places(machine, machine.addresses(place), found[2], len(registers))
    made, known = machine.tensor_memory.made(blocks, columns), machine.commits.known(machine.lanes)
    machine.fault(Fault.RACE, made > known, "accesses sums or scales of a product that it has not waited for")
    if found[1] == "st":
        bits = np.stack([machine.spread(each, "u32") for each in registers], axis=1)
        machine.tensor_memory.write(blocks, lanes, columns, bits, machine.fault)
        who = machine.ordering.in_grid(machine.lanes)
        machine.tensor_memory.note_store(blocks, lanes, columns, who, machine.ordering.now)
        return
    bits = machine.tensor_memory.read(blocks, lanes, columns, machine.fault)
    for register, values in zip(registers, bits.T, strict=True):
        machine.write(register, np.ascontiguousarray(values), "b32")


_BY_WARPS: dict[str, Handler] = {
    "alloc": together(None, _allocate),
    "dealloc": together(None, _free),
    "ld": together(None, _move),
    "st": together(None, _move),
}
_NOTHING = ("relinquish_alloc_permit", "wait__ld", "wait__st", "fence__before_thread_sync", "fence__after_thread_sync")
"""Words of instructions that only order what here is in order."""


def _execute(machine: Machine, instruction: PtxInstruction) -> int | None:
    what = instruction.modifiers[0]
    if what in _BY_WARPS:
        return _BY_WARPS[what](machine, instruction)
    if what == "mma":
        (_multiply_scaled if instruction.has("kind__mxf4nvf4") else _multiply)(machine, instruction)
    elif what == "commit":
        _commit(machine, instruction)
    elif what not in _NOTHING:
        raise unknown(instruction)
    return None


TENSOR_CORE: dict[str, Handler] = {"tcgen05": _execute}
