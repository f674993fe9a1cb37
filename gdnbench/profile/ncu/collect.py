"""Profiles kernels by name with ncu, and opens reports by path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.select import select_variants
from gdnbench.errors import UsageError
from gdnbench.machine.lock import alone_on
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone
from gdnbench.profile.files import make_folder, unused_name
from gdnbench.profile.ncu.command import failure_of, ncu_command, need_ncu
from gdnbench.profile.ncu.profile import LaunchProfile, NcuReport
from gdnbench.profile.ncu.report import load_report, read_any
from gdnbench.profile.ncu.store import write_profiles
from gdnbench.profile.process import Instrumentation, ProfileTask, choose_case, choose_gpu, make_assignment, run_worker

_ELSEWHERE = "read a report made elsewhere: gdnbench ncu --import FILE.ncu-rep"
_SUFFIXES = (".ncu-rep", ".csv", ".csv.gz")

ReportSource = Case | Path


@dataclass(frozen=True)
class NcuRequest:
    """How to look up kernels by name, and how to profile them.

    Attributes:
        op: the kernels' op; may be empty if only files are named.
        axes: as `--shape` takes them.
        gpu: as `--gpu` takes it.
        ncu: path of ncu; None to search for it.
        repeat: launches to profile of each kernel.
        limit_s: time limit for one kernel.
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
    """Returns the names that are not files: see `find_sources`."""
    return [name for name in names if name and not (stored or name.endswith(_SUFFIXES))]


def find_sources(request: NcuRequest, names: Sequence[str], *, stored: bool) -> tuple[ReportSource, ...]:
    """Resolves names: one with a report's suffix is a file, any other a kernel; with `stored` all are files.

    Raises UnknownNameError for an unknown kernel, op or layout; UsageError for several workloads; GpuNotFoundError
    without the requested GPU; MachineError for a kernel whose module this Python lacks.
    """
    kernels = named_kernels(names, stored=stored)
    sources: dict[ReportSource, None] = {}
    for name in names:
        sources.update(dict.fromkeys(_cases(request, name)) if name in kernels else {Path(name): None})
    return tuple(sources)


def find_pair(
    request: NcuRequest, names: Sequence[str], other: str, *, stored: bool
) -> tuple[ReportSource, ReportSource]:
    """Returns the two sources to compare; raises UsageError if a side is not exactly one, and as `find_sources`."""
    sides = find_sources(request, names, stored=stored), find_sources(request, [other], stored=False)
    for side in sides:
        if len(side) != 1:
            told = " ".join(names) if side is sides[0] else other
            raise UsageError(f"{told}: {len(side)} were named, and --diff compares one with one", "name each in full")
    return sides[0][0], sides[1][0]


def open_sources(request: NcuRequest, sources: Sequence[ReportSource], observer: Observer) -> tuple[NcuReport, ...]:
    """Reads the files, then profiles the kernels; returns a report for each source, in order.

    A kernel that is named twice is profiled twice. Raises MachineError if a kernel is to be profiled without a GPU or
    ncu; ProfilerError if a file is not a report, or profiling fails.
    """
    found = {source: load_report(source, request.ncu) for source in sources if isinstance(source, Path)}
    cases = [source for source in sources if isinstance(source, Case)]
    collected = iter(_profile(request, cases, observer) if cases else ())
    return tuple(found[source] if isinstance(source, Path) else next(collected) for source in sources)


@dataclass(frozen=True)
class Collector:
    """Profiles kernels on one GPU, with a time limit `limit_s` for each."""

    gpu: Gpu
    ncu: Path
    profiles: Path
    limit_s: float
    observer: Observer

    def collect(self, assignments: Sequence[ProfileTask]) -> tuple[NcuReport, ...]:
        """Profiles kernels one after another, while no other gdnbench process has the GPU.

        Raises ProfilerError if ncu or a worker fails, MachineError if the folder cannot be written; earlier reports
        stay.
        """
        with alone_on(self.gpu, self.observer):
            self.observer(PhaseBegun("profile", len(assignments)))
            return tuple(self._collect(assignment) for assignment in assignments)

    def _collect(self, assignment: ProfileTask) -> NcuReport:
        case = assignment.case
        self.observer(StepChanged(f"{case.label} {case.workload}"))
        folder = make_folder(self.profiles, "ncu", case.label)
        stem = unused_name(folder, case, self.gpu.slug, ".ncu-rep")
        path = folder / f"{stem}.ncu-rep"
        ended = run_worker(assignment, self.gpu, limit_s=self.limit_s, wrapper=ncu_command(self.ncu, path))
        if ended.returncode or not path.is_file():
            raise failure_of(ended)
        profiles = tuple(_with_case(profile, assignment) for profile in read_any(path, self.ncu))
        write_profiles(folder / f"{stem}.csv", profiles)
        self.observer(UnitDone())
        return NcuReport(path, profiles)


def _with_case(profile: LaunchProfile, assignment: ProfileTask) -> LaunchProfile:
    """Sets the assignment's case, which some versions of ncu's module do not read from the NVTX range."""
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
