"""Checks whether CUDA would take a launch: its grid, block, shared memory and cluster against an architecture's limits.

Sources: the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Thread Block Clusters",
and the errors of `cuLaunchKernel`: CUDA_ERROR_INVALID_VALUE for a grid, a block or shared memory beyond them,
CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES for registers, CUDA_ERROR_INVALID_CLUSTER_SIZE for clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from gdnbench.codegen.arch import MAX_THREADS_PER_BLOCK, REGISTERS, WARP_SIZE, SmLimits, limits_of, occupancy
from gdnbench.errors import UsageError
from gdnbench.model.code import NO_CLUSTER, Build
from gdnbench.model.kernel import CudaLaunch, TritonLaunch
from gdnbench.model.params import Params
from gdnbench.model.workload import Workload

MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
"""Blocks of a grid along x, y and z, on every architecture since compute capability 3.0."""
MOST_CLUSTERED = 8
"""Blocks of a cluster, unless the function is allowed more, which gdnbench's launches do not request."""


@dataclass(frozen=True)
class LaunchRequest:
    """What a launch requests: a grid and clusters in blocks along x, y and z, the rest per block but for the registers.

    Attributes:
        grid: as far as it is declared.
        shared_bytes: static and dynamic, as far as known.
        registers: per thread; 0 if unknown.
        required_threads: the only number that the compiled code is for; 0 if there is none.
        most_threads: by the code's `__launch_bounds__`; 0 without them.
        is_triton: whether Triton launches it, which passes over an empty grid.
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
        told = f"a grid of {' x '.join(map(str, self.grid))} blocks cannot be launched"
        if len(self.grid) > len(MOST_BLOCKS):
            return f"{told}: it has {len(self.grid)} axes, and CUDA's have {len(MOST_BLOCKS)}"
        least = 0 if self.is_triton else 1
        for axis, blocks, most in zip("xyz", self.grid, MOST_BLOCKS, strict=False):
            if not least <= blocks <= most:
                return f"{told}: {axis} takes {least} to {most:,}"
        if prod(self.cluster) > MOST_CLUSTERED:
            of = " x ".join(map(str, self.cluster))
            return f"a cluster of {of} blocks cannot be launched: it takes 1 to {MOST_CLUSTERED}"
        for axis, blocks, clustered in zip("xyz", (*self.grid, 1, 1), self.cluster, strict=False):
            if blocks % clustered:
                return f"{told}: along {axis} they make no whole clusters of {clustered}"
        return ""

    def _block_refusal(self) -> str:
        told = f"a block of {self.threads:,} threads cannot be launched"
        if not 1 <= self.threads <= MAX_THREADS_PER_BLOCK:
            return f"{told}: it takes 1 to {MAX_THREADS_PER_BLOCK:,}"
        if self.required_threads and self.threads != self.required_threads:
            return f"{told}: the kernel is compiled for blocks of {self.required_threads:,}"
        if self.most_threads and self.threads > self.most_threads:
            return f"{told}: the kernel's __launch_bounds__ are {self.most_threads:,}"
        return ""

    def _resource_refusal(self, arch: str) -> str:
        try:
            limits = limits_of(arch)
        except UsageError:  # newer than this table: its limits are no lower than these, but unknown
            return ""
        if self.shared_bytes > limits.block_shared_bytes:
            most = f"{arch} gives a block at most {limits.block_shared_bytes:,}"
            return f"a block with {self.shared_bytes:,} bytes of shared memory cannot be launched: {most}"
        if _lacks_registers(limits, self):
            of_each = f"{self.threads:,} threads with {self.registers} registers each"
            return f"a block of {of_each} cannot be launched: {arch} gives a block {REGISTERS:,}"
        return ""


def _lacks_registers(limits: SmLimits, request: LaunchRequest) -> bool:
    held = occupancy(limits, threads=request.threads, registers=request.registers, shared_bytes=0)
    return held.blocks == 0 and held.limited_by == "registers"


def request_of(launch: CudaLaunch | TritonLaunch, workload: Workload, params: Params) -> LaunchRequest:
    """Returns what a declaration requests at a workload; raises what the declaration's functions raise."""
    grid = tuple(int(size) for size in launch.grid(workload, params))
    if isinstance(launch, TritonLaunch):
        return LaunchRequest(grid, WARP_SIZE * int(launch.warps(workload, params)), is_triton=True)
    return LaunchRequest(grid, int(launch.block(workload, params)), int(launch.shared_bytes(workload, params)))
