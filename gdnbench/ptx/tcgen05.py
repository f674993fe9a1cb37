"""Products of sm_100 (`tcgen05`), whose sums lie in tensor memory, and loads and stores of that by warps.

One thread begins a product of a whole block: A has 128 rows and B 8 to 256 columns, of f16 or bf16, both in shared
memory as for `wgmma`; row r of the sums is lane r of tensor memory and column c a column of it (PTX ISA,
"tcgen05.mma", "Data path layout D"). Other shapes, several blocks (`cta_group::2`), A in tensor memory, scales of
blocks, sparse matrices, and copies from shared memory are unknown. What is not watched: products are made at once, so
that sums which are read, or matrices which are overwritten, after the `commit` and before its mbarrier was waited
for, are right here.
"""

from __future__ import annotations

import re

import numpy as np

from gdnbench.ptx.machine import Handler, Machine
from gdnbench.ptx.numbers import Array, IntArray, canonical
from gdnbench.ptx.program import WARP, Fault, PtxInstruction, unknown
from gdnbench.ptx.segments import Access
from gdnbench.ptx.tensor_memory import LANES
from gdnbench.ptx.waiting import arrive_from_products
from gdnbench.ptx.warpgroups import Descriptors
from gdnbench.ptx.warps import as_doubles, together

_KINDS = {0: "f16", 1: "bf16"}  # of A and B, by their number in the instruction's descriptor
_F32, _ROWS = 1, LANES
_NO_SWIZZLE_OF_32 = np.uint64(1 << 61 | 1 << 52)  # of 32 bytes at a time, and other strides
_OWN_LANES = 4  # quarters of the lanes, one for each warp of a warpgroup


def _bits(word: int, first: int, count: int) -> int:
    return word >> first & (1 << count) - 1


def _multiply(machine: Machine, instruction: PtxInstruction) -> None:
    """Computes D = A B, or D = A B + D, for the block of each running lane; sums are rounded once."""
    place, a, b, described, *more = instruction.operands
    words = {int(each) for each in np.unique(machine.spread(described, "u32"))}
    blocks = machine.block[machine.lanes]
    if len(words) != 1 or not instruction.has("kind__f16") or len(np.unique(blocks)) != len(blocks):
        raise unknown(instruction)
    word = words.pop()
    of_a, of_b = (_KINDS.get(_bits(word, first, 3)) for first in (7, 10))
    columns = 8 * _bits(word, 17, 6)
    is_plain = not _bits(word, 0, 4) and _bits(word, 4, 2) == _F32 and not _bits(word, 15, 2) and not word >> 29
    if a.is_address or of_a is None or of_b is None or not is_plain or 16 * _bits(word, 24, 5) != _ROWS or not columns:
        raise unknown(instruction)
    masks = [each for each in more if each.parts]
    adds, *scales = (each for each in more if not each.parts)
    if scales or any(machine.read(part, "u32").any() for mask in masks for part in mask.parts):
        raise unknown(instruction)
    left = _matrix(machine, machine.spread(a, "u64"), _ROWS)
    right = _matrix(machine, machine.spread(b, "u64"), columns)
    sign = -1 if _bits(word, 13, 1) != _bits(word, 14, 1) else 1
    sums = sign * np.matmul(as_doubles(of_a, left), as_doubles(of_b, right).swapaxes(1, 2))
    addresses = machine.addresses(place)
    lane = np.broadcast_to(np.arange(_ROWS)[:, None], sums.shape[1:]).reshape(1, -1) + (addresses >> 16)[:, None]
    column = np.tile(np.arange(columns), _ROWS) + (addresses & 0xFFFF)[:, None]
    is_adding = machine.spread(adds, "pred")
    if is_adding.any():
        these = np.flatnonzero(is_adding)
        before = machine.tensor_memory.read(blocks[these], lane[these], column[these], machine.fault)
        sums[these] += before.view(np.float32).reshape(len(these), _ROWS, columns)
    rounded = canonical(sums.astype(np.float32)).reshape(len(blocks), -1)
    machine.tensor_memory.write(blocks, lane, column, rounded.view(np.uint32), machine.fault)


def _matrix(machine: Machine, words: Array, size: int) -> Array:
    """Reads a matrix by each lane's descriptor, shape (lanes, size, numbers to sum over), as bits."""
    descriptors = None if (words & _NO_SWIZZLE_OF_32).any() else Descriptors.read(words)
    pieces = None if descriptors is None else descriptors.pieces(size, is_transposed=False)
    if pieces is None:
        raise unknown(machine.instruction)
    count = pieces.shape[1] * pieces.shape[2]
    readers = np.repeat(machine.lanes, count)
    access = Access(readers, pieces.ravel(), 4, 4, machine.step, machine.instruction)
    values, pending = machine.memory.begin_read(access)
    machine.pending_reads += pending
    return np.ascontiguousarray(values).view(np.uint16).reshape(len(words), size, -1)


def _commit(machine: Machine, instruction: PtxInstruction) -> None:
    """Ends the products so far, and arrives at an mbarrier."""
    machine.products.commit(machine.lanes, machine.ordering.now)
    machine.products.wait(machine.lanes, 0)
    machine.end_reads("tcgen05", machine.products)
    machine.ordering.now += 1  # the arrival comes after what was read
    arrive_from_products(machine, instruction)


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


def _places(machine: Machine, address: IntArray, columns: int) -> tuple[IntArray, IntArray, IntArray]:
    """Returns blocks, lanes and columns of what the running lanes move: each its own lane, of its warp's quarter."""
    quarter = machine.thread[machine.lanes] // WARP % _OWN_LANES * WARP
    machine.fault(Fault.OUT_OF_BOUNDS, address >> 16 != quarter, "moves another quarter of the lanes than its warp's")
    lanes = quarter + machine.lane[machine.lanes]
    every = (address & 0xFFFF)[:, None] + np.arange(columns)
    return machine.block[machine.lanes], np.broadcast_to(lanes[:, None], every.shape), every


def _move(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    """Executes `ld` and `st` of shape 32x32b: as many columns as there are registers, of each thread's own lane."""
    found = re.fullmatch(r"(ld|st)\.sync\.aligned\.32x32b\.x(\d+)\.b32", ".".join(instruction.modifiers))
    if not found:
        raise unknown(instruction)
    place, held = instruction.operands if found[1] == "st" else instruction.operands[::-1]
    registers = held.parts or (held,)
    blocks, lanes, columns = _places(machine, machine.addresses(place), len(registers))
    if found[1] == "st":
        bits = np.stack([machine.spread(each, "u32") for each in registers], axis=1)
        machine.tensor_memory.write(blocks, lanes, columns, bits, machine.fault)
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
        _multiply(machine, instruction)
    elif what == "commit":
        _commit(machine, instruction)
    elif what not in _NOTHING:
        raise unknown(instruction)
    return None


TENSOR_CORE: dict[str, Handler] = {"tcgen05": _execute}
