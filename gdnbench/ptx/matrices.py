"""Matrices that the lanes of a warp hold together (`mma`, `ldmatrix` …), and those that `wgmma` descriptors describe.

A tile has 8 rows and 8 columns of 16 bits, and a warp holds it in one 32-bit register: lane 4 i + j has columns 2 j and
2 j + 1 of row i, the first in the low half. So a register of lanes 0 to 31 in order is its tile row by row. All
operands of these instructions consist of such tiles, those in fp32 of twice as many registers (PTX ISA, "Matrix
Fragments for mma.m16n8k16" and "ldmatrix").

Where a matrix of 16-bit or 8-bit elements lies in shared memory, according to `wgmma` descriptors.

Elements lie in pieces of 16 bytes, eight of 16 bits in each. With a swizzle of W pieces (8, 4 or 2), W pieces make a
row, 8 rows make an atom, and a piece's number in its row is XORed with bits of its row's number: with bits 7 up of the
address. Along a row go the elements that a product sums over ("K-major") or, transposed, rows of A or columns of B
("MN-major", of 16-bit elements alone). See the PTX ISA, "Matrix Descriptor Format" and "Canonical Layouts".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdnbench.ptx.findings import Fault
from gdnbench.ptx.machine import Handler, Machine
from gdnbench.ptx.numbers import Array, IntArray, canonical, widen_bfloat16, widen_e4m3
from gdnbench.ptx.program import WARP, Operand, PtxInstruction, unknown
from gdnbench.ptx.segments import Access
from gdnbench.ptx.warps import Together, are_whole_warps, together

TILE = 8
"""Rows and columns of a tile. A row has 16 bytes."""
_INNER_TILES = {"m16n8k16": 2, "m16n8k8": 1}
"""Tiles along the dimension that a product sums over."""
_TILES_MOVED = {"x1": 1, "x2": 2, "x4": 4}


@dataclass(frozen=True)
class _Warps:
    """The warps that execute an instruction.

    Attributes:
        count: how many.
        places: shape (n,), the position of each running lane among 32 lanes per warp; None if all run, in order.
    """

    count: int
    places: IntArray | None

    @classmethod
    def of(cls, machine: Machine, instruction: PtxInstruction) -> _Warps:
        """Returns the running warps; reports lanes that ended without coming here, which a GPU leaves undefined."""
        lanes = machine.lanes
        if are_whole_warps(machine):
            return cls(len(lanes) // WARP, None)
        warps, row = np.unique(machine.warp[lanes], return_inverse=True)
        places = row.ravel() * WARP + machine.lane[lanes]
        missing = np.setdiff1d(np.arange(len(warps) * WARP), places)
        text = f"lane {missing[0] % WARP} never comes to `{instruction.name}`, which needs all lanes of the warp"
        machine.findings.add(Fault.INACTIVE_LANE, instruction.at, text, count=len(missing))
        return cls(len(warps), places)

    def spread(self, values: Array) -> Array:
        """Orders lanes' values, shape (n, k), by warp and lane: shape (warps, 32, k), zero for missing lanes."""
        if self.places is not None:
            full = np.zeros((self.count * WARP, values.shape[1]), dtype=values.dtype)
            full[self.places] = values
            values = full
        return np.ascontiguousarray(values).reshape(self.count, WARP, -1)

    def gather(self, values: Array) -> Array:
        """Reverses `spread`: shape (warps, 32, k) to (n, k)."""
        flat = values.reshape(self.count * WARP, -1)
        return flat if self.places is None else flat[self.places]


def _registers(machine: Machine, operand: Operand, count: int) -> tuple[Operand, ...]:
    parts = operand.parts or (operand,)
    if len(parts) != count:
        raise unknown(machine.instruction)
    return parts


def _read(machine: Machine, warps: _Warps, registers: tuple[Operand, ...], kind: str) -> Array:
    """Returns what lanes hold in some registers; shape (warps, 32, registers)."""
    columns = [machine.spread(each, kind) for each in registers]
    return warps.spread(np.stack(columns, axis=1))


def _read_tiles(machine: Machine, warps: _Warps, operand: Operand, count: int) -> list[Array]:
    """Returns the tiles in `count` registers, each of shape (warps, 8, 8), as bits."""
    held = _read(machine, warps, _registers(machine, operand, count), "b32")
    tiles = [np.ascontiguousarray(held[:, :, place]).view(np.uint16) for place in range(count)]
    return [each.reshape(-1, TILE, TILE) for each in tiles]


def _write_tile(machine: Machine, warps: _Warps, register: Operand, tile: Array) -> None:
    held = np.ascontiguousarray(tile).reshape(warps.count, 2 * WARP).view(np.uint32)
    machine.write(register, warps.gather(held)[:, 0], "b32")


def _multiply(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    """Executes `mma`: D = A B + C with 16 rows and 8 columns, A and B of 16-bit floats, C and D of fp32.

    The products are exact; they and C are summed in float64 and rounded once to fp32. How the hardware orders and
    rounds its sums is not documented: every order comes near the exact sum, and last bits may differ.
    """
    shape = next((word for word in instruction.modifiers if word in _INNER_TILES), "")
    kind = instruction.types[-2] if len(instruction.types) == 4 else ""
    form = ("sync", "aligned", shape, "row", "col", "f32", kind, kind, "f32")
    if instruction.modifiers != form or kind not in {"bf16", "f16"}:
        raise unknown(instruction)
    target, *sources = instruction.operands
    inner, warps = _INNER_TILES[shape], _Warps.of(machine, instruction)
    # A's registers go down its columns of tiles. B's hold its transpose, for it is given column by column.
    a = _read_tiles(machine, warps, sources[0], 2 * inner)
    upper, lower = np.concatenate(a[0::2], axis=2), np.concatenate(a[1::2], axis=2)
    b = np.concatenate(_read_tiles(machine, warps, sources[1], inner), axis=2)
    c = _read(machine, warps, _registers(machine, sources[2], 4), "f32").reshape(warps.count, TILE, 4, 2, 2)
    product = np.matmul(as_doubles(kind, np.concatenate([upper, lower], axis=1)), as_doubles(kind, b).swapaxes(1, 2))
    # A lane's four sums are two neighbours in a row of the upper tile, then two of the lower.
    sums = product.reshape(warps.count, 2, TILE, 4, 2).transpose(0, 2, 3, 1, 4) + c
    rounded = warps.gather(canonical(sums.astype(np.float32)).reshape(warps.count, WARP, 4))
    for place, register in enumerate(_registers(machine, target, 4)):
        machine.write(register, rounded[:, place], "f32")


def as_doubles(kind: str, bits: Array) -> Array:
    """Converts floats of 16 or 8 bits, given as bits, to doubles."""
    if kind == "e4m3":
        return widen_e4m3(bits)
    if kind == "e5m2":  # the upper half of f16
        bits = bits.astype(np.uint16) << np.uint16(8)
    return (widen_bfloat16(bits) if kind == "bf16" else bits.view(np.float16)).astype(np.float64)


def _moved(instruction: PtxInstruction) -> int:
    """Returns how many tiles `ldmatrix` or `stmatrix` moves, between registers and shared memory."""
    words = instruction.modifiers
    count = next((_TILES_MOVED[word] for word in words if word in _TILES_MOVED), 0)
    is_shared = instruction.has("shared", "shared__cta")
    if not count or not is_shared or words[:3] != ("sync", "aligned", "m8n8") or words[-1] != "b16":
        raise unknown(instruction)
    return count


def _rows(machine: Machine, instruction: PtxInstruction, place: Operand, count: int) -> tuple[IntArray, Access]:
    """Returns the positions of the lanes that give a row's address, and the access, which counts as theirs.

    Lane i gives the address of row i % 8 of tile i / 8; addresses of lanes beyond the last tile are not used.
    """
    giving = np.flatnonzero(machine.lane[machine.lanes] < TILE * count)
    addresses = machine.addresses(place)[giving]
    return giving, Access(machine.lanes[giving], addresses, 4, 4, machine.step, instruction)


def _load(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    target, place = instruction.operands
    count, warps = _moved(instruction), _Warps.of(machine, instruction)
    giving, access = _rows(machine, instruction, place, count)
    held = np.zeros((len(machine.lanes), 4), dtype=np.uint32)
    held[giving] = machine.memory.load("shared", access)
    tiles = warps.spread(held).view(np.uint16).reshape(warps.count, 4, TILE, TILE)
    for number, register in enumerate(_registers(machine, target, count)):
        tile = tiles[:, number]
        _write_tile(machine, warps, register, tile.swapaxes(1, 2) if instruction.has("trans") else tile)


def _store(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    place, source = instruction.operands
    count, warps = _moved(instruction), _Warps.of(machine, instruction)
    giving, access = _rows(machine, instruction, place, count)
    tiles = np.zeros((warps.count, 4, TILE, TILE), dtype=np.uint16)
    for number, tile in enumerate(_read_tiles(machine, warps, source, count)):
        tiles[:, number] = tile.swapaxes(1, 2) if instruction.has("trans") else tile
    rows = warps.gather(tiles.view(np.uint32).reshape(warps.count, WARP, 4))
    machine.memory.store("shared", access, rows[giving])


def _transpose(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise unknown(instruction)
    target, source = instruction.operands
    warps = _Warps.of(machine, instruction)
    [tile] = _read_tiles(machine, warps, source, 1)
    _write_tile(machine, warps, target, tile.swapaxes(1, 2))


_ACTS: dict[str, Together] = {"mma": _multiply, "ldmatrix": _load, "stmatrix": _store, "movmatrix": _transpose}
MATRICES: dict[str, Handler] = {name: together(None, act) for name, act in _ACTS.items()}


PIECE_BYTES = 16
PIECE = 8  # elements of 16 bits
INNER = 16  # elements of 16 bits that a product sums over
INNER_BYTES = 32
_ROW_PIECES = {0: 1, 1: 8, 2: 4, 3: 2}  # by swizzling mode


@dataclass(frozen=True)
class Descriptors:
    """The descriptors of warpgroups, which agree in all but the addresses.

    `start` and the dimension byte offsets `leading` and `stride` have shape (groups,), in bytes; `row_pieces` is the
    pieces of a row, 1 without a swizzle.
    """

    start: IntArray
    leading: IntArray
    stride: IntArray
    row_pieces: int

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
