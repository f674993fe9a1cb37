"""Collects stamps: builds a kernel with and without its marks, and runs a worker that launches both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Entry
from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.job import Job
from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.model.case import Case
from gdnbench.model.code import Build
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.profilers.files import make_folder, profile_name
from gdnbench.profilers.phases.stamps import Stamps, read_stamps
from gdnbench.profilers.process import Instrumentation, check_left, run_worker
from gdnbench.profilers.selection import check_one_launch, make_assignment

_MARK = b"gdnbench_phase_names"  # the symbol that GDNBENCH_PHASE_NAMES defines


def check_is_cuda(entry: Entry, label: str) -> None:
    """Refuses what cannot be stamped.

    Raises:
        UsageError: for a kernel that is not in CUDA C++, or that makes several launches.
    """
    if isinstance(entry.kernel, TritonKernel):
        raise UsageError(f"{label} is a Triton kernel, whose phases Proton records", f"gdnbench proton {label}")
    if not isinstance(entry.kernel, CudaKernel):
        raise UsageError(f"{label} is reached through Python, and has no source to stamp", f"gdnbench ncu {label}")
    check_one_launch(entry.kernel, label, "stamps")


def collect_stamps(
    catalog: Catalog, case: Case, gpu: Gpu, profiles: Path, *, seed: int, launches: int, limit_s: float
) -> tuple[Path, Stamps]:
    """Builds a kernel with and without its marks, launches both, and stores the stamps.

    Args:
        catalog: where the kernel is.
        case: the kernel, its params and the workload.
        gpu: where.
        profiles: the folder that holds profiles.
        seed: of the inputs.
        launches: how often to launch; less where the stamps would not fit in memory.
        limit_s: seconds that the worker may take.

    Returns:
        The file, `profiles/phases/<kernel>/<run>.npz`, and what it holds.

    Raises:
        UsageError: if the kernel is not in CUDA C++, makes several launches, or has no marks.
        BuildError: if it does not build.
        ProfilerError: if the worker failed.
    """
    entry = catalog.entries[case.variant.kernel]
    check_is_cuda(entry, case.label)
    assignment = make_assignment(catalog, case, Instrumentation.PHASES, seed=seed, launches=launches)
    check_marks(entry, _build(entry, case, gpu.arch), case.label)
    path = make_folder(profiles, "phases", case.label) / f"{profile_name(case, gpu.slug)}.npz"
    ended = run_worker(replace(assignment, result=str(path.resolve())), gpu, limit_s=limit_s)
    check_left(ended, path, f"{case.label} was not stamped", f"gdnbench verify {case.label}")
    return path, read_stamps(path)


def check_marks(entry: Entry, built: Build, label: str) -> None:
    """Refuses a stamped build that stamps nothing.

    Raises:
        UsageError: if its source has no marks.
    """
    if _MARK not in Path(built.cubin).read_bytes():
        raise UsageError(
            f"{label} has no marks of phases",
            f"include <gdnbench/phases.cuh> in {entry.source}, whose first lines say how, or do as decode-v4 does",
        )


def _build(entry: Entry, case: Case, arch: str) -> Build:
    """Both builds, so that the worker finds them in the cache; the stamped one is returned."""
    plain, stamped = (Job(entry, case.variant, case.workload, arch, stamped=marks) for marks in (False, True))
    results: Mapping[Job, Build | GdnbenchError] = build_all([plain, stamped])
    for job in (plain, stamped):
        result = results[job]
        if isinstance(result, GdnbenchError):
            raise result
    built = results[stamped]
    assert isinstance(built, Build)
    return built
