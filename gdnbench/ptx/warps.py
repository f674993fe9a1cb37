"""Instructions that the lanes of a warp execute together: shuffles, votes, matches, reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdnbench.ptx.findings import Fault
from gdnbench.ptx.machine import APART, Handler, LaneState, Machine
from gdnbench.ptx.numbers import DTYPES, IntArray
from gdnbench.ptx.program import WARP, PtxInstruction, unknown

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

    `mask_at` is the position of the mask's operand; None for the whole warp, but for lanes that have ended.
    """

    def handle(machine: Machine, instruction: PtxInstruction) -> int | None:
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
    found = spread[np.minimum(machine.warp_base[lanes] + chosen, len(spread) - 1)]
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
    target, _ = instruction.operands
    here = _masks_of(machine, machine.lanes)[machine.warp[machine.lanes]] & masks
    first = np.array([(int(mask) & -int(mask)).bit_length() - 1 for mask in here], dtype=np.int64)
    parts = target.parts
    machine.write(parts[0], first.astype(np.uint32), "b32")
    machine.write(parts[1], first == machine.lane[machine.lanes], "pred")


def _active(machine: Machine, instruction: PtxInstruction) -> None:
    here = _masks_of(machine, machine.lanes)[machine.warp[machine.lanes]]
    machine.write(instruction.operands[0], here.astype(np.uint32), "b32")


def _order(machine: Machine, _instruction: PtxInstruction, _masks: IntArray) -> None:
    """Executes `bar.warp.sync`, which orders the warp's accesses to memory and what lanes know of their copies."""
    machine.ordering.join_warp(machine.lanes, machine.warp[machine.lanes])


synchronise_warp = together(0, _order)


def _with_mask(mask_at: int, act: Together) -> Handler:
    """Returns a handler as `together` does, which rejects forms without `sync`, and so a mask, that GPUs lack now."""
    handler = together(mask_at, act)

    def handle(machine: Machine, instruction: PtxInstruction) -> int | None:
        if not instruction.has("sync"):
            raise unknown(instruction)
        return handler(machine, instruction)

    return handle


WARP_WIDE: dict[str, Handler] = {
    "shfl": _with_mask(4, _shuffle), "vote": _with_mask(2, _vote), "match": _with_mask(2, _match),
    "redux": _with_mask(2, _reduce), "elect": _with_mask(1, _elect), "activemask": _active,
}  # fmt: skip
