"""Asynchronous products (`wgmma`) that the four warps of a warpgroup make together.

Warp w of the warpgroup has rows 16 w to 16 w + 15 of the 64: of A as `mma` has a matrix of 16 x 16, and of the sums,
for each 8 columns, as it has one of 16 x 8 (PTX ISA, "Register Fragments and Shared Memory Matrix Layouts"). A product
sums over 32 bytes of each row of A and column of B: 16 numbers of 16 bits, or 32 of 8.

Descriptors tell where a matrix lies in shared memory. Elements lie in pieces of 16 bytes, eight of 16 bits in each.
With a swizzle of W pieces (8, 4 or 2), W pieces make a row, 8 rows make an atom, and a piece's number in its row is
XORed with bits of its row's number: with bits 7 up of the address. Along a row go the elements that a product sums over
("K-major") or, transposed, rows of A or columns of B ("MN-major", of 16-bit elements alone). See the PTX ISA, "Matrix
Descriptor Format" and "Canonical Layouts".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdnbench.ptx.machine import APART, Handler, LaneState, Machine
from gdnbench.ptx.numbers import Array, IntArray, canonical
from gdnbench.ptx.program import WARP, Fault, Operand, PtxInstruction, unknown
from gdnbench.ptx.segments import Access
from gdnbench.ptx.warps import as_doubles
from gdnbench.ptx.wgmma_registers import is_product, registers_of

WARPS, ROWS = 4, 64
GROUP = WARPS * WARP  # threads
_TYPES = {"bf16": np.uint16, "f16": np.uint16, "e4m3": np.uint8, "e5m2": np.uint8}
"""The dtype that holds the bits of each type of A and B."""


PIECE_BYTES = 16
PIECE = 8  # elements of 16 bits
INNER = 16  # elements of 16 bits that a product sums over
INNER_BYTES = 32
_ROW_PIECES = {0: 1, 1: 8, 2: 4, 3: 2}  # by swizzling mode


@dataclass(frozen=True)
class Descriptors:
    """The descriptors of warpgroups, which agree in all but the addresses."""

    start: IntArray  # shape (groups,), in bytes, as the dimension byte offsets
    leading: IntArray
    stride: IntArray
    row_pieces: int  # pieces of a row, 1 without a swizzle

    @classmethod
    def read(cls, words: Array) -> Descriptors | None:
        """Decodes 64-bit descriptors; returns None for what is unknown: base offsets, and several swizzles at once."""
        words = words.astype(np.uint64)
        start, leading, stride = (
            (words >> np.uint64(first) & np.uint64(0x3FFF)).astype(np.int64) * PIECE_BYTES for first in (0, 16, 32)
        )
        base, modes = words >> np.uint64(49) & np.uint64(7), np.unique(words >> np.uint64(62))
        if base.any() or len(modes) != 1:
            return None
        return cls(start, leading, stride, _ROW_PIECES[int(modes[0])])

    def pieces(self, size: int, *, is_transposed: bool) -> IntArray | None:
        """Returns addresses of a matrix's pieces, in bytes, or None if a row or an atom is entered at an unknown place.

        Of shape (groups, size, 2): for each of `size` rows of A or columns of B, the two pieces to sum over. Transposed
        (MN-major), of shape (groups, 16, size / 8): for each element to sum over, its pieces.
        """
        width, start = self.row_pieces, self.start[:, None, None]
        leading, stride = self.leading[:, None, None], self.stride[:, None, None]
        across = size // PIECE if is_transposed else INNER_BYTES // PIECE_BYTES
        if width > 1 and not self._begins_well(min(across, width) if is_transposed else across):
            return None
        outer, inner = np.arange(INNER if is_transposed else size)[:, None], np.arange(across)
        rows, groups = outer % 8 * (width * PIECE_BYTES), outer // 8
        if is_transposed and width == 1:
            places = inner * stride + rows + groups * leading
        elif is_transposed:
            places = inner % width * PIECE_BYTES + inner // width * leading + rows + groups * stride
        else:
            places = inner * (leading if width == 1 else PIECE_BYTES) + rows + groups * stride
        addresses = start + places
        swizzled: IntArray = addresses ^ (addresses >> 7 & width - 1) * PIECE_BYTES
        return swizzled

    def _begins_well(self, pieces: int) -> bool:
        """Returns whether the first `pieces` pieces lie in the first row of an atom."""
        row = self.row_pieces * PIECE_BYTES
        return bool((self.start % (8 * row) + pieces * PIECE_BYTES <= row).all())


@dataclass(frozen=True)
class _Product:
    """A decoded `wgmma.mma_async`.

    A lies in registers `a`, or where the descriptor in `a_place` says; `adds` is the predicate whether to add to what
    the sums hold. Transposed, rows of A or columns of B lie side by side.
    """

    shape: str
    columns: int
    kinds: tuple[str, str]
    sums: tuple[Operand, ...]
    a: tuple[Operand, ...]
    a_place: Operand | None
    b_place: Operand
    adds: Operand
    sign: int
    is_a_transposed: bool
    is_b_transposed: bool

    @classmethod
    def of(cls, instruction: PtxInstruction) -> _Product:
        """Decodes an instruction; raises NotInterpretedError for an unknown form."""
        words, operands = instruction.modifiers, instruction.operands
        if len(words) != 7 or words[:3] != ("mma_async", "sync", "aligned") or words[4] != "f32":
            raise unknown(instruction)
        shape, kinds = words[3], (words[5], words[6])
        columns, is_wide = _columns(shape, kinds), kinds[0] in {"bf16", "f16"}
        sums, a, b, adds, *numbers = operands
        parts = len(a.parts)
        values = [int(each.text) if each.text in {"1", "0", "-1"} else 2 for each in numbers]
        # Only matrices of 16-bit numbers in shared memory may be transposed.
        flags = 2 + (2 - bool(parts) if is_wide else 0)
        if not columns or len(sums.parts) != columns // 2 or parts not in {0, 4} or len(values) != flags:
            raise unknown(instruction)
        (sign_a, sign_b), flips = values[:2], values[2:]
        if {sign_a, sign_b} - {1, -1} or {*flips} - {0, 1}:
            raise unknown(instruction)
        return cls(
            shape=shape,
            columns=columns,
            kinds=kinds,
            sums=sums.parts,
            a=a.parts,
            a_place=None if parts else a,
            b_place=b,
            adds=adds,
            sign=sign_a * sign_b,
            is_a_transposed=not parts and flips[:1] == [1],
            is_b_transposed=flips[-1:] == [1],
        )


def _columns(shape: str, kinds: tuple[str, str]) -> int:
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    if not found or not {*kinds} <= _TYPES.keys():
        return 0
    sizes = {np.dtype(_TYPES[kind]).itemsize for kind in kinds}
    columns, inner = int(found[1]), int(found[2])
    is_one_type = sizes == {1} or kinds[0] == kinds[1]
    return columns if is_one_type and inner * max(sizes) == INNER_BYTES and columns in range(8, 257, 8) else 0


def _multiply(machine: Machine, instruction: PtxInstruction) -> None:
    """Computes D = A B + D or A B for the running warpgroups; sums are rounded once, as those of `mma`."""
    product = _Product.of(instruction)
    lanes = machine.lanes
    machine.flights.check_product(instruction, product.sums, product.a, product.shape)
    groups = len(lanes) // GROUP
    a, b = _left(machine, product), _right(machine, product)
    sums = np.matmul(product.sign * as_doubles(product.kinds[0], a), as_doubles(product.kinds[1], b))
    # For each 8 columns a lane has two neighbours in one of its warp's upper 8 rows, then two in one of the lower.
    apart = sums.reshape(groups, WARPS, 2, 8, product.columns // 8, 4, 2).transpose(4, 2, 6, 0, 1, 3, 5)
    held = np.ascontiguousarray(apart).reshape(product.columns // 2, len(lanes))
    adds = machine.spread(product.adds, "pred")
    if adds.any():
        before = np.stack([machine.spread(each, "f32") for each in product.sums])
        held = held + np.where(adds, before, np.float32(0))
    rounded = canonical(held.astype(np.float32))
    for register, values in zip(product.sums, rounded, strict=True):
        machine.write(register, values, "f32")
    machine.flights.begin_product(product.sums, product.a, product.shape)


def _left(machine: Machine, product: _Product) -> Array:
    """Returns A as bits, shape (groups, 64, 16), of 8-bit numbers (groups, 64, 32)."""
    groups = len(machine.lanes) // GROUP
    if product.a_place is not None:
        matrix = _from_shared(machine, product.a_place, ROWS, product.kinds[0], is_transposed=product.is_a_transposed)
        return matrix.swapaxes(1, 2) if product.is_a_transposed else matrix
    held = np.stack([machine.spread(each, "b32") for each in product.a], axis=1)
    # Registers go down the columns of tiles of 8 rows of 16 bytes: upper and lower of the first, then of the next.
    parts = np.ascontiguousarray(held).view(_TYPES[product.kinds[0]]).reshape(groups, WARPS, 8, 4, 2, 2, -1)
    return np.ascontiguousarray(parts.transpose(0, 1, 5, 2, 4, 3, 6)).reshape(groups, ROWS, -1)


def _right(machine: Machine, product: _Product) -> Array:
    """Returns B as bits, shape (groups, 16, columns), of 8-bit numbers (groups, 32, columns)."""
    matrix = _from_shared(
        machine, product.b_place, product.columns, product.kinds[1], is_transposed=product.is_b_transposed
    )
    return matrix if product.is_b_transposed else matrix.swapaxes(1, 2)


def _from_shared(machine: Machine, place: Operand, size: int, kind: str, *, is_transposed: bool) -> Array:
    """Reads a matrix by descriptors: (groups, size, 16 or 32), transposed (groups, 16, size); each warp all of it."""
    instruction, lanes = machine.instruction, machine.lanes
    words = machine.spread(place, "u64").reshape(-1, GROUP)
    if (words != words[:, :1]).any():
        raise unknown(instruction)
    descriptors = Descriptors.read(words[:, 0])
    pieces = None if descriptors is None else descriptors.pieces(size, is_transposed=is_transposed)
    if pieces is None:
        raise unknown(instruction)
    each = pieces.reshape(len(words), 1, -1)
    readers = lanes.reshape(-1, WARPS, WARP)[:, :, np.arange(each.shape[2]) % WARP]
    addresses = np.broadcast_to(each, readers.shape)
    access = Access(readers.ravel(), addresses.ravel(), 4, 4, machine.step, instruction)
    values, pending = machine.memory.begin_read(access)
    machine.pending_reads += pending
    one = np.ascontiguousarray(values.reshape(*readers.shape, 4)[:, 0])
    return one.view(_TYPES[kind]).reshape(len(words), pieces.shape[1], -1)


def _with_warpgroup(act: Callable[[Machine, PtxInstruction], None]) -> Handler:

    def handle(machine: Machine, instruction: PtxInstruction) -> int | None:
        machine.take_in(LaneState.AT_WARPGROUP)
        lanes, group = machine.lanes, _groups(machine)
        here = np.bincount(group[lanes], minlength=int(group[-1]) + 1)
        alive = np.bincount(group[machine.state != LaneState.ENDED], minlength=len(here))
        ready = (here == alive)[group[lanes]]
        machine.wait(lanes[~ready], LaneState.AT_WARPGROUP)
        if not ready.any():
            return APART
        is_full = ready & (here == GROUP)[group[lanes]]
        if (ready & ~is_full).any():
            text = f"threads of the warpgroup never come to `{instruction.opcode}`, which needs all {GROUP}"
            machine.findings.add(Fault.INACTIVE_LANE, instruction.at, text)
        if is_full.any():
            machine.select(lanes[is_full])
            act(machine, instruction)
        machine.select(lanes[ready])
        return None if ready.all() else machine.go_on()

    return handle


def _groups(machine: Machine) -> IntArray:
    groups: IntArray = machine.block * -(-machine.grid.threads // GROUP) + machine.thread // GROUP
    return groups


_multiply_together = _with_warpgroup(_multiply)


def _execute(machine: Machine, instruction: PtxInstruction) -> int | None:
    lanes, now = machine.lanes, machine.ordering.now
    if is_product(instruction):
        return _multiply_together(machine, instruction)
    words = instruction.modifiers
    if words == ("fence", "sync", "aligned"):
        machine.flights.fenced[lanes] = now
    elif words == ("commit_group", "sync", "aligned"):
        machine.flights.groups.commit(lanes, now)
    elif words == ("wait_group", "sync", "aligned"):
        machine.flights.groups.wait(lanes, int(instruction.operands[0].text))
        machine.converged()
        machine.end_reads("wgmma", machine.flights.groups)
    else:
        raise unknown(instruction)
    return None


def _fence(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes fences: `fence.proxy.async` and `fence.mbarrier_init` for the asynchronous proxy, others for flags."""
    if instruction.has("proxy") and instruction.has("async") and not instruction.has("global"):
        machine.ordering.fence_proxy(machine.lanes)
    elif instruction.has("mbarrier_init"):
        machine.ordering.init_fence[machine.lanes] = machine.ordering.now
    elif instruction.name == "membar" or instruction.has("acq_rel", "sc"):
        machine.ordering.fence(machine.lanes)


def watched(machine: Machine, instruction: PtxInstruction, handler: Handler) -> Handler:
    """Returns a handler that first checks the registers of products, if the instruction uses any."""
    if not machine.flights.tracked:
        return handler
    reads, writes = (
        tuple(name for name in names if name in machine.flights.tracked) for names in registers_of(instruction)
    )
    if instruction.name == "wgmma" or not (reads or writes):
        return handler

    def handle(machine: Machine, instruction: PtxInstruction) -> int | None:
        if instruction.name == "mov":
            machine.flights.move(reads, writes)
        else:
            machine.flights.access(instruction, reads, writes)
        return handler(machine, instruction)

    return handle


WARPGROUP_WIDE: dict[str, Handler] = {"wgmma": _execute, "fence": _fence, "membar": _fence}
