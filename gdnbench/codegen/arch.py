"""Compilation targets: the limits of a streaming multiprocessor (SM), occupancy, and launches that CUDA would refuse.

Sources: the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (resident blocks, warps and
threads per SM, registers and shared memory per SM and block) and "Thread Block Clusters"; `cuda_occupancy.h` of CUDA
13.0 for the granularities (`cudaOccRegAllocationGranularity`, `cudaOccSMemAllocationGranularity`,
`cudaOccSubPartitionsPerMultiprocessor`) and, again, the blocks (`cudaOccMaxBlocksPerMultiprocessor`); and the errors of
`cuLaunchKernel`: CUDA_ERROR_INVALID_VALUE for a grid, a block or shared memory beyond the limits,
CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES for registers, CUDA_ERROR_INVALID_CLUSTER_SIZE for clusters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from gdnbench.errors import UsageError
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import NO_CLUSTER, Build
from gdnbench.model.kernel import CudaLaunch, TritonLaunch
from gdnbench.model.workload import Workload

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
        """The most bytes of one block that requests more than 48 KiB: all but what is reserved."""
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
        "shared memory": limits.shared_bytes // _round_up(shared_bytes + RESERVED_SHARED, SHARED_UNIT),
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


def _round_up(count: int, unit: int) -> int:
    return -(-count // unit) * unit


MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
"""Blocks of a grid along x, y and z, on every architecture since compute capability 3.0."""
MOST_CLUSTERED = 8
"""Blocks of a cluster, unless the function is allowed more, which gdnbench's launches do not request."""


@dataclass(frozen=True)
class LaunchRequest:
    """What a launch requests: a grid and clusters in blocks along x, y and z, the rest per block but for the registers.

    What is not known is 0. `required_threads` is the only number that the compiled code is for, `most_threads` that of
    its `__launch_bounds__`. Triton passes over an empty grid.
    """

    grid: tuple[int, ...]
    threads: int
    shared_bytes: int = 0
    registers: int = 0
    required_threads: int = 0
    most_threads: int = 0
    cluster: tuple[int, int, int] = NO_CLUSTER
    is_triton: bool = False

    def compiled_to(self, build: Build) -> LaunchRequest:
        """Returns the launch with what the compiler made of the kernel; Triton's has the threads that it requires."""
        return replace(
            self,
            threads=(build.required_threads or self.threads) if self.is_triton else self.threads,
            shared_bytes=self.shared_bytes + build.shared_bytes,
            registers=build.registers,
            required_threads=build.required_threads,
            most_threads=build.most_threads,
            cluster=build.cluster,
        )

    def refusal(self, arch: str) -> str:
        """Returns why CUDA would not launch it on an `arch` such as `sm_90`; empty if it would, as far as is known."""
        return self._grid_refusal() or self._block_refusal() or self._resource_refusal(arch)

    def _grid_refusal(self) -> str:
        start = f"a grid of {' x '.join(map(str, self.grid))} blocks cannot be launched"
        if len(self.grid) > len(MOST_BLOCKS):
            return f"{start}: it has {len(self.grid)} axes, and CUDA's have {len(MOST_BLOCKS)}"
        least = 0 if self.is_triton else 1
        for axis, blocks, most in zip("xyz", self.grid, MOST_BLOCKS, strict=False):
            if not least <= blocks <= most:
                return f"{start}: {axis} takes {least} to {most:,}"
        if prod(self.cluster) > MOST_CLUSTERED:
            of = " x ".join(map(str, self.cluster))
            return f"a cluster of {of} blocks cannot be launched: it takes 1 to {MOST_CLUSTERED}"
        for axis, blocks, clustered in zip("xyz", (*self.grid, 1, 1), self.cluster, strict=False):
            if blocks % clustered:
                return f"{start}: along {axis} they make no whole clusters of {clustered}"
        return ""

    def _block_refusal(self) -> str:
        start = f"a block of {self.threads:,} threads cannot be launched"
        if not 1 <= self.threads <= MAX_THREADS_PER_BLOCK:
            return f"{start}: it takes 1 to {MAX_THREADS_PER_BLOCK:,}"
        if self.required_threads and self.threads != self.required_threads:
            return f"{start}: the kernel is compiled for blocks of {self.required_threads:,}"
        if self.most_threads and self.threads > self.most_threads:
            return f"{start}: the kernel's __launch_bounds__ are {self.most_threads:,}"
        return ""

    def _resource_refusal(self, arch: str) -> str:
        try:
            limits = limits_of(arch)
        except UsageError:  # newer than this table: its limits are no lower than these, but unknown
            return ""
        if self.shared_bytes > limits.block_shared_bytes:
            most = f"{arch} gives a block at most {limits.block_shared_bytes:,}"
            return f"a block with {self.shared_bytes:,} bytes of shared memory cannot be launched: {most}"
        held = occupancy(limits, threads=self.threads, registers=self.registers, shared_bytes=0)
        if held.blocks == 0 and held.limited_by == "registers":
            of_each = f"{self.threads:,} threads with {self.registers} registers each"
            return f"a block of {of_each} cannot be launched: {arch} gives a block {REGISTERS:,}"
        return ""


def request_of(launch: CudaLaunch | TritonLaunch, workload: Workload, params: Params) -> LaunchRequest:
    """Returns what a declaration requests at a workload; raises what the declaration's functions raise."""
    grid = tuple(int(size) for size in launch.grid(workload, params))
    if isinstance(launch, TritonLaunch):
        return LaunchRequest(grid, WARP_SIZE * int(launch.warps(workload, params)), is_triton=True)
    return LaunchRequest(grid, int(launch.block(workload, params)), int(launch.shared_bytes(workload, params)))
