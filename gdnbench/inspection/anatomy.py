"""All that one cubin tells of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from gdnbench.binary import disassemble, read_resources
from gdnbench.binary.block import required_threads
from gdnbench.binary.limits import limits_of
from gdnbench.binary.mix import Mix, read_mix
from gdnbench.binary.occupancy import Occupancy, occupancy
from gdnbench.binary.resources import Resources
from gdnbench.binary.schedule import Milestones, Schedule, find_milestones, read_schedule
from gdnbench.inspection.archs import Device
from gdnbench.inspection.subject import Subject
from gdnbench.model import Build, TritonKernel

MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
"""Of a grid along x, y and z: CUDA C++ Programming Guide, technical specifications per compute capability (3.0 on)."""


@dataclass(frozen=True)
class Anatomy:
    """A kernel, at a shape, for an architecture.

    Attributes:
        subject: what was built.
        build: what the build cache has of it.
        resources: as the cubin tells them.
        threads: per block.
        dynamic_shared_bytes: per block, asked for at the launch.
        grid: blocks along x, y and z.
        occupancy: of one SM.
        device: the GPU that waves are counted for, if its size is known.
        mix: the instructions.
        sass: the disassembly.
    """

    subject: Subject
    build: Build
    resources: Resources
    threads: int
    dynamic_shared_bytes: int
    grid: tuple[int, ...]
    occupancy: Occupancy
    device: Device | None
    mix: Mix
    sass: str

    @cached_property
    def schedule(self) -> Schedule:
        """When each instruction issues, and what it waits for."""
        return read_schedule(self.sass)

    @cached_property
    def order(self) -> Milestones:
        """What its schedule comes to: when loads issue, and what waits for them."""
        return find_milestones(self.schedule)

    @property
    def arch(self) -> str:
        """The target, `sm_90`."""
        return self.build.arch

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block in bytes, static and dynamic."""
        return self.resources.shared_bytes + self.dynamic_shared_bytes

    @property
    def blocks(self) -> int:
        """Of the whole grid."""
        return prod(self.grid)

    @property
    def refused(self) -> str:
        """Why CUDA would not launch the grid; empty where it would."""
        for axis, blocks, most in zip("xyz", self.grid, MOST_BLOCKS, strict=False):
            if not 1 <= blocks <= most:
                grid = " x ".join(map(str, self.grid))
                return f"a grid of {grid} blocks cannot be launched: {axis} takes 1 to {most:,}"
        return ""

    @property
    def waves(self) -> float | None:
        """How often the grid fills the GPU; None where its size is unknown or not one block fits."""
        if self.device is None or not self.occupancy.blocks:
            return None
        return self.blocks / (self.device.sms * self.occupancy.blocks)


def dissect(subject: Subject, build: Build, device: Device | None) -> Anatomy:
    """Reads a cubin.

    Raises:
        BuildError: if the kernel's declaration fails at the shape.
        MachineError: if `cuobjdump` is absent or cannot read the cubin.
    """
    cubin = Path(build.cubin)
    resources = read_resources(cubin, build.symbol, build.arch)
    sass = disassemble(cubin, build.symbol)
    is_triton = isinstance(subject.entry.kernel, TritonKernel)
    threads = subject.threads(required_threads(cubin) if is_triton else None)
    # A build counts what Triton asks of the launch as its shared memory; a cubin does not.
    dynamic = build.shared_bytes - resources.shared_bytes + subject.dynamic_shared_bytes()
    resident = occupancy(
        limits_of(build.arch),
        threads=threads,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes + dynamic,
    )
    return Anatomy(
        subject=subject,
        build=build,
        resources=resources,
        threads=threads,
        dynamic_shared_bytes=dynamic,
        grid=subject.grid(),
        occupancy=resident,
        device=device,
        mix=read_mix(sass),
        sass=sass,
    )
