"""Builds kernels, and reads their cubins: resources, occupancy and instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.arch import Occupancy, limits_of, occupancy
from gdnbench.codegen.cubin import Resources, disassemble, read_resources
from gdnbench.codegen.job import Job, Result
from gdnbench.codegen.launch_limits import LaunchRequest
from gdnbench.codegen.sass import InstructionMix, read_mix
from gdnbench.codegen.schedule import InstructionSchedule, read_schedule
from gdnbench.codegen.schedule_summary import ScheduleSummary, summarize
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.inspection.subject import GpuSize, Subject
from gdnbench.measuring.observer import Observer
from gdnbench.model.code import Build
from gdnbench.model.kernel import TritonKernel

_READERS = 4  # each waits for cuobjdump twice, 10 ms or more


@dataclass(frozen=True)
class CompiledKernel:
    """A launch of a kernel compiled at a workload for an architecture.

    Attributes:
        threads: per block.
        dynamic_shared_bytes: per block, requested at the launch.
        grid: blocks along x, y and z.
        occupancy: of one SM.
        gpu_size: the GPU for which waves are counted; None if unknown.
    """

    subject: Subject
    build: Build
    resources: Resources
    threads: int
    dynamic_shared_bytes: int
    grid: tuple[int, ...]
    occupancy: Occupancy
    gpu_size: GpuSize | None
    mix: InstructionMix
    sass: str

    @cached_property
    def schedule(self) -> InstructionSchedule:
        """The issue cycle of each instruction, and what it waits for."""
        return read_schedule(self.sass)

    @cached_property
    def milestones(self) -> ScheduleSummary:
        """The issue cycles of loads and stores, and the waits for loads."""
        return summarize(self.schedule)

    @property
    def arch(self) -> str:
        """The target, `sm_90`."""
        return self.build.arch

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block in bytes, static and dynamic."""
        return self.resources.shared_bytes + self.dynamic_shared_bytes

    @property
    def serialized(self) -> int | None:
        """Number of warpgroup products that ptxas serializes, all or none, or None if the kernel has none."""
        products = self.mix.warpgroup_products
        return (products if self.build.serialized_because else 0) if products else None

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return prod(self.grid)

    @property
    def refused(self) -> str:
        """The reason why CUDA would refuse the launch; empty if it would not."""
        is_triton = isinstance(self.subject.entry.kernel, TritonKernel)
        declared = LaunchRequest(self.grid, self.threads, self.subject.dynamic_shared_bytes(), is_triton=is_triton)
        return declared.compiled_to(self.build).refusal(self.arch)

    @property
    def waves(self) -> float | None:
        """Grid size over the blocks that the GPU holds, or None if its size is unknown or no block fits."""
        if self.gpu_size is None or not self.occupancy.blocks:
            return None
        return self.blocks / (self.gpu_size.sms * self.occupancy.blocks)


@dataclass(frozen=True)
class FailedBuild:
    """A launch that did not build, with the compiler's error."""

    subject: Subject
    arch: str
    error: GdnbenchError


BuildOutcome = CompiledKernel | FailedBuild


def read_build(subject: Subject, build: Build, gpu_size: GpuSize | None) -> CompiledKernel:
    """Reads a cubin; raises BuildError if the declaration fails, MachineError if `cuobjdump` does."""
    cubin = Path(build.cubin)
    resources = read_resources(cubin, build.symbol, build.arch)
    sass = disassemble(cubin, build.symbol)
    threads = subject.threads(build.required_threads)
    # A Triton build's `shared_bytes` include what the launch requests; a cubin's do not.
    dynamic = build.shared_bytes - resources.shared_bytes + subject.dynamic_shared_bytes()
    resident = occupancy(
        limits_of(build.arch),
        threads=threads,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes + dynamic,
    )
    return CompiledKernel(
        subject=subject,
        build=build,
        resources=resources,
        threads=threads,
        dynamic_shared_bytes=dynamic,
        grid=subject.grid(),
        occupancy=resident,
        gpu_size=gpu_size,
        mix=read_mix(sass),
        sass=sass,
    )


def build_subjects(
    subjects: Sequence[Subject],
    archs: Sequence[str],
    gpu_size_of: Callable[[str], GpuSize | None],
    observer: Observer,
) -> tuple[BuildOutcome, ...]:
    """Builds each subject for each architecture; raises GdnbenchError only for failures that are not the kernel's."""
    wanted = [(subject, arch) for subject in subjects for arch in archs]
    jobs = [Job(one.entry, one.variant, one.workload, arch, one.launch) for one, arch in wanted]
    observer.begin("build", len(jobs))
    results = build_all(jobs, on_result=lambda _job, _result: observer.advance())

    def read(asked: tuple[tuple[Subject, str], Job]) -> BuildOutcome:
        (subject, arch), job = asked
        return _read(subject, arch, results[job], gpu_size_of(arch))

    with ThreadPoolExecutor(_READERS) as pool:
        return tuple(pool.map(read, zip(wanted, jobs, strict=True)))


def _read(subject: Subject, arch: str, result: Result, gpu_size: GpuSize | None) -> BuildOutcome:
    try:
        if isinstance(result, GdnbenchError):
            raise result
        return read_build(subject, result, gpu_size)
    except BuildError as error:
        return FailedBuild(subject, arch, error)
