"""Instructions of a cluster's blocks: their barrier, and addresses in each other's shared memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdnbench.ptx.findings import Fault
from gdnbench.ptx.machine import LaneState, Machine
from gdnbench.ptx.numbers import Array
from gdnbench.ptx.program import PtxInstruction, unknown
from gdnbench.ptx.segments import PEER_BITS


def cluster_barrier(machine: Machine, instruction: PtxInstruction) -> int | None:
    """Executes `barrier.cluster.arrive` and `barrier.cluster.wait`."""
    if instruction.has("arrive"):
        return _arrive(machine, instruction)
    barrier, lanes = machine.ordering.clusters, machine.lanes
    done = barrier.is_complete(lanes)
    barrier.learn(lanes[done])
    if done.all():
        return machine.step + 1
    machine.state[lanes[~done]], machine.pc[lanes[~done]] = LaneState.AT_CLUSTER, machine.step
    machine.pc[lanes[done]] = machine.step + 1
    return None


def _arrive(machine: Machine, instruction: PtxInstruction) -> int:
    barrier, lanes = machine.ordering.clusters, machine.lanes
    again = int(np.count_nonzero(barrier.has_arrived(lanes)))
    if again:
        text = "arrives at the cluster's barrier again without having waited there"
        machine.findings.add(Fault.BARRIER, instruction.at, text, count=again)
    barrier.arrive(lanes, machine.ordering.now, is_relaxed=instruction.has("relaxed"))
    machine.cluster_barriers_changed()
    return machine.step + 1


def map_address(machine: Machine, instruction: PtxInstruction) -> int:
    """Executes `mapa.shared::cluster.u32`: puts the target block's rank, plus one, above a shared address's bits."""
    if instruction.types != ("u32",) or not instruction.has("shared__cluster"):
        raise unknown(instruction)
    target, place, rank = instruction.operands
    ranks: Array = np.broadcast_to(machine.read(rank, "u32"), machine.lanes.shape).astype(np.int64)
    outside: npt.NDArray[np.bool_] = ranks >= machine.program.cluster
    if outside.any():
        text = f"names block {int(ranks[outside][0])} of a cluster of {machine.program.cluster}"
        machine.findings.add(Fault.OUT_OF_BOUNDS, instruction.at, text, count=int(np.count_nonzero(outside)))
        ranks = np.where(outside, 0, ranks)
    places = machine.read(place, "u32").astype(np.int64) & ((1 << PEER_BITS) - 1)
    machine.write(target, (places | (ranks + 1) << PEER_BITS).astype(np.uint32), "u32")
    return machine.step + 1


CLUSTER_WIDE = {"mapa": map_address}
