"""The parent's side of the preflight: builds ahead in parallel, then worker after worker until every case is judged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from gdnbench.bench.events import IMPORT_STEP, Event, Examined, Started, Step
from gdnbench.bench.observer import Observer
from gdnbench.bench.supervise import Outcome, supervise
from gdnbench.bench.task import BUILD_STEPS, IMPORT_STEPS, Task
from gdnbench.binary import Job, build_all
from gdnbench.catalog import Catalog
from gdnbench.errors import GdnbenchError, MachineError
from gdnbench.model import Build, Case, Role, Shape, Status, TorchKernel, Variant

Judged = dict[str, Examined]
"""The preflight's verdict by case id."""


BuildId = tuple[Variant, Shape, str]
"""Variant, shape and architecture. Most batch sizes share a build, but `warps` and `stages` may depend on the batch."""


@dataclass
class Builds:
    """What the compilers made of the cases' variants.

    Attributes:
        made: what compiled.
        failed: likewise, the compiler's message.
    """

    made: dict[BuildId, Build] = field(default_factory=dict)
    failed: dict[BuildId, GdnbenchError] = field(default_factory=dict)

    def of(self, case: Case, arch: str) -> Build | None:
        """The build of a case for an architecture."""
        return self.made.get((case.variant, case.shape, arch))

    def failure(self, case: Case, arch: str) -> GdnbenchError | None:
        """Why there is none."""
        return self.failed.get((case.variant, case.shape, arch))

    def verdicts(self, cases: Sequence[Case], archs: Sequence[str]) -> Judged:
        """The verdict on every case that did not build for all of these architectures."""
        return {
            case.id: Examined(case.id, Status.BUILD_FAILED, failures[0].message)
            for case in cases
            if (failures := [failure for arch in archs if (failure := self.failure(case, arch))])
        }


def build_jobs(catalog: Catalog, cases: Sequence[Case], archs: Sequence[str]) -> dict[BuildId, Job]:
    """What there is to compile: each CUDA and Triton variant at each shape; those that are alike are built once."""
    jobs = {}
    for case in cases:
        entry = catalog.entries[case.variant.kernel]
        if not isinstance(entry.kernel, TorchKernel) and entry.missing() is None:
            for arch in archs:
                jobs[case.variant, case.shape, arch] = Job(entry, case.variant, case.shape, arch)
    return jobs


def build_cases(
    catalog: Catalog, cases: Sequence[Case], archs: Sequence[str], step_limit_s: float, observer: Observer
) -> Builds:
    """Compiles every CUDA and Triton case for every architecture, in parallel processes.

    Args:
        catalog: the kernels.
        cases: what to compile.
        archs: for which architectures.
        step_limit_s: seconds that an ordinary step may take; importing a source may take three times that, and
            compiling it ten times.
        observer: told of every build.

    Raises:
        MachineError: if the cache cannot be written, or a compiler is absent.
    """
    jobs = build_jobs(catalog, cases, archs)
    observer.begin("build", len(jobs))
    results = build_all(
        list(jobs.values()),
        timeout_s=BUILD_STEPS * step_limit_s,
        import_s=IMPORT_STEPS * step_limit_s,
        on_result=lambda _job, _result: observer.advance(),
    )
    builds = Builds()
    for key, job in jobs.items():
        result = results[job]
        if isinstance(result, Build):
            builds.made[key] = result
        else:
            builds.failed[key] = result
    return builds


@dataclass
class Preflight:
    """Judges cases in worker processes; a worker's death costs the case it was on, and nothing else.

    Attributes:
        folder: where task files and logs go.
        environment: variables for the workers.
        observer: told of every step.
        record: called with every event.
        started: what the worker said of its device; None until one has started.
        stop: set by another thread when no verdict is wanted any more.
    """

    folder: Path
    environment: Mapping[str, str]
    observer: Observer
    record: Callable[[Event], None]
    started: Started | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def judge(self, task: Task, judged: Judged) -> None:
        """Adds every case's verdict to `judged`, each as soon as it is known.

        Raises:
            MachineError: if a worker ends well and has judged nothing.
        """
        attempts = count()
        while pending := tuple(case for case in task.cases if case.id not in judged):
            self._run_worker(replace(task, cases=pending), f"{task.phase}-{next(attempts)}", judged)
            if not any(case.id in judged for case in pending):
                raise MachineError("a worker ended without a verdict", f"its log is in {self.folder}")

    def _run_worker(self, task: Task, name: str, judged: Judged) -> None:
        by_id = {case.id: case for case in task.cases}

        def take(event: Event) -> None:
            self.record(event)
            match event:
                case Started():
                    self.started = event
                case Step(case=case_id, step=step) if case_id:
                    self.observer.step(f"{by_id[case_id].label} {by_id[case_id].shape}: {step}")
                case Examined():
                    self._conclude(by_id[event.case], event, judged)
                case _:
                    pass

        outcome = supervise(task, self.folder, name, self.environment, take, self.stop)
        if outcome.loss:
            for case in _lost_with(by_id[outcome.case], outcome, task.cases, judged):
                loss = replace(outcome.loss, case=case.id)
                self.record(loss)
                self._conclude(case, loss, judged)

    def _conclude(self, case: Case, verdict: Examined, judged: Judged) -> None:
        judged[case.id] = verdict
        self.observer.examined(case, verdict)
        self.observer.advance()


def _lost_with(lost: Case, outcome: Outcome, cases: Sequence[Case], judged: Judged) -> list[Case]:
    """The case that a worker was lost on; and where it was the kernel's file that it ran, the kernel's other cases."""
    if outcome.step != IMPORT_STEP:
        return [lost]
    return [case for case in cases if case.variant.kernel == lost.variant.kernel and case.id not in judged]


def share_with_controls(cases: Sequence[Case], judged: Judged) -> None:
    """Gives each control its baseline's verdict: it is the same kernel."""
    baselines = {case.shape: judged[case.id] for case in cases if case.role is Role.BASELINE and case.id in judged}
    for case in cases:
        if case.role is Role.CONTROL and case.shape in baselines:
            judged[case.id] = replace(baselines[case.shape], case=case.id)
