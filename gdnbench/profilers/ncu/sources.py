"""What a user named to be looked at: kernels to profile now, and reports that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.bench.observer import Observer
from gdnbench.catalog import Catalog, select_variants
from gdnbench.errors import UsageError
from gdnbench.model import Case
from gdnbench.profilers.assignment import Errand
from gdnbench.profilers.choice import choose_case, choose_gpu, prepare
from gdnbench.profilers.ncu.collect import Collector, Report, load_report
from gdnbench.profilers.ncu.tool import need_ncu

_ELSEWHERE = "read a report made elsewhere: gdnbench ncu --import FILE.ncu-rep"
_SUFFIXES = (".ncu-rep", ".csv", ".csv.gz")

Source = Case | Path


@dataclass(frozen=True)
class Wanted:
    """How to profile what is a kernel, and where to look it up.

    Attributes:
        catalog: the kernels.
        op: the op whose kernels are meant.
        axes: the shape, as `--shape` takes it.
        heads: the head layout, as `--heads` takes it.
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
    heads: str
    gpu: str
    ncu: Path | None
    profiles: Path
    repeat: int
    seed: int
    limit_s: float


def find_sources(wanted: Wanted, names: Sequence[str], *, stored: bool) -> tuple[Source, ...]:
    """Looks up names: files by their ending, or all of them where `stored` says so; kernels else.

    Raises:
        UnknownNameError: for a kernel, op or layout that does not exist.
        UsageError: for several shapes.
        GpuNotFoundError: if the GPU asked for is not here.
        MachineError: for a kernel whose module this Python lacks.
    """
    sources: dict[Source, None] = {}
    for name in names:
        if stored or name.endswith(_SUFFIXES):
            sources[Path(name)] = None
        else:
            sources.update(dict.fromkeys(_cases(wanted, name)))
    return tuple(sources)


def find_pair(wanted: Wanted, names: Sequence[str], other: str, *, stored: bool) -> tuple[Source, Source]:
    """The two to compare.

    Raises:
        UsageError: if either is not exactly one; and as `find_sources`.
    """
    sides = find_sources(wanted, names, stored=stored), find_sources(wanted, [other], stored=False)
    for side in sides:
        if len(side) != 1:
            told = " ".join(names) if side is sides[0] else other
            raise UsageError(f"{told}: {len(side)} were named, and --diff compares one with one", "name each in full")
    return sides[0][0], sides[1][0]


def open_sources(wanted: Wanted, sources: Sequence[Source], observer: Observer) -> tuple[Report, ...]:
    """Reads the files, then profiles the kernels.

    Returns:
        A report for each source, in their order; a kernel that is named twice is profiled twice.

    Raises:
        MachineError: if there is no GPU or no ncu, and a kernel is to be profiled.
        ProfilerError: if a file is no report, or profiling fails.
    """
    found = {source: load_report(source, wanted.ncu) for source in sources if isinstance(source, Path)}
    cases = [source for source in sources if isinstance(source, Case)]
    collected = iter(_profile(wanted, cases, observer) if cases else ())
    return tuple(found[source] if isinstance(source, Path) else next(collected) for source in sources)


def _cases(wanted: Wanted, name: str) -> tuple[Case, ...]:
    labels = [variant.label for variant in select_variants(wanted.catalog, wanted.op, name)]
    return tuple(
        choose_case(wanted.catalog, wanted.op, one, axes=wanted.axes, heads=wanted.heads, gpu=wanted.gpu)
        for one in labels
    )


def _profile(wanted: Wanted, cases: Sequence[Case], observer: Observer) -> tuple[Report, ...]:
    gpu = choose_gpu(wanted.gpu, "profiling", _ELSEWHERE)
    collector = Collector(gpu, need_ncu(wanted.ncu), wanted.profiles, wanted.limit_s, observer)
    errands = [prepare(wanted.catalog, case, Errand.LAUNCH, seed=wanted.seed, launches=wanted.repeat) for case in cases]
    return collector.collect(errands)
