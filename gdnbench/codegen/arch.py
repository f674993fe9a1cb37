"""Compilation targets: the limits of one streaming multiprocessor (SM) of each, and the occupancy of a kernel.

Sources: the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (resident blocks, warps and
threads per SM, registers per SM and block, shared memory per SM and block), and `cuda_occupancy.h` of CUDA 13.0 for the
granularities (`cudaOccRegAllocationGranularity`, `cudaOccSMemAllocationGranularity`,
`cudaOccSubPartitionsPerMultiprocessor`) and, again, the blocks (`cudaOccMaxBlocksPerMultiprocessor`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gdnbench.errors import UsageError

_NAME = re.compile(r"sm_(\d{2,3})[af]?")
DEFAULT_ARCHS = ("sm_90", "sm_100")
"""Hopper and Blackwell: the targets where there is no GPU."""
WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
REGISTERS = 65536
"""32-bit registers per SM, and the most per block, on all of these architectures."""
REGISTER_UNIT = 256
"""A warp gets registers in multiples of this."""
SUB_PARTITIONS = 4
"""Schedulers of an SM, which divide its registers; a warp has all of its registers in one."""
SHARED_UNIT = 128
"""A block gets shared memory in multiples of these bytes, since compute capability 8.0."""
RESERVED_SHARED = 1024
"""Bytes of every block's shared memory that the system reserves, since compute capability 8.0."""
_KIB = 1024
_MOST_REGISTERS = 255  # that an instruction can name; cuobjdump prints no more


def capability(arch: str) -> int:
    """Returns a target's compute capability without a dot, 90 for `sm_90a`; raises UsageError for other names."""
    match = _NAME.fullmatch(arch)
    if match is None:
        raise UsageError(f"{arch} is not an architecture", "write it as in sm_90 or sm_100")
    return int(match[1])


@dataclass(frozen=True)
class SmLimits:
    """The limits of one architecture per SM: resident warps and blocks, and bytes of shared memory at its largest."""

    warps: int
    blocks: int
    shared_bytes: int

    @property
    def block_shared_bytes(self) -> int:
        """The most bytes of one block that has asked for more than 48 KiB: all but what is reserved."""
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
    """Returns the limits of an architecture, `sm_90` or `sm_90a`; raises UsageError if they are unknown."""
    known = f"understood: {', '.join(f'sm_{number}' for number in _LIMITS)}"
    try:
        return _LIMITS[capability(arch)]
    except UsageError as error:
        raise UsageError(error.message, known) from error
    except KeyError:
        raise UsageError(f"the limits of {arch} are not known here", known) from None


@dataclass(frozen=True)
class Occupancy:
    """The blocks and warps that are resident on one SM, and the percentage of the warps that it could hold.

    `limited_by` joins by commas the resources that run out first (`warps`, `blocks`, `registers`, `shared memory`); it
    is `threads` for a block of more threads than any block may have.
    """

    blocks: int
    warps: int
    percent: float
    limited_by: str


def occupancy(limits: SmLimits, *, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Returns the occupancy of a launch, by the rules of `cuda_occupancy.h` (CUDA 13.0).

    `threads` and `shared_bytes` are per block, the latter static and dynamic without what the system reserves;
    `registers` are per thread. Clusters are left out, and so are named barriers, whose number is not in a cubin: with
    several of them fewer blocks may fit.
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
    """Returns how many blocks the register file holds: each sub-partition holds whole warps."""
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
