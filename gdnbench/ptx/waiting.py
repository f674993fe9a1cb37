"""Instructions of a block's barriers and of mbarriers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdnbench.ptx.barriers import Mbarrier
from gdnbench.ptx.machine import APART, Handler, LaneState, Machine
from gdnbench.ptx.numbers import Array, IntArray
from gdnbench.ptx.program import BARRIERS, Fault, Operand, PtxInstruction, SourceLine, unknown
from gdnbench.ptx.segments import PEER_BITS, Access
from gdnbench.ptx.warps import synchronise_warp


def _cluster_barrier(machine: Machine, instruction: PtxInstruction) -> int | None:
    barrier, lanes = machine.ordering.clusters, machine.lanes
    if instruction.has("arrive"):
        text = "arrives at the cluster's barrier again without having waited there"
        machine.fault(Fault.BARRIER, barrier.has_arrived(lanes), text)
        barrier.arrive(lanes, machine.ordering.now, is_relaxed=instruction.has("relaxed"))
        machine.cluster_barriers_changed()
        return None
    done = barrier.is_complete(lanes)
    barrier.learn(lanes[done], machine.ordering.phases_known)
    if done.all():
        return None
    machine.wait(lanes[~done], LaneState.AT_CLUSTER)
    machine.pc[lanes[done]] = machine.step + 1
    return APART


def _map_address(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `mapa.shared::cluster.u32`: puts the target block's rank, plus one, above a shared address's bits."""
    if instruction.types != ("u32",) or not instruction.has("shared__cluster"):
        raise unknown(instruction)
    target, place, rank = instruction.operands
    ranks = machine.integers(rank)
    outside = ranks >= machine.program.cluster
    text = f"names block {ranks[np.argmax(outside)]} of a cluster of {machine.program.cluster}"
    machine.fault(Fault.OUT_OF_BOUNDS, outside, text)
    ranks = np.where(outside, 0, ranks)
    places = machine.read(place, "u32").astype(np.int64) & ((1 << PEER_BITS) - 1)
    machine.write(target, (places | (ranks + 1) << PEER_BITS).astype(np.uint32), "u32")


def _barrier(machine: Machine, instruction: PtxInstruction) -> int | None:
    if instruction.has("cluster"):
        return _cluster_barrier(machine, instruction)
    if instruction.has("warp"):
        return synchronise_warp(machine, instruction)
    if instruction.has("red"):
        return _vote_at_barrier(machine, instruction)
    number, *count = instruction.operands or (Operand("0"),)
    waits = not instruction.has("arrive")
    if not _arrive_at_barrier(machine, number, count, waits=waits) or not waits:
        return None
    machine.pc[machine.lanes] = machine.step + 1
    return APART


def _arrive_at_barrier(machine: Machine, number: Operand, count: Sequence[Operand], *, waits: bool) -> bool:
    """Makes lanes arrive; returns whether the barrier exists. Waiting lanes stop running; the caller sets the pc."""
    lanes = machine.lanes
    numbers, counts = machine.integers(number), machine.integers(count[0]) if count else np.zeros_like(lanes)
    if (numbers >= BARRIERS).any():
        text = f"a block has {BARRIERS} barriers, and this is not one of them"
        machine.findings.add(Fault.BARRIER, machine.instruction.at, text)
        return False
    machine.barriers.arrive(lanes, numbers, counts, waits=waits)
    if not waits:
        machine.ordering.leave(lanes, machine.block[lanes], numbers)
    else:
        machine.came_to[lanes], machine.has_met[lanes] = machine.step, False
        machine.state[lanes] = LaneState.AT_BARRIER
    return True


def _vote_at_barrier(machine: Machine, instruction: PtxInstruction) -> int:
    """Executes `bar.red` in two passes: to bring the predicate and, once all have met, to take what they brought."""
    target, number, *count, vote = instruction.operands
    lanes = machine.lanes
    met = machine.has_met[lanes] & (machine.came_to[lanes] == machine.step)
    if met.any():
        machine.select(lanes[met])
        machine.has_met[machine.lanes] = False
        _take_votes(machine, instruction, target, number)
        machine.pc[machine.lanes] = machine.step + 1
    if not met.all():
        machine.select(lanes[~met])
        machine.votes[machine.lanes] = machine.read(vote, "pred")
        machine.pc[machine.lanes] = machine.step
        if not _arrive_at_barrier(machine, number, count, waits=True):
            machine.pc[machine.lanes] = machine.step + 1
    return APART


def _take_votes(machine: Machine, instruction: PtxInstruction, target: Operand, number: Operand) -> None:
    barrier = machine.block[machine.lanes] * BARRIERS + machine.read(number, "u32").astype(np.int64)
    yes = np.bincount(barrier, weights=machine.votes[machine.lanes])[barrier]
    if instruction.has("popc"):
        machine.write(target, yes.astype(np.uint32), "b32")
    elif instruction.has("and"):
        machine.write(target, yes == np.bincount(barrier)[barrier], "pred")
    else:
        machine.write(target, yes > 0, "pred")


def _depend(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `griddepcontrol`: here launches run one after the other, and a wait is noted alone."""
    if instruction.has("wait"):
        machine.launches.wait(machine.lanes)


def _mbarrier(machine: Machine, instruction: PtxInstruction) -> int | None:
    handler = _OF_MBARRIERS.get(instruction.modifiers[0])
    if handler is None:
        raise unknown(instruction)
    return handler(machine, instruction)


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


def _initialise(machine: Machine, instruction: PtxInstruction) -> None:
    place, count = instruction.operands
    addresses = machine.shared_addresses(place)
    counts = machine.integers(count)
    _touch(machine, instruction, addresses, writes=True)
    for _, mbarrier, rows in _by_barrier(machine, addresses):
        lanes = machine.lanes[rows]
        blocks = machine.block[lanes]
        mbarrier.initialise(blocks, counts[rows])
        mbarrier.maker[blocks], mbarrier.made_by[blocks] = machine.ordering.in_grid(lanes), machine.step
        mbarrier.made_at[blocks] = machine.ordering.now


def _is_of_library(at: SourceLine | None) -> bool:
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


def _invalidate(machine: Machine, instruction: PtxInstruction) -> None:
    for _, mbarrier, rows in _by_barrier(machine, machine.shared_addresses(instruction.operands[0])):
        mbarrier.expected[machine.block[machine.lanes[rows]]] = 0


def _arrive(machine: Machine, instruction: PtxInstruction) -> None:
    operands = [each for each in instruction.operands if not each.is_address]
    place = next(each for each in instruction.operands if each.is_address)
    addresses = machine.shared_addresses(place)
    _touch(machine, instruction, addresses, writes=False)
    target, counts = operands[0] if operands else Operand("_"), operands[1:]
    states = np.zeros(len(machine.lanes), dtype=np.uint64)
    expects = instruction.has("expect_tx")
    amount = machine.integers(counts[0]) if counts else np.ones_like(machine.lanes)
    # One that arrives in another block of its cluster is taken for the same thread of that block.
    ranks, addresses = (addresses >> PEER_BITS) - 1, addresses & ((1 << PEER_BITS) - 1)
    lanes = np.where(ranks < 0, machine.lanes, machine.in_cluster(machine.lanes, ranks))
    for address, mbarrier, rows in _by_barrier(machine, addresses):
        blocks = machine.block[lanes[rows]]
        machine.ordering.bring(np.unique(lanes[rows]), address)
        states[rows] = mbarrier.phase[blocks].astype(np.uint64)
        if expects:
            np.add.at(mbarrier.bytes, blocks, amount[rows])
        mbarrier.arrive(blocks, np.ones_like(rows) if expects else amount[rows])
    machine.write(target, states, "b64")
    machine.mbarriers_changed()


def _expect(machine: Machine, instruction: PtxInstruction) -> None:
    place, count = instruction.operands
    addresses = machine.shared_addresses(place)
    _touch(machine, instruction, addresses, writes=False)
    amount = machine.integers(count)
    for _, mbarrier, rows in _by_barrier(machine, addresses):
        np.add.at(mbarrier.bytes, machine.block[machine.lanes[rows]], amount[rows])


def _wait(machine: Machine, instruction: PtxInstruction) -> int | None:
    """Executes `test_wait`, and `try_wait`, which here waits until the phase is complete and so never fails."""
    target, place, state = instruction.operands[:3]
    addresses, lanes, by_parity = machine.shared_addresses(place), machine.lanes, instruction.has("parity")
    _touch(machine, instruction, addresses, writes=False)
    awaited = machine.integers(state, "u32" if by_parity else "u64")
    done = np.zeros(len(lanes), dtype=bool)
    for address, mbarrier, rows in _by_barrier(machine, addresses):
        blocks = machine.block[lanes[rows]]
        phases = mbarrier.phase[blocks]
        done[rows] = phases & 1 != awaited[rows] & 1 if by_parity else phases > awaited[rows]
        passed = rows[done[rows]]
        if by_parity:
            first = mbarrier.first[machine.block[lanes[passed]]]
            machine.ordering.learn_parity(lanes[passed], address, awaited[passed], first)
        else:
            machine.ordering.learn_phase(lanes[passed], address, awaited[passed] + 1)
        machine.end_products(lanes[passed])
    if instruction.has("test_wait") or done.all():
        machine.write(target, done, "pred")
        return None
    machine.wait(lanes[~done], LaneState.AT_MBARRIER)
    if done.any():
        machine.select(lanes[done])
        machine.write(target, np.ones(len(machine.lanes), dtype=bool), "pred")
        machine.pc[machine.lanes] = machine.step + 1
        machine.select(lanes)
    return APART


def arrive_after_copies(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `cp.async.mbarrier.arrive`, at once as copies here; without `noinc` it expects itself."""
    for address, mbarrier, rows in _by_barrier(machine, machine.shared_addresses(instruction.operands[0])):
        lanes = machine.lanes[rows]
        blocks = machine.block[lanes]
        machine.ordering.arrive_after_copies(lanes, address, mbarrier.phase[blocks])
        if instruction.has("noinc"):
            mbarrier.arrive(blocks, np.ones_like(rows))
    machine.mbarriers_changed()


def arrive_from_products(machine: Machine, instruction: PtxInstruction, lanes: IntArray, addresses: IntArray) -> None:
    """Executes the arrivals of `tcgen05.commit`, at once as products here, each in the block of its lane."""
    check_shown(machine, instruction, lanes, addresses)
    for address in np.unique(addresses):
        mine, mbarrier = lanes[addresses == address], machine.mbarrier(int(address))
        blocks = machine.block[mine]
        machine.ordering.bring(mine, int(address))
        machine.commits.add(int(address), blocks, mbarrier.phase[blocks])
        mbarrier.arrive(blocks, np.ones_like(mine))
    machine.mbarriers_changed()


_OF_MBARRIERS: dict[str, Handler] = {
    "init": _initialise, "inval": _invalidate, "arrive": _arrive, "expect_tx": _expect, "test_wait": _wait,
    "try_wait": _wait,
}  # fmt: skip
WAITS: dict[str, Handler] = {
    "bar": _barrier, "barrier": _barrier, "mbarrier": _mbarrier, "mapa": _map_address, "griddepcontrol": _depend,
}  # fmt: skip
