"""Records the inside of kernels: clock stamps of a CUDA kernel's phases, a trace of a Triton kernel's scopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.build import Job
from gdnbench.codegen.cubin import disassemble
from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.machine.gpus import alone_on
from gdnbench.model.case import Case
from gdnbench.model.gpu import Build, Gpu
from gdnbench.model.kernel import CudaKernel, CutileKernel, TritonKernel
from gdnbench.process.events import NoteMade, Observer
from gdnbench.profile.files import make_folder, profile_name
from gdnbench.profile.process import Instrumentation, check_left, choose_gpu, make_assignment, run_worker
from gdnbench.profile.recording import WARM_UPS

_NAMES = b"gdnbench_phase_names"  # defined by GDNBENCH_PHASE_NAMES, in the code of each launch
_CLOCK = "SR_CLOCKLO"  # read by each mark


STAMPED, TRACED = 200, 8
"""Launches by default: to stamp, and to trace."""
_STORED = "`gdnbench proton --import FILE` shows what is stored"


@dataclass(frozen=True)
class ScopeRequest:
    """How to record the inside of kernels."""

    catalog: Catalog
    gpu: str
    profiles: Path
    launch: str  # the entry of the launch to stamp of a CUDA kernel; if empty, each launch that has marks
    launches: int | None  # number of calls, None for the default; fewer if the records would be too large
    seed: int
    limit_s: float

    def is_cuda(self, case: Case) -> bool:
        """Whether a case's kernel is stamped, not traced."""
        return isinstance(self.catalog.entries[case.variant.kernel].kernel, CudaKernel)


def collect_scopes(request: ScopeRequest, cases: Sequence[Case], observer: Observer) -> list[Path]:
    """Stamps CUDA kernels, or traces one Triton kernel; returns the files.

    Stamps are in `profiles/phases/<kernel>/<run>.npz`; of several launches each is stamped in calls of its own, whose
    other launches are plain, and the file's name ends with its entry. A trace is in `profiles/proton`, beside a
    `Recording`. Raises UsageError if a kernel lacks the launch, has no marks in it, or cannot be traced;
    BuildError if it does not build; MachineError without a GPU; ProfilerError if a worker failed.
    """
    if all(map(request.is_cuda, cases)):
        gpu = choose_gpu(request.gpu, "stamping", _STORED)
        with alone_on(gpu, observer):
            return [path for case in cases for path in _stamp(request, case, gpu, observer)]
    [case] = cases
    launches = _limit_launches(request.catalog, case, request.launches or TRACED, lambda text: observer(NoteMade(text)))
    gpu = choose_gpu(request.gpu, "a trace", _STORED)
    with alone_on(gpu, observer):
        return [_run(request, case, gpu, Instrumentation.PROTON, launches)]


def _stamp(request: ScopeRequest, case: Case, gpu: Gpu, observer: Observer) -> list[Path]:
    observer(NoteMade(f"stamping {case.label} at {case.workload}"))
    entry = request.catalog.entries[case.variant.kernel]
    marked = marked_launches(entry, case, gpu.arch, request.launch)
    several = isinstance(entry.kernel, CudaKernel) and len(entry.kernel.launches) > 1
    launches = request.launches or STAMPED
    names = marked if several else ("",)
    return [_run(request, case, gpu, Instrumentation.PHASES, launches, name) for name in names]


def _run(
    request: ScopeRequest, case: Case, gpu: Gpu, instrumentation: Instrumentation, launches: int, entry: str = ""
) -> Path:
    is_stamped = instrumentation is Instrumentation.PHASES
    suffix, failure = ("npz", "was not stamped") if is_stamped else ("json", "could not be traced")
    name = f"{profile_name(case, gpu.slug, entry=entry)}.{suffix}"
    path = make_folder(request.profiles, instrumentation.value, case.label) / name
    task = make_assignment(
        request.catalog, case, instrumentation, seed=request.seed, launches=launches, result=str(path.resolve())
    )
    ended = run_worker(replace(task, entry=entry), gpu, limit_s=request.limit_s)
    check_left(ended, path, f"{case.label} {failure}", f"gdnbench verify {case.label}")
    return path


# Six scopes are 1.5 KB of trace for each warp of each launch: 100 MB in all before gzip.
_MOST_WARPS = 65536


def _limit_launches(catalog: Catalog, case: Case, wanted: int, note: Callable[[str], None]) -> int:
    """Returns `wanted`, or as many launches as keep the trace readable; UsageError if one is too large."""
    kernel, params = catalog.entries[case.variant.kernel].kernel, case.variant.params
    if not isinstance(kernel, TritonKernel) or len(kernel.launches) > 1:
        several = isinstance(kernel, TritonKernel)
        why = "makes several launches" if several else "is reached through Python"
        times = f"gdnbench run --kernel {case.label} {' '.join(case.workload.options)}"
        raise UsageError(f"{case.label} {why}, and scopes are of one launch of Triton's", f"its times: {times}")
    blocks, warps = (
        prod(kernel.launches[0].grid(case.workload, params)),
        kernel.launches[0].warps(case.workload, params),
    )
    fitting = _MOST_WARPS // (blocks * warps) - WARM_UPS
    if fitting < 1:
        large = f"{blocks} blocks of {warps} warps are too many to trace, at 1.5 KB a warp and launch"
        raise UsageError(
            large, f"all blocks do the same: trace a smaller {case.workload.spec.x} than {case.workload.x}"
        )
    if fitting < wanted:
        note(f"tracing {fitting} of {wanted} launches: {blocks} blocks of {warps} warps make a large trace")
    return min(wanted, fitting)


def marked_launches(entry: CatalogEntry, case: Case, arch: str, launch: str = "") -> tuple[str, ...]:
    """The entries of the launches to stamp, in call order, or `launch`; UsageError if none has marks."""
    kernel, label = entry.kernel, case.label
    if isinstance(kernel, CutileKernel):
        shown = f"gdnbench inspect {label} --schedule"
        raise UsageError(f"{label} is in cuTile, in which there are no marks of phases", f"where it waits: {shown}")
    assert isinstance(kernel, CudaKernel)
    entries = [each.entry for each in kernel.launches]
    if launch and launch not in entries:
        raise UsageError(f"{label} has no launch {launch}", f"its launches: {', '.join(entries)}")
    built = _build(entry, case, arch, entries)
    marked = []
    if any(_NAMES in Path(stamped.cubin).read_bytes() for _, stamped in built.values()):
        marked = [name for name, (plain, stamped) in built.items() if _clock_reads(stamped) > _clock_reads(plain)]
    if not marked:
        how = "include <gdnbench/phases.cuh> in" if entry.source.suffix == ".cu" else "import .gdnbench.phases in"
        raise UsageError(
            f"{label} has no marks of phases",
            f"{how} {entry.source}, whose first lines say how, or do as decode-v4 does",
        )
    if launch and launch not in marked:
        raise UsageError(
            f"{launch} of {label} has no marks of phases", f"{', '.join(marked)} has: --launch {marked[0]}"
        )
    return (launch,) if launch else tuple(marked)


def _clock_reads(built: Build) -> int:
    return disassemble(Path(built.cubin), built.symbol).count(_CLOCK)


def _build(entry: CatalogEntry, case: Case, arch: str, launches: Sequence[str]) -> dict[str, tuple[Build, Build]]:
    plain = [Job(entry, case.variant, case.workload, arch, name) for name in launches]
    stamped = [replace(job, stamped=True) for job in plain]
    results = build_all([*plain, *stamped])

    def built(job: Job) -> Build:
        result = results[job]
        if isinstance(result, GdnbenchError):
            raise result
        return result

    return {name: (built(one), built(other)) for name, one, other in zip(launches, plain, stamped, strict=True)}
