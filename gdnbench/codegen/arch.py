"""Compilation targets: what one streaming multiprocessor (SM) of each holds at once, and how much of it a kernel fills.

Sources: the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (resident blocks, warps and
threads per SM, registers per SM and block, shared memory per SM and block), and `cuda_occupancy.h` of CUDA 13.0, which
states the granularities (`cudaOccRegAllocationGranularity`, `cudaOccSMemAllocationGranularity`,
`cudaOccSubPartitionsPerMultiprocessor`) and repeats the blocks (`cudaOccMaxBlocksPerMultiprocessor`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gdnbench.errors import UsageError

_NAME = re.compile(r"sm_(\d{2,3})[af]?")
DEFAULT_ARCHS = ("sm_90", "sm_100")
"""Hopper and Blackwell: where there is no GPU, those that kernels are written for."""
WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
REGISTERS = 65536
"""32-bit registers per SM, and what one block may have of them: 64 Ki on all of these."""
REGISTER_UNIT = 256
"""Registers are given to a warp in multiples of this."""
SUB_PARTITIONS = 4
"""An SM's registers are divided among so many schedulers; a warp has all of its registers in one."""
SHARED_UNIT = 128
"""Shared memory is given to a block in multiples of so many bytes, since compute capability 8.0."""
RESERVED_SHARED = 1024
"""Bytes of every block's shared memory that the system keeps, since compute capability 8.0."""
_KIB = 1024
_MOST_REGISTERS = 255  # that an instruction can name; cuobjdump prints no more


def capability(arch: str) -> int:
    """The compute capability of a target, without a dot: 90 for `sm_90` and for `sm_90a`.

    Raises:
        UsageError: if the name is not of that form.
    """
    match = _NAME.fullmatch(arch)
    if match is None:
        raise UsageError(f"{arch} is not an architecture", "write it as in sm_90 or sm_100")
    return int(match[1])


@dataclass(frozen=True)
class SmLimits:
    """One architecture's limits.

    Attributes:
        warps: resident warps per SM.
        blocks: resident blocks per SM.
        shared_bytes: shared memory per SM in bytes, in its largest configuration.
    """

    warps: int
    blocks: int
    shared_bytes: int

    @property
    def block_shared_bytes(self) -> int:
        """What one block may use in bytes, once it has asked for more than 48 KiB: all but what is reserved."""
        return self.shared_bytes - RESERVED_SHARED


_LIMITS: Mapping[int, SmLimits] = {
    80: SmLimits(warps=64, blocks=32, shared_bytes=164 * _KIB),
    86: SmLimits(warps=48, blocks=16, shared_bytes=100 * _KIB),
    89: SmLimits(warps=48, blocks=24, shared_bytes=100 * _KIB),
    90: SmLimits(warps=64, blocks=32, shared_bytes=228 * _KIB),
    100: SmLimits(warps=64, blocks=32, shared_bytes=228 * _KIB),
    120: SmLimits(warps=48, blocks=24, shared_bytes=100 * _KIB),
}


def limits_of(arch: str) -> SmLimits:
    """The limits of an architecture, `sm_90` or `sm_90a`.

    Raises:
        UsageError: if its limits are not known here, naming those that are.
    """
    known = f"understood: {', '.join(f'sm_{number}' for number in _LIMITS)}"
    try:
        return _LIMITS[capability(arch)]
    except UsageError as error:
        raise UsageError(error.message, known) from error
    except KeyError:
        raise UsageError(f"the limits of {arch} are not known here", known) from None


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

    Clusters are left out, and so are named barriers, whose number is not in a cubin: with several of them a
    kernel may be held to fewer blocks.

    Args:
        limits: of the architecture.
        threads: per block.
        registers: per thread.
        shared_bytes: per block, static and dynamic, without what the system reserves.
    """
    if not 0 < threads <= MAX_THREADS_PER_BLOCK:
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
