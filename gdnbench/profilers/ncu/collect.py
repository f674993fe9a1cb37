"""Profiles the kernels that a user named with ncu, and opens the reports that a user named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.select import select_variants
from gdnbench.errors import UsageError
from gdnbench.measuring.observer import Observer, alone_on
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.profilers.files import make_folder, unused_name
from gdnbench.profilers.ncu.command import failure_of, ncu_command, need_ncu
from gdnbench.profilers.ncu.profile import NcuReport, Profile
from gdnbench.profilers.ncu.report import load_report, read_any
from gdnbench.profilers.ncu.store import write_profiles
from gdnbench.profilers.process import Instrumentation, ProfileTask, run_worker
from gdnbench.profilers.selection import choose_case, choose_gpu, make_assignment

_ELSEWHERE = "read a report made elsewhere: gdnbench ncu --import FILE.ncu-rep"
_SUFFIXES = (".ncu-rep", ".csv", ".csv.gz")

ReportSource = Case | Path


@dataclass(frozen=True)
class NcuRequest:
    """How to look up kernels by name, and how to profile them.

    Attributes:
        catalog: the kernels.
        op: the op whose kernels are meant; where files alone are named it may be empty.
        axes: the workload, as `--shape` takes it.
        gpu: the GPU, as `--gpu` takes it.
        ncu: where ncu is; None to search for it.
        profiles: the folder that holds profiles.
        repeat: how many launches to profile of each kernel.
        seed: of the inputs, the same for all.
        limit_s: seconds that one kernel may take.
    """

    catalog: Catalog
    op: str
    axes: str
    gpu: str
    ncu: Path | None
    profiles: Path
    repeat: int
    seed: int
    limit_s: float


def named_kernels(names: Sequence[str], *, stored: bool) -> list[str]:
    """The names that are not files: see `find_sources`."""
    return [name for name in names if name and not (stored or name.endswith(_SUFFIXES))]


def find_sources(request: NcuRequest, names: Sequence[str], *, stored: bool) -> tuple[ReportSource, ...]:
    """Looks up names: a name with a report's suffix is a file, any other a kernel; with `stored` all are files.

    Raises:
        UnknownNameError: for a kernel, op or layout that does not exist.
        UsageError: for several workloads.
        GpuNotFoundError: if the GPU asked for is not here.
        MachineError: for a kernel whose module this Python lacks.
    """
    kernels = named_kernels(names, stored=stored)
    sources: dict[ReportSource, None] = {}
    for name in names:
        sources.update(dict.fromkeys(_cases(request, name)) if name in kernels else {Path(name): None})
    return tuple(sources)


def find_pair(
    request: NcuRequest, names: Sequence[str], other: str, *, stored: bool
) -> tuple[ReportSource, ReportSource]:
    """The two to compare.

    Raises:
        UsageError: if either is not exactly one; and as `find_sources`.
    """
    sides = find_sources(request, names, stored=stored), find_sources(request, [other], stored=False)
    for side in sides:
        if len(side) != 1:
            told = " ".join(names) if side is sides[0] else other
            raise UsageError(f"{told}: {len(side)} were named, and --diff compares one with one", "name each in full")
    return sides[0][0], sides[1][0]


def open_sources(request: NcuRequest, sources: Sequence[ReportSource], observer: Observer) -> tuple[NcuReport, ...]:
    """Reads the files, then profiles the kernels.

    Returns:
        A report for each source, in their order; a kernel that is named twice is profiled twice.

    Raises:
        MachineError: if there is no GPU or no ncu, and a kernel is to be profiled.
        ProfilerError: if a file is no report, or profiling fails.
    """
    found = {source: load_report(source, request.ncu) for source in sources if isinstance(source, Path)}
    cases = [source for source in sources if isinstance(source, Case)]
    collected = iter(_profile(request, cases, observer) if cases else ())
    return tuple(found[source] if isinstance(source, Path) else next(collected) for source in sources)


@dataclass(frozen=True)
class Collector:
    """Where and with what to profile.

    Attributes:
        gpu: the GPU.
        ncu: where ncu is.
        profiles: the folder that holds profiles.
        limit_s: seconds that one kernel may take.
        observer: told of every step.
    """

    gpu: Gpu
    ncu: Path
    profiles: Path
    limit_s: float
    observer: Observer

    def collect(self, assignments: Sequence[ProfileTask]) -> tuple[NcuReport, ...]:
        """Profiles kernels in turn; no other gdnbench process has the GPU in the meantime.

        Raises:
            ProfilerError: if ncu or a worker fails; reports finished by then stay.
            MachineError: if the folder cannot be written.
        """
        with alone_on(self.gpu, self.observer):
            self.observer.begin("profile", len(assignments))
            return tuple(self._collect(assignment) for assignment in assignments)

    def _collect(self, assignment: ProfileTask) -> NcuReport:
        case = assignment.case
        self.observer.step(f"{case.label} {case.workload}")
        folder = make_folder(self.profiles, "ncu", case.label)
        stem = unused_name(folder, case, self.gpu.slug, ".ncu-rep")
        path = folder / f"{stem}.ncu-rep"
        ended = run_worker(assignment, self.gpu, limit_s=self.limit_s, wrapper=ncu_command(self.ncu, path))
        if ended.returncode or not path.is_file():
            raise failure_of(ended)
        profiles = tuple(_with_case(profile, assignment) for profile in read_any(path, self.ncu))
        write_profiles(folder / f"{stem}.csv", profiles)
        self.observer.advance()
        return NcuReport(path, profiles)


def _with_case(profile: Profile, assignment: ProfileTask) -> Profile:
    """A profile with the assignment's case, which some versions of ncu's module do not read from the NVTX range."""
    case = assignment.case
    return replace(profile, label=case.label, op=assignment.op, workload=case.workload, source=assignment.source)


def _cases(request: NcuRequest, name: str) -> tuple[Case, ...]:
    labels = [variant.label for variant in select_variants(request.catalog, request.op, name)]
    return tuple(choose_case(request.catalog, request.op, one, axes=request.axes, gpu=request.gpu) for one in labels)


def _profile(request: NcuRequest, cases: Sequence[Case], observer: Observer) -> tuple[NcuReport, ...]:
    gpu = choose_gpu(request.gpu, "profiling", _ELSEWHERE)
    collector = Collector(gpu, need_ncu(request.ncu), request.profiles, request.limit_s, observer)
    errands = [
        make_assignment(request.catalog, case, Instrumentation.LAUNCH, seed=request.seed, launches=request.repeat)
        for case in cases
    ]
    return collector.collect(errands)
