"""Collects stamps: builds a kernel with and without its marks, and runs a worker that launches both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.ahead import Job, build_all
from gdnbench.codegen.cubin import disassemble
from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.model.case import Case
from gdnbench.model.gpu import Build, Gpu
from gdnbench.model.kernel import CudaKernel
from gdnbench.profile.files import make_folder, profile_name
from gdnbench.profile.phases.stamps import Stamps, read_stamps
from gdnbench.profile.process import Instrumentation, check_left, make_assignment, run_worker

_NAMES = b"gdnbench_phase_names"  # defined by GDNBENCH_PHASE_NAMES, in the code of each launch
_CLOCK = "SR_CLOCKLO"  # read by each mark


def collect_stamps(
    catalog: Catalog,
    case: Case,
    gpu: Gpu,
    profiles: Path,
    *,
    launch: str = "",
    seed: int,
    launches: int,
    limit_s: float,
) -> dict[Path, Stamps]:
    """Builds a kernel with and without its marks, launches both, and stores the stamps of each launch in a file.

    The files are `profiles/phases/<kernel>/<run>.npz`; of several launches each is stamped in calls of its own, whose
    other launches are plain, and the file's name ends with its entry. Raises UsageError if the kernel lacks the
    launch, or has no marks in it; BuildError if it does not build; ProfilerError if a worker failed.

    Args:
        launch: the entry of the launch to stamp; if empty, each launch that has marks.
        launches: number of calls; fewer if the stamps would not fit in memory.
        limit_s: time limit of a worker.
    """
    entry = catalog.entries[case.variant.kernel]
    marked = marked_launches(entry, case, gpu.arch, launch)
    several = isinstance(entry.kernel, CudaKernel) and len(entry.kernel.launches) > 1
    found = {}
    for name in marked:
        told = name if several else ""
        task = make_assignment(catalog, case, Instrumentation.PHASES, seed=seed, launches=launches)
        path = make_folder(profiles, "phases", case.label) / f"{profile_name(case, gpu.slug, entry=told)}.npz"
        ended = run_worker(replace(task, result=str(path.resolve()), entry=told), gpu, limit_s=limit_s)
        check_left(ended, path, f"{case.label} was not stamped", f"gdnbench verify {case.label}")
        found[path] = read_stamps(path)
    return found


def marked_launches(entry: CatalogEntry, case: Case, arch: str, launch: str = "") -> tuple[str, ...]:
    """Builds a CUDA kernel with and without its marks; returns the entries of the launches to stamp, in call order.

    These are all launches with marks, or `launch` alone if given. Raises UsageError if the kernel lacks the launch, or
    nothing would be stamped; BuildError if a launch does not build.
    """
    kernel, label = entry.kernel, case.label
    assert isinstance(kernel, CudaKernel)
    entries = [each.entry for each in kernel.launches]
    if launch and launch not in entries:
        raise UsageError(f"{label} has no launch {launch}", f"its launches: {', '.join(entries)}")
    built = _build(entry, case, arch, entries)
    if not any(_NAMES in Path(stamped.cubin).read_bytes() for _, stamped in built.values()):
        raise _no_marks(entry, label)
    marked = [name for name, (plain, stamped) in built.items() if _clock_reads(stamped) > _clock_reads(plain)]
    if not marked:
        raise _no_marks(entry, label)
    if launch and launch not in marked:
        raise UsageError(
            f"{launch} of {label} has no marks of phases", f"{', '.join(marked)} has: --launch {marked[0]}"
        )
    return (launch,) if launch else tuple(marked)


def _no_marks(entry: CatalogEntry, label: str) -> UsageError:
    return UsageError(
        f"{label} has no marks of phases",
        f"include <gdnbench/phases.cuh> in {entry.source}, whose first lines say how, or do as decode-v4 does",
    )


def _clock_reads(built: Build) -> int:
    return disassemble(Path(built.cubin), built.symbol).count(_CLOCK)


def _build(entry: CatalogEntry, case: Case, arch: str, launches: Sequence[str]) -> dict[str, tuple[Build, Build]]:
    """Builds each launch plain and stamped, so that the worker finds both in the cache."""
    jobs = {
        (name, marks): Job(entry, case.variant, case.workload, arch, name, stamped=marks)
        for name in launches
        for marks in (False, True)
    }
    results = build_all(list(jobs.values()))

    def built(name: str, marks: bool) -> Build:
        result = results[jobs[name, marks]]
        if isinstance(result, GdnbenchError):
            raise result
        return result

    return {name: (built(name, False), built(name, True)) for name in launches}
