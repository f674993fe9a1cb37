"""Builds what is to be inspected, and reads the builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gdnbench.bench.observer import Observer
from gdnbench.binary import Job, Result, build_all
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.inspection.anatomy import Anatomy, dissect
from gdnbench.inspection.archs import Device
from gdnbench.inspection.subject import Subject

_READERS = 4  # each waits for cuobjdump three times, 10 ms or more


@dataclass(frozen=True)
class Failure:
    """A kernel that did not build.

    Attributes:
        subject: what.
        arch: for which architecture.
        error: the compiler's message.
    """

    subject: Subject
    arch: str
    error: GdnbenchError


Finding = Anatomy | Failure


def examine(
    subjects: Sequence[Subject],
    archs: Sequence[str],
    device_of: Callable[[str], Device | None],
    observer: Observer,
) -> tuple[Finding, ...]:
    """What became of every subject for every architecture, in that order.

    Raises:
        GdnbenchError: for what is no kernel's fault: a target that the compiler does not know, a tool that is absent.
    """
    wanted = [(subject, arch) for subject in subjects for arch in archs]
    jobs = [subject.job(arch) for subject, arch in wanted]
    observer.begin("build", len(jobs))
    results = build_all(jobs, on_result=lambda _job, _result: observer.advance())

    def read(asked: tuple[tuple[Subject, str], Job]) -> Finding:
        (subject, arch), job = asked
        return _read(subject, arch, results[job], device_of(arch))

    with ThreadPoolExecutor(_READERS) as pool:
        return tuple(pool.map(read, zip(wanted, jobs, strict=True)))


def _read(subject: Subject, arch: str, result: Result, device: Device | None) -> Finding:
    try:
        if isinstance(result, GdnbenchError):
            raise result
        return dissect(subject, result, device)
    except BuildError as error:
        return Failure(subject, arch, error)
