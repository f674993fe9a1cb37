"""Builds many variants at once in builder processes, for a parent that must not load a compiler.

A builder is a worker, `python -m gdnbench.codegen.ahead FD`: it reads jobs on stdin until it ends, and sends each one's
progress and, last, its result. A kernel that fails to build is a result like any other.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path

from gdnbench import errors
from gdnbench.catalog.entry import Broken
from gdnbench.catalog.load import load_kernel, load_op
from gdnbench.codegen.build import Job, build
from gdnbench.codegen.cache import evict, has_build, load_build
from gdnbench.codegen.cute import load_dsl
from gdnbench.codegen.cutile import load_cutile
from gdnbench.codegen.triton import load_function
from gdnbench.errors import BuildError, GdnbenchError, MachineError
from gdnbench.model.case import Variant
from gdnbench.model.gpu import UNREAD, Build
from gdnbench.model.kernel import CuteKernel, CutileKernel, Kernel, TritonKernel, launch_of
from gdnbench.process.channel import Channel, ForgedMessageError
from gdnbench.process.worker import Worker, die_with_parent, take_requests, wait_for_any

Result = Build | GdnbenchError


class BuildStage(StrEnum):
    """The stage of a job in a builder; each has a limit of its own."""

    STARTING = "starting"  # it loads the compilers
    IMPORTING = "importing"  # it runs the kernel's source, which may do anything
    COMPILING = "compiling"


@dataclass(frozen=True)
class StageBegan:
    """The message that a builder begins a stage of its job."""

    stage: BuildStage


@dataclass(frozen=True)
class NotBuilt:
    """The message that a job failed; `error` names a class in `gdnbench.errors`."""

    error: str
    message: str
    hint: str


Reply = StageBegan | Build | NotBuilt
REPLIES: tuple[type[Reply], ...] = (StageBegan, Build, NotBuilt)


_START_LIMIT_S = 180.0  # compilers from a cold network disk
_TAIL_LINES = 8  # of what a builder printed before it died
_MOST_PROCESSES = 8  # each takes memory and a second to load its compilers; builds are short


# Yields jobs of one build with its result, as each becomes known.
Settled = Generator[tuple[list[Job], Result], None, None]


def build_all(
    jobs: Sequence[Job],
    *,
    processes: int | None = None,
    timeout_s: float = 300.0,
    import_s: float = 30.0,
    on_result: Callable[[Job, Result], None] = lambda _job, _result: None,
) -> dict[Job, Result]:
    """Builds every job; one that fails, crashes its process or takes too long fails alone.

    Returns the build or the error of each job, in the order given. Jobs that differ only in the batch size are built
    once, and cached builds are not built again.

    Args:
        processes: how many at once; by default one for each processor, at most 8.
        timeout_s: limit for compiling each job, in seconds.
        import_s: limit for running a Python kernel's source, in seconds; exceeding it fails all jobs of the kernel.
        on_result: called in this thread as each job ends.

    Raises:
        MachineError: if the cache cannot be written, or a tool is absent.
    """
    results: dict[Job, Result] = {}
    with closing(_settle(jobs, processes, (timeout_s, import_s))) as settled:
        for alike, result in settled:
            if isinstance(result, MachineError):  # not the kernel's fault; the next job would fail alike
                raise result
            for job in alike:
                results[job] = result
                on_result(job, result)
    return {job: results[job] for job in jobs}


def count_builds(jobs: Sequence[Job]) -> tuple[int, int]:
    """Returns the number of distinct builds, and how many of them the cache lacks."""
    keys = set()
    for job in jobs:
        with suppress(GdnbenchError):  # building it will raise the same
            keys.add(job.key)
    return len(keys), sum(not has_build(key) for key in keys)


def build_processes() -> int:
    """Returns how many builder processes work at once by default."""
    return min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)


def _settle(jobs: Sequence[Job], processes: int | None, limits_s: tuple[float, float]) -> Settled:
    same: dict[str, list[Job]] = defaultdict(list)
    for job in sorted(dict.fromkeys(jobs), key=lambda job: not job.disassembled):  # its build serves the others, too
        try:
            same[job.key].append(job)
        except GdnbenchError as error:
            yield [job], error
    missing = []
    for key, alike in same.items():
        cached = load_build(key)
        if cached is None or (cached.load_bits == UNREAD and alike[0].disassembled):
            missing.append(alike)
        else:
            yield alike, cached
    if missing:
        yield from _build(missing, processes or build_processes(), limits_s)
        evict()


def _build(groups: list[list[Job]], count: int, limits_s: tuple[float, float]) -> Settled:
    pending = deque(groups)
    idle: list[Builder] = []
    busy: dict[Builder, list[Job]] = {}
    try:
        while pending or busy:
            while pending and len(busy) < count:
                builder = idle.pop() if idle else Builder(*limits_s)
                busy[builder] = pending.popleft()
                builder.assign(busy[builder][0])
            for builder, result in _collect(list(busy)):
                alike = busy.pop(builder)
                if builder.alive:
                    idle.append(builder)
                yield alike, result
                if not builder.alive and builder.stage is BuildStage.IMPORTING:  # it would fail at other params, too
                    for others in [each for each in pending if each[0].entry.folder == alike[0].entry.folder]:
                        pending.remove(others)
                        yield others, result
    finally:  # Ctrl-C included: no compiler outlives its parent
        for builder in (*idle, *busy):
            builder.close()


def _collect(busy: list[Builder]) -> list[tuple[Builder, Result]]:
    """Waits until a builder has a message, is dead or out of time; returns the results of those that are done."""
    now = time.monotonic()
    ready = wait_for_any([builder.worker for builder in busy], min(builder.deadline for builder in busy) - now)
    now = time.monotonic()
    collected = [(builder, builder.collect()) for builder in busy if builder.worker in ready or builder.deadline <= now]
    return [(builder, result) for builder, result in collected if result is not None]


class Builder:
    """A worker that builds one job at a time: `assign` one, wait until there is a message, and `collect`.

    `timeout_s` limits compiling a job, and `import_s` running a source in Python, in seconds; `deadline` is when
    the stage is to be over, as `time.monotonic` counts.
    """

    def __init__(self, timeout_s: float, import_s: float) -> None:
        self._limits_s = dict(zip(BuildStage, (_START_LIMIT_S, import_s, timeout_s), strict=True))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it as long as it lives
        compiles = {"TRITON_INTERPRET": "0"}  # in the interpreter nothing does
        self.worker: Worker[Reply] = Worker(
            "gdnbench.codegen.ahead", [], REPLIES, self._log, compiles, takes_requests=True
        )
        self.alive = True

    def assign(self, job: Job) -> None:
        """Sends a job to the process and starts its clock."""
        self._job = job
        self._begin(BuildStage.STARTING)
        self._log_start = self.worker.log_bytes()
        request = {
            "op_folder": str(job.entry.op_folder), "folder": str(job.entry.folder), "label": job.variant.label,
            "params": dict(job.variant.params), "shape": job.workload.sizes, "arch": job.arch, "launch": job.launch,
            "stamped": job.stamped, "disassembled": job.disassembled,
        }  # fmt: skip
        self.worker.request(json.dumps(request))

    def collect(self) -> Result | None:
        """Returns the job's result, or None while it goes on; to call at a message or the deadline."""
        try:
            reply = self.worker.receive(self.deadline)
        except TimeoutError:
            result = self._overrun()
        except ForgedMessageError as error:
            result = BuildError(f"{self._job}: {error}", "what does it write outside its functions?")
        else:
            if isinstance(reply, StageBegan):
                self._begin(reply.stage)
                return None
            if isinstance(reply, Build):
                return reply
            if reply:
                kind = getattr(errors, reply.error, BuildError)
                return (kind if issubclass(kind, GdnbenchError) else BuildError)(reply.message, reply.hint)
            result = self._death()
        self.close()
        return result

    def close(self) -> None:
        """Kills the process and all that it started."""
        self.alive = False
        self.worker.close()
        self._log.close()

    def _begin(self, stage: BuildStage) -> None:
        self.stage, self.deadline = stage, time.monotonic() + self._limits_s[stage]

    def _overrun(self) -> BuildError:
        limit_s = self._limits_s[self.stage]
        if self.stage is BuildStage.IMPORTING:
            hint = "what does it wait for outside its functions?"
            return BuildError(f"{self._job}: importing its source did not end within {limit_s:g} s", hint)
        return BuildError(f"{self._job}: not built within {limit_s:g} s, while {self.stage}")

    def _death(self) -> BuildError:
        self.worker.end()
        how = self.worker.describe_end()
        tail = self.worker.log_tail(_TAIL_LINES, since=self._log_start)
        return BuildError("\n".join([f"{self._job}: the compiling process ended with {how}", *tail]))


def main(descriptor: int) -> None:
    """Builds the jobs that stdin brings, in a builder."""
    die_with_parent()
    channel = Channel[Reply](descriptor)
    for line in take_requests():
        channel.send(_attempt(line, channel))


def _decoded(line: str) -> Job:
    """Decodes a job and loads its kernel again from its folder, where it may have changed meanwhile."""
    request = json.loads(line)
    op = load_op(Path(request["op_folder"]))
    entry = op if isinstance(op, Broken) else load_kernel(Path(request["folder"]), op)
    if isinstance(entry, Broken):
        raise BuildError(f"{entry.folder}: {entry.reason}")
    params = entry.kernel.resolve(request["params"])
    variant = Variant(entry.kernel.name, request["label"], params=params)
    workload = entry.op.workload(request["shape"])
    how = (request["launch"], request["stamped"], request["disassembled"])
    return Job(entry, variant, workload, request["arch"], *how)


# What loads the compiler of a kernel whose source imports it: the source is not to blame for how long that takes.
_COMPILERS: Mapping[type[Kernel], Callable[[], object]] = {
    CuteKernel: load_dsl,
    CutileKernel: load_cutile,
    TritonKernel: partial(import_module, "triton"),
}


def _attempt(line: str, channel: Channel[Reply]) -> Reply:
    try:
        job = _decoded(line)
        kernel = job.entry.kernel
        if load_compiler := _COMPILERS.get(type(kernel)):
            load_compiler()
            channel.send(StageBegan(BuildStage.IMPORTING))
            load_function(job.entry, launch_of(kernel, job.launch).entry)
        channel.send(StageBegan(BuildStage.COMPILING))
        return build(job)
    except GdnbenchError as error:
        return NotBuilt(type(error).__name__, error.message, error.hint)
    except Exception as error:
        return NotBuilt("BuildError", f"{json.loads(line)['label']}: {type(error).__name__}: {error}", "")


if __name__ == "__main__":
    main(int(sys.argv[1]))
