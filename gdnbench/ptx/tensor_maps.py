"""Tensor maps that a kernel writes itself, and the bulk copies into shared memory that use them.

The meaning of a map's 128 bytes is not documented; kernels set its fields one by one by `tensormap.replace`. Here each
field has bytes of its own. A map describes a matrix of two dimensions, the first of which lies side by side in memory,
and the box of it that a copy brings: rows of at most 128 bytes, one after the other, whose pieces of 16 bytes are
swizzled as `wgmma` reads them. What lies outside the matrix is zero, and counts as brought (PTX ISA, on
"tensormap.replace" and "cp.async.bulk.tensor").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gdnbench.ptx.findings import Fault
from gdnbench.ptx.machine import Handler, Machine
from gdnbench.ptx.numbers import BITS, Array, IntArray
from gdnbench.ptx.program import PtxInstruction, unknown
from gdnbench.ptx.segments import Access
from gdnbench.ptx.waiting import check_shown
from gdnbench.ptx.warpgroups import PIECE_BYTES

MAP_BYTES = 128
_MOST = 5  # dimensions
_FIELDS = np.dtype([
    ("global_address", "u8"), ("global_stride", "u8", _MOST - 1), ("rank", "u4"), ("box_dim", "u4", _MOST),
    ("global_dim", "u4", _MOST), ("element_stride", "u4", _MOST), ("elemtype", "u4"), ("interleave_layout", "u4"),
    ("swizzle_mode", "u4"), ("fill_mode", "u4"),
])  # fmt: skip
_ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 10: 2}
_SWIZZLED_PIECES = {0: 1, 1: 2, 2: 4, 3: 8}
_ALIGNMENT = 128  # bytes, of a box in shared memory


@dataclass(frozen=True)
class _Boxes:
    """The boxes that lanes copy, alike in all but where they lie; all arrays have the shape (n,).

    Attributes:
        first: address of each matrix.
        stride: bytes from one row of a matrix to the next.
        row_bytes, rows: of each matrix.
        box: rows of a box, and bytes of each.
        element: bytes.
        swizzled: pieces that the swizzle exchanges; 1 for none.
    """

    first: IntArray
    stride: IntArray
    row_bytes: IntArray
    rows: IntArray
    box: tuple[int, int]
    element: int
    swizzled: int

    @classmethod
    def read(cls, words: Array) -> _Boxes | None:
        """Decodes maps, shape (n, 128) bytes; returns None for an unknown kind."""
        maps = np.ascontiguousarray(words[:, : _FIELDS.itemsize]).view(_FIELDS)[:, 0]
        kinds = np.unique(maps[["rank", "box_dim", "element_stride", "elemtype", "interleave_layout", "swizzle_mode"]])
        kind, is_filled = kinds[0], bool(maps["fill_mode"].any())
        is_plain = kind["rank"] == 1 and (kind["element_stride"][:2] == 1).all() and not kind["interleave_layout"]
        element, swizzled = (
            _ELEMENT_BYTES.get(int(kind["elemtype"]), 0), _SWIZZLED_PIECES.get(int(kind["swizzle_mode"]), 0),
        )  # fmt: skip
        if len(kinds) != 1 or not is_plain or is_filled or not element or not swizzled:
            return None
        first, stride = maps["global_address"].astype(np.int64), maps["global_stride"][:, 0].astype(np.int64)
        row_bytes, rows = (maps["global_dim"][:, n].astype(np.int64) * (element, 1)[n] for n in (0, 1))
        bytes_of_box, rows_of_box = int(kind["box_dim"][0]) * element, int(kind["box_dim"][1])
        wanted = np.concatenate([first, stride, row_bytes]) % PIECE_BYTES
        is_row = swizzled == 1 or bytes_of_box <= swizzled * PIECE_BYTES
        if wanted.any() or bytes_of_box % PIECE_BYTES or not is_row or max(bytes_of_box // element, rows_of_box) > 256:
            return None
        return cls(first, stride, row_bytes, rows, (rows_of_box, bytes_of_box), element, swizzled)

    @property
    def nbytes(self) -> int:
        return self.box[0] * self.box[1]

    def of(self, rows: IntArray) -> _Boxes:
        first, stride = self.first[rows], self.stride[rows]
        return replace(self, first=first, stride=stride, row_bytes=self.row_bytes[rows], rows=self.rows[rows])

    def pieces(self, targets: IntArray, columns: IntArray, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Returns each piece's source, target and bytes inside the matrix, of shape (n, pieces).

        Each box goes to `targets` in shared memory and begins at element `columns` of row `rows`, all of shape (n,).
        """
        down, across = np.divmod(np.arange(self.nbytes // PIECE_BYTES), self.box[1] // PIECE_BYTES)
        row, byte = rows[:, None] + down, columns[:, None] * self.element + across * PIECE_BYTES
        is_inside = (row >= 0) & (row < self.rows[:, None]) & (byte >= 0)
        there = np.where(is_inside, np.clip(self.row_bytes[:, None] - byte, 0, PIECE_BYTES), 0)
        sources = self.first[:, None] + row * self.stride[:, None] + byte
        places = targets[:, None] + down * self.box[1] + across * PIECE_BYTES
        return sources, places ^ (places >> 7 & self.swizzled - 1) * PIECE_BYTES, there


def _replace(machine: Machine, instruction: PtxInstruction) -> None:
    """Sets a field of a map in shared memory, or one entry of a field that has one per dimension."""
    _, mode, name, space, whole, kind = (*instruction.modifiers, *[""] * 6)[:6]
    if (mode, space, whole) != ("tile", "shared__cta", "b1024") or name not in (_FIELDS.names or ()):
        raise unknown(instruction)
    place, *number, value = instruction.operands
    fields = _FIELDS.fields
    assert fields is not None
    field, offset = fields[name][:2]
    size = field.base.itemsize
    if kind != f"b{8 * size}" or len(number) != len(field.shape):
        raise unknown(instruction)
    entry = int(number[0].text, 0) if number else 0
    values = machine.spread(value, f"u{8 * size}")
    addresses = machine.addresses(place) + (offset + entry * size)
    access = Access(machine.lanes, addresses, size, 1, machine.step, instruction)
    machine.memory.store("shared", access, values.astype(BITS[size])[:, None])


def _publish(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `tensormap.cp_fenceproxy`: a warp, recorded as its first lane, copies a map to global memory."""
    words = instruction.modifiers
    if words[0] == "replace":
        _replace(machine, instruction)
        return
    if words[:3] != ("cp_fenceproxy", "global", "shared__cta") or words[-2:] != ("sync", "aligned"):
        raise unknown(instruction)
    target, source, size = instruction.operands
    if int(size.text, 0) != MAP_BYTES:
        raise unknown(instruction)
    _, first = np.unique(machine.warp[machine.lanes], return_index=True)
    lanes = machine.lanes[first]
    reads, writes = (
        Access(lanes, machine.addresses(each)[first], 8, MAP_BYTES // 8, machine.step, instruction)
        for each in (source, target)
    )
    machine.memory.store("global", writes, machine.memory.load("shared", reads))


def copy_boxes(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `cp.async.bulk.tensor` into the block's shared memory: one box a lane, whose bytes an mbarrier awaits.

    Raises NotInterpretedError for another form, or a map of another kind.
    """
    words, (target, source, barrier, *more) = instruction.modifiers, instruction.operands
    spaces = {"shared__cta", "shared__cluster"}.intersection(words[4:5])
    known = ("async", "bulk", "tensor", "2d", *spaces, "global", "mbarrier__complete_tx__bytes")
    if words != known or len(spaces) != 1 or more or len(source.parts) != 2:
        raise unknown(instruction)
    lanes = machine.lanes
    place, coordinates = source.parts
    of_maps = Access(lanes, machine.addresses(place), 8, MAP_BYTES // 8, machine.step, instruction)
    boxes = _Boxes.read(machine.memory.load("global", of_maps).view(np.uint8))
    if boxes is None or len(coordinates.parts) != 2:
        raise unknown(instruction)
    columns, rows = (machine.integers(each, "s32") for each in coordinates.parts)
    targets, barriers = machine.shared_addresses(target), machine.shared_addresses(barrier)
    text = f"copies a box to an address that is no multiple of {_ALIGNMENT}"
    machine.fault(Fault.MISALIGNED, targets % _ALIGNMENT != 0, text)
    check_shown(machine, instruction, lanes, barriers)
    for these in one_a_block(machine.block[lanes], np.zeros_like(lanes)):
        pieces = boxes.of(these).pieces(targets[these], columns[these], rows[these])
        copy_pieces(machine, instruction, lanes[these], barriers[these], pieces, PIECE_BYTES)
    machine.mbarriers_changed()


def copy_pieces(
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
    phases = (int(mbarrier.phase[block]) for (_, mbarrier), block in zip(named, blocks, strict=True))
    transactions = np.array([begin(address, phase) for (address, _), phase in zip(named, phases, strict=True)])
    count = pieces[0].shape[1]
    every, (sources, targets, taken) = np.repeat(lanes, count), (each.ravel() for each in pieces)
    reads, writes = (Access(every, each, 1, nbytes, machine.step, instruction) for each in (sources, targets))
    machine.memory.copy_in(("global", reads), ("shared", writes), taken, np.repeat(transactions, count))
    for each in np.unique(barriers):
        of_barrier = blocks[barriers == each]
        machine.mbarrier(int(each)).expect(of_barrier, np.full(len(of_barrier), -count * nbytes))


def one_a_block(blocks: IntArray, sizes: IntArray) -> Iterator[IntArray]:
    """Yields positions of bulk copies that are made together: of one size, and of each block no more than one.

    Those of one block are made one after the other, so that overlaps are found.
    """
    order = np.argsort(blocks, kind="stable")
    first = np.searchsorted(blocks[order], blocks[order])
    _, group = np.unique(np.stack([np.arange(len(order)) - first, sizes[order]]), axis=1, return_inverse=True)
    for number in range(int(group.max()) + 1):
        yield order[group.ravel() == number]


TENSOR_MAPS: dict[str, Handler] = {"tensormap": _publish}
