"""What to inspect, before it is built: launches of kernels at workloads, and the architectures to build for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Entry
from gdnbench.catalog.select import select_variants
from gdnbench.codegen.arch import DEFAULT_ARCHS, capability, limits_of
from gdnbench.errors import BuildError, DeclarationError, UsageError
from gdnbench.machine.gpus import spec_of
from gdnbench.model.case import Variant
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import CudaKernel, CudaLaunch, TorchKernel, TritonKernel, launch_of
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload

# A GPU of each capability among those that `gdnbench/machine/gpus.toml` tells of: NVIDIA's list of CUDA GPUs.
_EXAMPLES: Mapping[int, str] = {80: "a100", 86: "rtx3090", 90: "h200", 100: "b200"}


@dataclass(frozen=True)
class Subject:
    """One launch of a kernel of ours at one workload.

    Attributes:
        name: what commands call the kernel: its label, or where it comes from, `git:HEAD~1`.
        entry: the kernel.
        variant: its params at the workload.
        workload: the workload; the batch size decides the grid, and the params of some kernels.
        launch: the entry of the launch; empty for that of a kernel that has one.
    """

    name: str
    entry: Entry
    variant: Variant
    workload: Workload
    launch: str = ""

    @property
    def title(self) -> str:
        """What tables call it: the kernel, with the launch where it has several: `decode-x/prepare`."""
        return f"{self.name}/{self.launch}" if self.launch else self.name

    def grid(self) -> tuple[int, ...]:
        """Blocks along x, y and z, as far as the declaration gives them.

        Raises:
            BuildError: if the declaration's `grid` fails.
        """
        launch = launch_of(self.entry.kernel, self.launch)
        try:
            return tuple(launch.grid(self.workload, self.variant.params))
        except Exception as error:
            raise _declaration_failed(self, "grid", error) from error

    def threads(self, required: int) -> int:
        """Threads per block.

        Args:
            required: what the compiler fixed; 0 if it left the choice to the declaration.

        Raises:
            BuildError: if the declaration's `block` or `warps` fails.
        """
        launch, params = launch_of(self.entry.kernel, self.launch), self.variant.params
        try:
            if isinstance(launch, CudaLaunch):
                return launch.block(self.workload, params)
            return required or 32 * launch.warps(self.workload, params)
        except Exception as error:
            raise _declaration_failed(self, "block", error) from error

    def dynamic_shared_bytes(self) -> int:
        """Dynamic shared memory per block that the declaration asks for, in bytes; none for Triton, which decides.

        Raises:
            BuildError: if the declaration's `shared_bytes` fails.
        """
        launch = launch_of(self.entry.kernel, self.launch)
        try:
            return launch.shared_bytes(self.workload, self.variant.params) if isinstance(launch, CudaLaunch) else 0
        except Exception as error:
            raise _declaration_failed(self, "shared_bytes", error) from error


def _declaration_failed(subject: Subject, name: str, error: Exception) -> BuildError:
    if isinstance(error, DeclarationError):
        return BuildError(f"{subject.entry.kernel.name}: {error.message}")
    reason = f"{type(error).__name__}: {error}"
    return BuildError(f"`{name}` in variant.py of {subject.entry.kernel.name} failed: {reason}")


def launches_of(name: str, entry: Entry, variant: Variant, workload: Workload) -> tuple[Subject, ...]:
    """A subject for each launch of a kernel, in the order of its declaration; none for one reached through Python."""
    kernel = entry.kernel
    if not isinstance(kernel, CudaKernel | TritonKernel):
        return ()
    several = len(kernel.launches) > 1
    return tuple(Subject(name, entry, variant, workload, each.entry if several else "") for each in kernel.launches)


def choose_subjects(
    catalog: Catalog, op: str, names: Sequence[str], workloads: Sequence[Workload]
) -> tuple[tuple[Subject, ...], tuple[str, ...]]:
    """Every launch of what a user named, at every workload, and notes on what is left out.

    Raises:
        UnknownNameError: for a kernel that does not exist.
        UsageError: if none of the kernels has a build of its own, or none can do any of the workloads.
    """
    variants = select_variants(catalog, op, ",".join(names) or "all")
    found: dict[tuple[Variant, Workload], Entry] = {}  # what a dispatcher picks may be named beside it
    for workload in workloads:
        for asked in variants:
            entry, variant = catalog.behind(asked, workload)
            found[variant, workload] = entry
    foreign = [variant.label for (variant, _), entry in found.items() if isinstance(entry.kernel, TorchKernel)]
    built = {asked: entry for asked, entry in found.items() if not isinstance(entry.kernel, TorchKernel)}
    unable = {asked: reason for asked, entry in built.items() if (reason := entry.kernel.unable(asked[1]))}
    subjects = tuple(
        subject
        for (variant, workload), entry in built.items()
        if (variant, workload) not in unable
        for subject in launches_of(variant.label, entry, variant, workload)
    )
    named = ", ".join(dict.fromkeys(foreign))
    told = [f"{named}: reached through Python, no build of gdnbench's own to inspect"] if foreign and names else []
    told += _told_unable(unable)
    if not subjects:
        raise UsageError("; ".join(told), _what_else(catalog.ops[op], built))
    return subjects, tuple(told)


def _told_unable(unable: Mapping[tuple[Variant, Workload], str]) -> list[str]:
    """A line on each kernel that cannot do workloads, with the first of these."""
    by_label: dict[str, list[tuple[Workload, str]]] = {}
    for (variant, workload), reason in unable.items():
        by_label.setdefault(variant.label, []).append((workload, reason))
    return [
        f"{label} cannot do {first.titled}{f' and {len(more)} more' if more else ''}: {reason}"
        for label, ((first, reason), *more) in by_label.items()
    ]


def _what_else(op: Op, built: Mapping[tuple[Variant, Workload], Entry]) -> str:
    """What to ask for where there is nothing to inspect: a workload that a kernel can do, or other kernels."""
    for (variant, _), entry in built.items():
        if able := entry.able_workload():
            return f"ask for one that it can do: gdnbench inspect {variant.label} {' '.join(able.options)}"
    return "name a CUDA or Triton kernel; `gdnbench list` shows them"


@dataclass(frozen=True)
class GpuSize:
    """A GPU to count waves for.

    Attributes:
        name: its short name, `h200`.
        sms: streaming multiprocessors.
    """

    name: str
    sms: int


def choose_archs(wanted: str, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The architectures that `--arch` names; by default those of the GPUs at hand.

    Raises:
        UsageError: for one that is not understood.
    """
    named = [name.strip() for name in wanted.split(",") if name.strip()]
    if wanted and not named:
        raise UsageError(f"--arch {wanted}: no architecture is named", "write it as in --arch sm_90,sm_100")
    archs = named or [gpu.arch for gpu in gpus] or list(DEFAULT_ARCHS)
    for arch in archs:
        limits_of(arch)
    return tuple(dict.fromkeys(archs))


def fitting_archs(archs: Sequence[str], subjects: Sequence[Subject]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of architectures that nobody named, those that all subjects have instructions for; and a note on the others.

    Where none would be left, all are: that nothing compiles is then an error, as for an architecture that was named.
    """
    unfit = {arch: [one.name for one in subjects if not one.entry.kernel.fits(arch)] for arch in archs}
    fit = tuple(arch for arch, names in unfit.items() if not names)
    if not fit:
        return tuple(archs), ()
    told = {arch: ", ".join(dict.fromkeys(names)) for arch, names in unfit.items() if names}
    whose = "for the instructions of {} are another architecture's"
    return fit, tuple(f"{arch} is left out, {whose.format(names)}" for arch, names in told.items())


def gpu_size_of(arch: str, gpus: Sequence[Gpu]) -> GpuSize | None:
    """A GPU of an architecture: the one at hand, else one whose size its maker tells; None if there is neither."""
    here = next((gpu for gpu in gpus if gpu.sms and gpu.arch == f"sm_{capability(arch)}"), None)
    if here:
        return GpuSize(here.slug, here.sms)
    spec = spec_of(_EXAMPLES.get(capability(arch), ""))
    return GpuSize(spec.slug, spec.sms) if spec else None
