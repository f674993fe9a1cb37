"""Instructions of a block's barriers and of mbarriers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdnbench.ptx.barriers import Mbarrier
from gdnbench.ptx.clusters import cluster_barrier
from gdnbench.ptx.findings import Fault
from gdnbench.ptx.grid import BARRIERS
from gdnbench.ptx.machine import LaneState, Machine
from gdnbench.ptx.numbers import Array
from gdnbench.ptx.ordering import IntArray
from gdnbench.ptx.program import Operand, PtxInstruction, PtxSourceLine, unknown
from gdnbench.ptx.segments import SHARED_WINDOW, Access
from gdnbench.ptx.warps import synchronise_warp


def _barrier(machine: Machine, instruction: PtxInstruction) -> int | None:
    """Executes `bar.sync`, `bar.arrive`, `bar.red`, `barrier.sync` and `bar.warp.sync`."""
    if instruction.has("cluster"):
        return cluster_barrier(machine, instruction)
    if instruction.has("warp"):
        return synchronise_warp(machine, instruction)
    if instruction.has("red"):
        return _vote_at_barrier(machine, instruction)
    number, *count = instruction.operands or (Operand("0"),)
    waits = not instruction.has("arrive")
    if not _arrive_at_barrier(machine, number, count, waits=waits) or not waits:
        return machine.step + 1
    machine.pc[machine.lanes] = machine.step + 1
    return None


def _arrive_at_barrier(machine: Machine, number: Operand, count: Sequence[Operand], *, waits: bool) -> bool:
    """Makes lanes arrive; returns whether the barrier exists. Waiting lanes stop running; the caller sets the pc."""
    lanes = machine.lanes
    numbers = np.broadcast_to(machine.read(number, "u32"), lanes.shape).astype(np.int64)
    counts = np.broadcast_to(machine.read(count[0], "u32") if count else np.uint32(0), lanes.shape).astype(np.int64)
    if (numbers >= BARRIERS).any():
        text = f"a block has {BARRIERS} barriers, and this is none of them"
        machine.findings.add(Fault.BARRIER, machine.instruction.at, text)
        return False
    machine.barriers.arrive(lanes, numbers, counts, waits=waits)
    if not waits:
        machine.ordering.leave(lanes, machine.block[lanes], numbers)
    else:
        machine.came_to[lanes], machine.has_met[lanes] = machine.step, False
        machine.state[lanes] = LaneState.AT_BARRIER
    return True


def _vote_at_barrier(machine: Machine, instruction: PtxInstruction) -> int | None:
    """Executes `bar.red` in two passes: to bring the predicate and, once all have met, to take what they brought."""
    target, number, *count, vote = instruction.operands
    lanes = machine.lanes
    met = machine.has_met[lanes] & (machine.came_to[lanes] == machine.step)
    if met.any():
        machine.lanes, machine.is_whole = lanes[met], False
        machine.has_met[machine.lanes] = False
        _take_votes(machine, instruction, target, number)
        machine.pc[machine.lanes] = machine.step + 1
    if not met.all():
        machine.lanes, machine.is_whole = lanes[~met], False
        machine.votes[machine.lanes] = machine.read(vote, "pred")
        machine.pc[machine.lanes] = machine.step
        if not _arrive_at_barrier(machine, number, count, waits=True):
            machine.pc[machine.lanes] = machine.step + 1
    return None


def _take_votes(machine: Machine, instruction: PtxInstruction, target: Operand, number: Operand) -> None:
    barrier = machine.block[machine.lanes] * BARRIERS + machine.read(number, "u32").astype(np.int64)
    yes = np.bincount(barrier, weights=machine.votes[machine.lanes])[barrier]
    if instruction.has("popc"):
        machine.write(target, yes.astype(np.uint32), "b32")
    elif instruction.has("and"):
        machine.write(target, yes == np.bincount(barrier)[barrier], "pred")
    else:
        machine.write(target, yes > 0, "pred")


def _mbarrier(machine: Machine, instruction: PtxInstruction) -> int | None:
    verb = instruction.modifiers[0]
    handler = {
        "init": _initialise, "inval": _invalidate, "arrive": _arrive, "expect_tx": _expect, "test_wait": _wait,
        "try_wait": _wait,
    }.get(verb)  # fmt: skip
    if handler is None:
        raise unknown(instruction)
    return handler(machine, instruction)


def _addresses(machine: Machine, operand: Operand) -> Array:
    return machine.addresses(operand) & ~np.int64(SHARED_WINDOW)


def _by_barrier(machine: Machine, addresses: Array) -> list[tuple[int, Mbarrier, IntArray]]:
    """Returns address and state of each mbarrier that lanes name, and the positions of those lanes."""
    return [
        (int(each), machine.mbarrier(int(each)), np.flatnonzero(addresses == each)) for each in np.unique(addresses)
    ]


def _touch(machine: Machine, instruction: PtxInstruction, addresses: Array, *, writes: bool) -> None:
    """Checks the memory access to an mbarrier: 8 bytes that `init` writes and all else reads."""
    access = Access(machine.lanes, addresses, 8, 1, machine.step, instruction)
    if writes:
        values = np.full((len(machine.lanes), 1), machine.ordering.now, dtype=np.uint64)
        machine.memory.store("shared", access, values)
    else:
        machine.memory.load("shared", access)


def _initialise(machine: Machine, instruction: PtxInstruction) -> int:
    place, count = instruction.operands
    addresses = _addresses(machine, place)
    counts = np.broadcast_to(machine.read(count, "u32"), addresses.shape).astype(np.int64)
    _touch(machine, instruction, addresses, writes=True)
    for _, mbarrier, rows in _by_barrier(machine, addresses):
        lanes = machine.lanes[rows]
        blocks = machine.block[lanes]
        mbarrier.initialise(blocks, counts[rows])
        mbarrier.maker[blocks], mbarrier.made_by[blocks] = machine.ordering.in_grid(lanes), machine.step
        mbarrier.made_at[blocks] = machine.ordering.now
    return machine.step + 1


def _is_of_library(at: PtxSourceLine | None) -> bool:
    """Returns whether a line is in libcu++'s `memcpy_async`, or in a function inlined there."""
    return at is not None and ("/__memcpy_async/" in at.file or _is_of_library(at.inlined_at))


def check_shown(machine: Machine, instruction: PtxInstruction, lanes: IntArray, barriers: IntArray) -> None:
    """Reports copies that complete on mbarriers which no fence has shown to the asynchronous proxy.

    Copies that `cuda::memcpy_async` has chosen to make are exempt: the kernel has no part in them. `barriers`, shape
    (lanes,), are addresses.
    """
    if _is_of_library(instruction.at):
        return
    for each in np.unique(barriers):
        mbarrier, mine = machine.mbarrier(int(each)), lanes[barriers == each]
        blocks = machine.block[mine]
        made = mbarrier.made_at[blocks]
        bad = (made > 0) & ~machine.ordering.is_shown(mine, mbarrier.maker[blocks], made)
        if bad.any():
            at = machine.program.instructions[int(mbarrier.made_by[blocks[bad]][0])].at
            fences = "`fence.mbarrier_init` nor `fence.proxy.async`"
            text = f"a copy completes on the mbarrier that is initialised at {at}, with neither {fences} between"
            machine.findings.add(Fault.RACE, instruction.at, text, count=int(np.count_nonzero(bad)))


def _invalidate(machine: Machine, instruction: PtxInstruction) -> int:
    for _, mbarrier, rows in _by_barrier(machine, _addresses(machine, instruction.operands[0])):
        mbarrier.expected[machine.block[machine.lanes[rows]]] = 0
    return machine.step + 1


def _arrive(machine: Machine, instruction: PtxInstruction) -> int:
    operands = [each for each in instruction.operands if not each.is_address]
    place = next(each for each in instruction.operands if each.is_address)
    addresses = _addresses(machine, place)
    _touch(machine, instruction, addresses, writes=False)
    target, given = operands[0] if operands else Operand("_"), operands[1:]
    states = np.zeros(len(machine.lanes), dtype=np.uint64)
    expects = instruction.has("expect_tx")
    amount = np.broadcast_to(machine.read(given[0], "u32") if given else np.uint32(1), addresses.shape).astype(np.int64)
    for address, mbarrier, rows in _by_barrier(machine, addresses):
        blocks = machine.block[machine.lanes[rows]]
        machine.ordering.bring(machine.lanes[rows], address)
        states[rows] = mbarrier.phase[blocks].astype(np.uint64)
        if expects:
            np.add.at(mbarrier.bytes, blocks, amount[rows])
        mbarrier.arrive(blocks, np.ones(len(rows), dtype=np.int64) if expects else amount[rows])
    machine.write(target, states, "b64")
    machine.mbarriers_changed()
    return machine.step + 1


def _expect(machine: Machine, instruction: PtxInstruction) -> int:
    place, count = instruction.operands
    addresses = _addresses(machine, place)
    _touch(machine, instruction, addresses, writes=False)
    amount = np.broadcast_to(machine.read(count, "u32"), addresses.shape).astype(np.int64)
    for _, mbarrier, rows in _by_barrier(machine, addresses):
        np.add.at(mbarrier.bytes, machine.block[machine.lanes[rows]], amount[rows])
    return machine.step + 1


def _wait(machine: Machine, instruction: PtxInstruction) -> int | None:
    """Executes `test_wait`, and `try_wait`, which here waits until the phase is complete and so never fails."""
    target, place, given = instruction.operands[:3]
    addresses, lanes = _addresses(machine, place), machine.lanes
    _touch(machine, instruction, addresses, writes=False)
    asked = np.broadcast_to(machine.read(given, "u32" if instruction.has("parity") else "u64"), lanes.shape)
    asked = asked.astype(np.int64)
    done = np.zeros(len(lanes), dtype=bool)
    phases, first = np.zeros(len(lanes), dtype=np.int64), np.zeros(len(lanes), dtype=np.int64)
    for address, mbarrier, rows in _by_barrier(machine, addresses):
        blocks = machine.block[lanes[rows]]
        phases[rows], first[rows] = mbarrier.phase[blocks], mbarrier.first[blocks]
        complete = phases[rows] & 1 != asked[rows] & 1 if instruction.has("parity") else phases[rows] > asked[rows]
        done[rows] = complete
        passed = rows[complete]
        if instruction.has("parity"):
            machine.ordering.learn_parity(lanes[passed], address, asked[passed], first[passed])
        else:
            machine.ordering.learn_phase(lanes[passed], address, asked[passed] + 1)
    if instruction.has("test_wait") or done.all():
        machine.write(target, done, "pred")
        return machine.step + 1
    waits = lanes[~done]
    machine.state[waits], machine.pc[waits] = LaneState.AT_MBARRIER, machine.step
    if done.any():
        ready = lanes[done]
        is_whole, machine.lanes, machine.is_whole = machine.is_whole, ready, False
        machine.write(target, np.ones(len(ready), dtype=bool), "pred")
        machine.lanes, machine.is_whole = lanes, is_whole
        machine.pc[ready] = machine.step + 1
    return None


def arrive_after_copies(machine: Machine, instruction: PtxInstruction) -> int:
    """Executes `cp.async.mbarrier.arrive`, which arrives at once, since copies are made at once here.

    Without `noinc` one more arrival is expected before it, so there is nothing to count.
    """
    for address, mbarrier, rows in _by_barrier(machine, _addresses(machine, instruction.operands[0])):
        lanes = machine.lanes[rows]
        blocks = machine.block[lanes]
        machine.ordering.arrive_after_copies(lanes, address, mbarrier.phase[blocks])
        if instruction.has("noinc"):
            mbarrier.arrive(blocks, np.ones(len(rows), dtype=np.int64))
    machine.mbarriers_changed()
    return machine.step + 1


WAITS = {"bar": _barrier, "barrier": _barrier, "mbarrier": _mbarrier}
