"""Builds many variants at once, in subprocesses, for a parent that must not load a compiler."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from multiprocessing.connection import wait

from gdnbench.binary.cache import has_build, load_build
from gdnbench.binary.eviction import cache_limit, evict
from gdnbench.binary.job import Job, Result
from gdnbench.binary.process import BuilderProcess
from gdnbench.binary.wire import Stage
from gdnbench.errors import GdnbenchError, MachineError

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
    import_s: float = 30.0,
    on_result: Callable[[Job, Result], None] = _ignore,
) -> dict[Job, Result]:
    """Builds every job; one that fails, crashes its process or takes too long fails alone.

    Jobs that differ only in the batch size are built once, and what the cache has is not built at all.

    Args:
        jobs: what to build.
        processes: how many at once; by default as many as there are processors and jobs, but no more than 8.
        timeout_s: limit for compiling each job, in seconds.
        import_s: limit for running a Triton kernel's source, in seconds; one that outlasts it costs that once, and all
            jobs of the kernel.
        on_result: called in this thread as each job ends.

    Returns:
        The build, or the error that it ended with, of each job, in the order given.

    Raises:
        MachineError: if it is the machine that fails: the cache cannot be written, or a tool is absent.
        UsageError: if the cache's limit is no size.
    """
    results: dict[Job, Result] = {}
    cache_limit()  # refuses a variable that is wrong before there is work to lose
    with closing(_settle(jobs, processes, (timeout_s, import_s))) as settled:
        for alike, result in settled:
            if isinstance(result, MachineError):  # no kernel's fault, and the same for the next
                raise result
            for job in alike:
                results[job] = result
                on_result(job, result)
    return {job: results[job] for job in jobs}


def count_builds(jobs: Sequence[Job]) -> tuple[int, int]:
    """How many builds the jobs are, those that are alike counted once, and how many of them the cache lacks."""
    keys = set()
    for job in jobs:
        with suppress(GdnbenchError):  # it will be told when it is built
            keys.add(job.key)
    return len(keys), sum(not has_build(key) for key in keys)


def build_processes() -> int:
    """How many builder processes work at once, unless the caller chooses."""
    return min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)


def _settle(jobs: Sequence[Job], processes: int | None, limits_s: tuple[float, float]) -> Settled:
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
    if missing:
        yield from _build(missing, processes or build_processes(), limits_s)
        evict()


def _build(groups: list[list[Job]], count: int, limits_s: tuple[float, float]) -> Settled:
    pending = deque(groups)
    idle: list[BuilderProcess] = []
    busy: dict[BuilderProcess, list[Job]] = {}
    try:
        while pending or busy:
            while pending and len(busy) < count:
                builder = idle.pop() if idle else BuilderProcess(*limits_s)
                busy[builder] = pending.popleft()
                builder.assign(busy[builder][0])
            for builder, result in _collect(list(busy)):
                alike = busy.pop(builder)
                if builder.alive:
                    idle.append(builder)
                yield alike, result
                if not builder.alive and builder.stage is Stage.IMPORTING:  # as it would at any other params
                    for others in [each for each in pending if each[0].entry.folder == alike[0].entry.folder]:
                        pending.remove(others)
                        yield others, result
    finally:  # Ctrl-C included: no compiler outlives its parent
        for builder in (*idle, *busy):
            builder.close()


def _collect(busy: list[BuilderProcess]) -> list[tuple[BuilderProcess, Result]]:
    """Waits until a builder has something to tell, is dead or out of time, and takes the results of those at an end."""
    soonest_s = max(0.0, min(builder.left_s for builder in busy))
    readable = wait([builder.replies for builder in busy], soonest_s)
    told = [
        (builder, builder.collect(builder.replies in readable))
        for builder in busy
        if builder.replies in readable or builder.left_s <= 0
    ]
    return [(builder, result) for builder, result in told if result is not None]
