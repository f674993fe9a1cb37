"""How many blocks of a kernel one SM holds at once, and what keeps it from holding more."""

from __future__ import annotations

from dataclasses import dataclass

from gdnbench.binary.limits import (
    MOST_THREADS_PER_BLOCK,
    REGISTER_UNIT,
    REGISTERS,
    RESERVED_SHARED,
    SHARED_UNIT,
    SUB_PARTITIONS,
    WARP_SIZE,
    SmLimits,
)

_MOST_REGISTERS = 255  # that an instruction can name; cuobjdump tells no more


@dataclass(frozen=True)
class Occupancy:
    """What is resident on one SM.

    Attributes:
        blocks: blocks; 0 if not even one fits.
        warps: warps.
        percent: of the warps that the SM could hold.
        limited_by: the resource that runs out first, several joined by commas: `warps`, `blocks`, `registers`,
            `shared memory`; `threads` for a block of more threads than any block may have.
    """

    blocks: int
    warps: int
    percent: float
    limited_by: str


def occupancy(limits: SmLimits, *, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """The occupancy of a launch, by the rules of `cuda_occupancy.h` (CUDA 13.0).

    Clusters are left out, and so are named barriers, whose number a cubin does not tell: with several of them a
    kernel may be held to fewer blocks.

    Args:
        limits: of the architecture.
        threads: per block.
        registers: per thread.
        shared_bytes: per block, static and dynamic, without what the system reserves.
    """
    if not 0 < threads <= MOST_THREADS_PER_BLOCK:
        return Occupancy(0, 0, 0.0, "threads")
    warps = _round_up(threads, WARP_SIZE) // WARP_SIZE
    fitting = {
        "warps": limits.warps // warps,
        "registers": _by_registers(warps, registers),
        "shared memory": _by_shared(limits, shared_bytes),
        "blocks": limits.blocks,
    }
    blocks = min(fitting.values())
    limiting = ", ".join(name for name, count in fitting.items() if count == blocks)
    return Occupancy(blocks, blocks * warps, 100 * blocks * warps / limits.warps, limiting)


def _by_registers(warps: int, registers: int) -> int:
    """Blocks that the register file holds: each sub-partition holds whole warps."""
    if registers == 0:
        return REGISTERS
    of_warp = _round_up(registers * WARP_SIZE, REGISTER_UNIT)
    # The launch is checked as if a block's warps filled all sub-partitions evenly.
    if registers > _MOST_REGISTERS or of_warp * _round_up(warps, SUB_PARTITIONS) > REGISTERS:
        return 0
    return REGISTERS // SUB_PARTITIONS // of_warp * SUB_PARTITIONS // warps


def _by_shared(limits: SmLimits, shared_bytes: int) -> int:
    of_block = _round_up(shared_bytes + RESERVED_SHARED, SHARED_UNIT)
    return limits.shared_bytes // of_block


def _round_up(count: int, unit: int) -> int:
    return -(-count // unit) * unit
