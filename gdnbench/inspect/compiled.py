"""Builds kernels, and reads their cubins: resources, occupancy and instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.declaration import place_of
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import select_variants
from gdnbench.codegen.ahead import Result, build_all
from gdnbench.codegen.arch import DEFAULT_ARCHS, LaunchRequest, Occupancy, capability, limits_of, occupancy, request_of
from gdnbench.codegen.build import Job
from gdnbench.codegen.cubin import Resources, disassemble, read_resources
from gdnbench.codegen.sass import InstructionMix, read_mix
from gdnbench.codegen.schedule import InstructionSchedule, ScheduleSummary, read_schedule, summarize
from gdnbench.errors import BuildError, DeclarationError, GdnbenchError, UsageError
from gdnbench.machine.gpus import spec_of
from gdnbench.model.case import Variant
from gdnbench.model.gpu import Build, Gpu
from gdnbench.model.kernel import CudaKernel, TorchKernel, TritonKernel, launch_of
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.process.events import Observer, PhaseBegun, UnitDone

# A GPU of each capability, of those in `gdnbench/machine/gpus.toml`: NVIDIA's list of CUDA GPUs.
_EXAMPLES: Mapping[int, str] = {80: "a100", 86: "rtx3090", 90: "h200", 100: "b200"}


@dataclass(frozen=True)
class Subject:
    """One launch of a kernel that gdnbench compiles, at a workload; `launch` is its entry, empty for a single one."""

    name: str  # in commands: its label, or its origin, `git:HEAD~1`
    entry: CatalogEntry
    variant: Variant
    workload: Workload
    launch: str = ""

    @property
    def title(self) -> str:
        """The kernel's name in tables, with the launch if it has several: `decode-x/prepare`."""
        return f"{self.name}/{self.launch}" if self.launch else self.name

    def request(self) -> LaunchRequest:
        """Returns what its declaration requests at the workload; raises BuildError if a function of it fails."""
        kernel = self.entry.kernel
        try:
            return request_of(launch_of(kernel, self.launch), self.workload, self.variant.params)
        except DeclarationError as error:
            raise BuildError(f"{kernel.name}: {error.message}") from error
        except Exception as error:
            place = place_of(error, self.entry.folder / "variant.py")
            raise BuildError(f"{place} of {kernel.name} failed: {type(error).__name__}: {error}") from error


def launches_of(name: str, entry: CatalogEntry, variant: Variant, workload: Workload) -> tuple[Subject, ...]:
    """Returns a subject for each launch of a kernel, in declaration order; none for a kernel called through Python."""
    kernel = entry.kernel
    if not isinstance(kernel, CudaKernel | TritonKernel):
        return ()
    several = len(kernel.launches) > 1
    return tuple(Subject(name, entry, variant, workload, each.entry if several else "") for each in kernel.launches)


def choose_subjects(
    catalog: Catalog, op: str, names: Sequence[str], workloads: Sequence[Workload]
) -> tuple[tuple[Subject, ...], tuple[str, ...]]:
    """Returns each launch of the named kernels at each workload, and notes on those left out; raises UsageError."""
    variants = select_variants(catalog, op, ",".join(names) or "all")
    found: dict[tuple[Variant, Workload], CatalogEntry] = {}  # a dispatcher's pick may also be named itself
    for workload in workloads:
        for requested in variants:
            entry, variant = catalog.behind(requested, workload)
            found[variant, workload] = entry
    foreign = [variant.label for (variant, _), entry in found.items() if isinstance(entry.kernel, TorchKernel)]
    built = {requested: entry for requested, entry in found.items() if not isinstance(entry.kernel, TorchKernel)}
    unable = {
        requested: reason
        for requested, entry in built.items()
        if (reason := entry.kernel.unsupported_reason(requested[1]))
    }
    subjects = tuple(
        subject
        for (variant, workload), entry in built.items()
        if (variant, workload) not in unable
        for subject in launches_of(variant.label, entry, variant, workload)
    )
    named = ", ".join(dict.fromkeys(foreign))
    notes = [f"{named}: reached through Python, no build of gdnbench's own to inspect"] if foreign and names else []
    notes += _unable_notes(unable)
    if not subjects:
        raise UsageError("; ".join(notes), _what_else(catalog.ops[op], built))
    return subjects, tuple(notes)


def _unable_notes(unable: Mapping[tuple[Variant, Workload], str]) -> list[str]:
    """Returns a line for each kernel that does not support some workloads, with the first of them."""
    by_label: dict[str, list[tuple[Workload, str]]] = {}
    for (variant, workload), reason in unable.items():
        by_label.setdefault(variant.label, []).append((workload, reason))
    return [
        f"{label} cannot do {first.titled}{f' and {len(more)} more' if more else ''}: {reason}"
        for label, ((first, reason), *more) in by_label.items()
    ]


def _what_else(op: Op, built: Mapping[tuple[Variant, Workload], CatalogEntry]) -> str:
    """Returns the hint if there is nothing to inspect: a workload that a kernel supports, or other kernels."""
    for (variant, _), entry in built.items():
        if able := entry.able_workload():
            return f"ask for one that it can do: gdnbench inspect {variant.label} {' '.join(able.options)}"
    return "name a CUDA or Triton kernel; `gdnbench list` shows them"


@dataclass(frozen=True)
class GpuSize:
    """A GPU for which waves are counted: its short name (`h200`) and its number of SMs."""

    name: str
    sms: int


def choose_archs(wanted: str, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Returns the architectures that `--arch` names, by default those of this machine's GPUs; raises UsageError."""
    named = [name.strip() for name in wanted.split(",") if name.strip()]
    if wanted and not named:
        raise UsageError(f"--arch {wanted}: no architecture is named", "write it as in --arch sm_90,sm_100")
    archs = named or [gpu.arch for gpu in gpus] or list(DEFAULT_ARCHS)
    for arch in archs:
        limits_of(arch)
    return tuple(dict.fromkeys(archs))


def fitting_archs(archs: Sequence[str], subjects: Sequence[Subject]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The default architectures that have all subjects' instructions, or all, whose builds then fail; and a note."""
    unfit = {arch: [one.name for one in subjects if not one.entry.kernel.fits(arch)] for arch in archs}
    fit = tuple(arch for arch, names in unfit.items() if not names)
    if not fit:
        return tuple(archs), ()
    other_archs = {arch: ", ".join(dict.fromkeys(names)) for arch, names in unfit.items() if names}
    whose = "for the instructions of {} are another architecture's"
    return fit, tuple(f"{arch} is left out, {whose.format(names)}" for arch, names in other_archs.items())


def gpu_size_of(arch: str, gpus: Sequence[Gpu]) -> GpuSize | None:
    """Returns a GPU of an architecture: this machine's, else one of known size, or None if there is neither."""
    here = next((gpu for gpu in gpus if gpu.sms and gpu.arch == f"sm_{capability(arch)}"), None)
    if here:
        return GpuSize(here.slug, here.sms)
    spec = spec_of(_EXAMPLES.get(capability(arch), ""))
    return GpuSize(spec.slug, spec.sms) if spec else None


_READERS = 4  # each waits for cuobjdump twice, 10 ms or more


@dataclass(frozen=True)
class CompiledKernel:
    """A launch of a kernel compiled at a workload for an architecture."""

    subject: Subject
    build: Build
    resources: Resources
    request: LaunchRequest  # with what the compiler made of the kernel
    occupancy: Occupancy  # of one SM
    gpu_size: GpuSize | None  # the GPU for which waves are counted; None if unknown
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
    def serialized(self) -> int | None:
        """Number of warpgroup products that ptxas serializes, all or none, or None if the kernel has none."""
        products = self.mix.warpgroup_products
        return (products if self.build.serialized_because else 0) if products else None

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return prod(self.request.grid)

    @property
    def refused(self) -> str:
        """The reason why CUDA would refuse the launch; empty if it would not."""
        return self.request.refusal(self.arch)

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
    request = subject.request().compiled_to(build)
    needs = {"threads": request.threads, "registers": resources.registers, "shared_bytes": request.shared_bytes}
    resident = occupancy(limits_of(build.arch), **needs)
    return CompiledKernel(subject, build, resources, request, resident, gpu_size, read_mix(sass), sass)


def build_subjects(
    subjects: Sequence[Subject], archs: Sequence[str], gpu_size_of: Callable[[str], GpuSize | None], observer: Observer
) -> tuple[BuildOutcome, ...]:
    """Builds each subject for each architecture; raises GdnbenchError only for failures that are not the kernel's."""
    wanted = [(subject, arch) for subject in subjects for arch in archs]
    jobs = [Job(one.entry, one.variant, one.workload, arch, one.launch) for one, arch in wanted]
    observer(PhaseBegun("build", len(jobs)))
    results = build_all(jobs, on_result=lambda _job, _result: observer(UnitDone()))

    def read(pair: tuple[tuple[Subject, str], Job]) -> BuildOutcome:
        (subject, arch), job = pair
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
