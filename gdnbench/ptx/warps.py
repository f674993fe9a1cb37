"""Instructions that the lanes of a warp execute together: shuffles, votes, reductions, and matrices such as `mma`.

A tile has 8 rows and 8 columns of 16 bits, and a warp holds it in one 32-bit register: lane 4 i + j has columns 2 j and
2 j + 1 of row i, the first in the low half. So a register of lanes 0 to 31 in order is its tile row by row. All
operands of matrix instructions consist of such tiles, those in fp32 of twice as many registers (PTX ISA, "Matrix
Fragments for mma.m16n8k16" and "ldmatrix").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdnbench.ptx.machine import APART, Handler, LaneState, Machine
from gdnbench.ptx.numbers import DTYPES, SHORT_FLOATS, Array, IntArray, canonical, widen_bfloat16
from gdnbench.ptx.program import WARP, Fault, Operand, PtxInstruction, unknown
from gdnbench.ptx.segments import Access

Together = Callable[[Machine, PtxInstruction, IntArray], None]
"""Executes an instruction for lanes that have all arrived; `masks` has the lanes that take part with each."""

_ALL_LANES = np.int64(0xFFFFFFFF)


def _masks_of(machine: Machine, lanes: IntArray) -> IntArray:
    """Returns which lanes of each warp are among the given ones; shape (warps,), bits."""
    bits = np.left_shift(1, machine.lane[lanes]).astype(np.float64)
    return np.bincount(machine.warp[lanes], weights=bits, minlength=int(machine.warp[-1]) + 1).astype(np.int64)


def are_whole_warps(machine: Machine) -> bool:
    """Returns whether the running lanes, which are in order, are all 32 of each of their warps."""
    lanes = machine.lanes
    if len(lanes) % WARP:
        return False
    first, last = lanes[::WARP], lanes[WARP - 1 :: WARP]
    return bool(((machine.lane[first] == 0) & (machine.lane[last] == WARP - 1) & (last - first == WARP - 1)).all())


def together(mask_at: int | None, act: Together) -> Handler:
    """Returns a handler that waits until all lanes of a mask have arrived, then calls `act`.

    `mask_at` is the position of the mask's operand; None for the whole warp, but for lanes that have ended. Forms
    without `sync`, and so without a mask, are gone from GPUs.
    """

    def handle(machine: Machine, instruction: PtxInstruction) -> int | None:
        if not instruction.has("sync"):
            raise unknown(instruction)
        machine.take_in(LaneState.AT_WARP)
        lanes = machine.lanes
        masks = np.full(len(lanes), _ALL_LANES) if mask_at is None else machine.integers(instruction.operands[mask_at])
        if mask_at is None and are_whole_warps(machine):
            act(machine, instruction, masks)
            machine.converged()
            return None
        here = _masks_of(machine, lanes)[machine.warp[lanes]]
        alive = _masks_of(machine, np.flatnonzero(machine.state != LaneState.ENDED))[machine.warp[lanes]]
        ready = masks & alive & ~here == 0
        outside = masks >> machine.lane[lanes] & 1 == 0
        lane = machine.lane[lanes[np.argmax(outside)]]
        text = f"lane {lane} executes `{instruction.opcode}` and is not in its own mask"
        machine.fault(Fault.INACTIVE_LANE, outside, text)
        machine.wait(lanes[~ready], LaneState.AT_WARP)
        if not ready.any():
            return APART
        machine.select(lanes[ready])
        act(machine, instruction, masks[ready])
        machine.converged()
        return None if ready.all() else machine.go_on()

    return handle


def _shuffle(machine: Machine, instruction: PtxInstruction, masks: IntArray) -> None:
    target, source, by, clamp, _ = instruction.operands
    lanes = machine.lanes
    lane = machine.lane[lanes]
    values, step, limits = machine.spread(source, "b32"), machine.integers(by) & 31, machine.integers(clamp)
    segment, last = limits >> 8 & 31, limits & 31
    highest = (lane & segment) | (last & ~segment)
    mode = next(word for word in ("up", "down", "bfly", "idx") if instruction.has(word))
    chosen = {
        "up": lane - step, "down": lane + step, "bfly": lane ^ step, "idx": (lane & segment) | (step & ~segment),
    }[mode]  # fmt: skip
    inside = chosen >= highest if mode == "up" else chosen <= highest
    chosen = np.where(inside, chosen, lane)
    taking_part = masks & _masks_of(machine, lanes)[machine.warp[lanes]]
    absent = taking_part >> chosen & 1 == 0
    first = np.argmax(absent)
    text = f"lane {lane[first]} reads lane {chosen[first]}, which does not take part"
    machine.fault(Fault.INACTIVE_LANE, absent, text)
    spread = np.zeros(len(machine.state), dtype=np.uint32)
    spread[lanes] = values
    targets = target.parts or (target,)
    found = spread[np.minimum(lanes - lane + chosen, len(spread) - 1)]
    machine.write(targets[0], np.where(absent, values, found), "b32")
    if len(targets) > 1:
        machine.write(targets[1], inside, "pred")


def _vote(machine: Machine, instruction: PtxInstruction, masks: IntArray) -> None:
    target, source, _ = instruction.operands
    lanes = machine.lanes
    holds = machine.spread(source, "pred")
    yes = _masks_of(machine, lanes[holds])[machine.warp[lanes]] & masks
    here = _masks_of(machine, lanes)[machine.warp[lanes]] & masks
    if instruction.has("ballot"):
        machine.write(target, yes.astype(np.uint32), "b32")
        return
    all_hold, none_holds = yes == here, yes == 0
    result = all_hold if instruction.has("all") else ~none_holds if instruction.has("any") else all_hold | none_holds
    machine.write(target, result, "pred")


def _match(machine: Machine, instruction: PtxInstruction, masks: IntArray) -> None:
    target, source, _ = instruction.operands
    lanes = machine.lanes
    values = machine.spread(source, instruction.types[-1]).astype(np.uint64)
    warp = machine.warp[lanes]
    pairs = np.stack([warp.astype(np.uint64), values], axis=1)
    _, group = np.unique(pairs, axis=0, return_inverse=True)
    bits = np.bincount(group.ravel(), weights=np.left_shift(1, machine.lane[lanes]).astype(np.float64))
    alike = bits[group.ravel()].astype(np.int64) & masks
    targets = target.parts or (target,)
    if instruction.has("any"):
        machine.write(targets[0], alike.astype(np.uint32), "b32")
        return
    here = _masks_of(machine, lanes)[warp] & masks
    machine.write(targets[0], np.where(alike == here, here, 0).astype(np.uint32), "b32")
    if len(targets) > 1:
        machine.write(targets[1], alike == here, "pred")


_REDUCTIONS: dict[str, tuple[np.ufunc, int]] = {
    "add": (np.add, 0), "and": (np.bitwise_and, -1), "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
}  # fmt: skip


def _reduce(machine: Machine, instruction: PtxInstruction, masks: IntArray) -> None:
    target, source, _ = instruction.operands
    kind, lanes = instruction.types[-1], machine.lanes
    if kind not in {"u32", "s32", "b32"}:
        raise unknown(instruction)
    values = machine.integers(source, kind)
    name = next(word for word in instruction.modifiers if word in _REDUCTIONS or word in {"min", "max"})
    limits = np.iinfo(DTYPES[kind])
    function, start = {"min": (np.minimum, int(limits.max)), "max": (np.maximum, int(limits.min)), **_REDUCTIONS}[name]
    # Lanes of one warp may take part in two reductions at once: by warp and mask.
    _, group = np.unique(np.stack([machine.warp[lanes], masks], axis=1), axis=0, return_inverse=True)
    total = np.full(int(group.max()) + 1, start, dtype=np.int64)
    function.at(total, group.ravel(), values)
    machine.write(target, total[group.ravel()].astype(np.uint32), "b32")


def _elect(machine: Machine, instruction: PtxInstruction, masks: IntArray) -> None:
    parts = instruction.operands[0].parts
    here = _masks_of(machine, machine.lanes)[machine.warp[machine.lanes]] & masks
    first = np.array([(int(mask) & -int(mask)).bit_length() - 1 for mask in here], dtype=np.int64)
    machine.write(parts[0], first.astype(np.uint32), "b32")
    machine.write(parts[1], first == machine.lane[machine.lanes], "pred")


def _active(machine: Machine, instruction: PtxInstruction) -> None:
    here = _masks_of(machine, machine.lanes)[machine.warp[machine.lanes]]
    machine.write(instruction.operands[0], here.astype(np.uint32), "b32")


def _order(machine: Machine, _instruction: PtxInstruction, _masks: IntArray) -> None:
    """Executes `bar.warp.sync`, which orders the warp's accesses to memory and what lanes know of their copies."""
    machine.ordering.join_warp(machine.lanes, machine.warp[machine.lanes])


synchronise_warp = together(0, _order)


WARP_WIDE: dict[str, Handler] = {
    "shfl": together(4, _shuffle), "vote": together(2, _vote), "match": together(2, _match),
    "redux": together(2, _reduce), "elect": together(1, _elect), "activemask": _active,
}  # fmt: skip


TILE = 8
"""Rows and columns of a tile. A row has 16 bytes."""
_INNER_TILES = {"m16n8k16": 2, "m16n8k8": 1}
"""Tiles along the dimension that a product sums over."""
_TILES_MOVED = {"x1": 1, "x2": 2, "x4": 4}


@dataclass(frozen=True)
class _Warps:
    """The warps that execute an instruction."""

    count: int
    places: IntArray | None  # shape (n,), of the running lanes among 32 a warp; None if all run, in order

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
    if len(parts := operand.parts or (operand,)) != count:
        raise unknown(machine.instruction)
    return parts


def _read(machine: Machine, warps: _Warps, registers: tuple[Operand, ...], kind: str) -> Array:
    """Returns what lanes hold in some registers; shape (warps, 32, registers)."""
    columns = [machine.spread(each, kind) for each in registers]
    return warps.spread(np.stack(columns, axis=1))


def _read_tiles(machine: Machine, warps: _Warps, operand: Operand, count: int) -> list[Array]:
    held = _read(machine, warps, _registers(machine, operand, count), "b32")
    tiles = [np.ascontiguousarray(held[:, :, place]).view(np.uint16) for place in range(count)]
    return [each.reshape(-1, TILE, TILE) for each in tiles]


def _write_tile(machine: Machine, warps: _Warps, register: Operand, tile: Array) -> None:
    held = np.ascontiguousarray(tile).reshape(warps.count, 2 * WARP).view(np.uint32)
    machine.write(register, warps.gather(held)[:, 0], "b32")


def _multiply(machine: Machine, instruction: PtxInstruction, _masks: IntArray) -> None:
    """Executes `mma`: D = A B + C with 16 rows and 8 columns, A and B of 16-bit floats or tf32, C and D of fp32.

    The products are exact; they and C are summed in float64 and rounded once to fp32. How the hardware orders and
    rounds its sums is not documented: every order comes near the exact sum, and last bits may differ.
    """
    shape = next((word for word in instruction.modifiers if word in _INNER_TILES), "")
    kind = instruction.types[-2] if len(instruction.types) == 4 else ""
    form = ("sync", "aligned", shape, "row", "col", "f32", kind, kind, "f32")
    if instruction.modifiers != form or (kind not in {"bf16", "f16"} and (shape, kind) != ("m16n8k8", "tf32")):
        raise unknown(instruction)
    target, *sources = instruction.operands
    inner, warps = _INNER_TILES[shape] * (2 if kind == "tf32" else 1), _Warps.of(machine, instruction)
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
    """Converts floats of 16 bits or fewer, given as bits, to doubles, and tf32, given as two times 16 bits each."""
    if kind == "tf32":  # tensor cores leave the last 13 bits out
        return (np.ascontiguousarray(bits).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if kind in SHORT_FLOATS:
        return SHORT_FLOATS[kind][bits]
    return (widen_bfloat16(bits) if kind == "bf16" else bits.view(np.float16)).astype(np.float64)


def _moved(instruction: PtxInstruction) -> int:
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
