"""What one streaming multiprocessor (SM) of each architecture holds at once.

Sources: the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (resident blocks, warps and
threads per SM, registers per SM and block, shared memory per SM and block), and `cuda_occupancy.h` of CUDA 13.0, which
states the granularities (`cudaOccRegAllocationGranularity`, `cudaOccSMemAllocationGranularity`,
`cudaOccSubPartitionsPerMultiprocessor`) and repeats the blocks (`cudaOccMaxBlocksPerMultiprocessor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gdnbench.binary.arch import capability
from gdnbench.errors import UsageError

WARP_SIZE = 32
MOST_THREADS_PER_BLOCK = 1024
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


_KIB = 1024
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
