"""Builds many variants at once, in subprocesses, for a parent that must not load a compiler."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from multiprocessing.connection import wait

from gdnbench.binary.cache import load_build
from gdnbench.binary.job import Job, Result
from gdnbench.binary.process import BuilderProcess
from gdnbench.errors import GdnbenchError

_MOST_PROCESSES = 8  # each takes a second to load its compilers, and memory; builds are short


# Jobs that are one build, with its result, as each becomes known.
Settled = Generator[tuple[list[Job], Result], None, None]


def _ignore(_job: Job, _result: Result) -> None:
    pass


def build_all(
    jobs: Sequence[Job],
    *,
    processes: int | None = None,
    timeout_s: float = 300.0,
    on_result: Callable[[Job, Result], None] = _ignore,
) -> dict[Job, Result]:
    """Builds every job; one that fails, crashes its process or takes too long fails alone.

    Jobs that differ only in the batch size are built once, and what the cache has is not built at all.

    Args:
        jobs: what to build.
        processes: how many at once; by default as many as there are processors and jobs, but no more than 8.
        timeout_s: limit for each job, in seconds.
        on_result: called in this thread as each job ends.

    Returns:
        The build, or the error that it ended with, of each job, in the order given.
    """
    results: dict[Job, Result] = {}
    with closing(_settle(jobs, processes, timeout_s)) as settled:
        for alike, result in settled:
            for job in alike:
                results[job] = result
                on_result(job, result)
    return {job: results[job] for job in jobs}


def _settle(jobs: Sequence[Job], processes: int | None, timeout_s: float) -> Settled:
    same: dict[str, list[Job]] = defaultdict(list)
    for job in dict.fromkeys(jobs):
        try:
            same[job.key].append(job)
        except GdnbenchError as error:
            yield [job], error
    missing = []
    for key, alike in same.items():
        cached = load_build(key)
        if cached is None:
            missing.append(alike)
        else:
            yield alike, cached
    count = processes or min(_processors(), _MOST_PROCESSES)
    yield from _build(missing, count, timeout_s)


def _build(groups: list[list[Job]], count: int, timeout_s: float) -> Settled:
    pending = deque(groups)
    idle: list[BuilderProcess] = []
    busy: dict[BuilderProcess, list[Job]] = {}
    try:
        while pending or busy:
            while pending and len(busy) < count:
                builder = idle.pop() if idle else BuilderProcess(timeout_s)
                busy[builder] = pending.popleft()
                builder.assign(busy[builder][0])
            for builder, result in _collect(list(busy)):
                alike = busy.pop(builder)
                if builder.alive:
                    idle.append(builder)
                yield alike, result
    finally:  # Ctrl-C included: no compiler outlives its parent
        for builder in (*idle, *busy):
            builder.close()


def _collect(busy: list[BuilderProcess]) -> list[tuple[BuilderProcess, Result]]:
    """Waits until a builder is done, dead or out of time, and takes the results of all that are."""
    soonest_s = max(0.0, min(builder.left_s for builder in busy))
    readable = wait([builder.replies for builder in busy], soonest_s)
    return [
        (builder, builder.collect(builder.replies in readable))
        for builder in busy
        if builder.replies in readable or builder.left_s <= 0
    ]


def _processors() -> int:
    return len(os.sched_getaffinity(0))
