"""Builds subjects for architectures, and reads what the compiler made of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.job import Job, Result
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.inspection.compiled import BuildOutcome, FailedBuild, read_build
from gdnbench.inspection.subject import GpuSize, Subject
from gdnbench.measuring.observer import Observer

_READERS = 4  # each waits for cuobjdump three times, 10 ms or more


def build_subjects(
    subjects: Sequence[Subject],
    archs: Sequence[str],
    gpu_size_of: Callable[[str], GpuSize | None],
    observer: Observer,
) -> tuple[BuildOutcome, ...]:
    """Builds every subject for every architecture, in that order.

    Raises:
        GdnbenchError: for what is no kernel's fault: a target that the compiler does not know, a tool that is absent.
    """
    wanted = [(subject, arch) for subject in subjects for arch in archs]
    jobs = [Job(one.entry, one.variant, one.shape, arch, one.launch) for one, arch in wanted]
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
