"""The parent's side of the preflight: builds ahead in parallel, then worker after worker until every case is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from gdnbench.bench.events import Event, Examined, Started, Step
from gdnbench.bench.observer import Observer
from gdnbench.bench.supervise import supervise
from gdnbench.bench.task import Task
from gdnbench.binary import Job, build_all
from gdnbench.catalog import Catalog
from gdnbench.errors import GdnbenchError, MachineError
from gdnbench.model import Build, Case, Role, Status, TorchKernel, Variant

Judged = dict[str, Examined]
"""The preflight's verdict by case id."""


@dataclass
class Builds:
    """What the compilers made of the cases' variants.

    Attributes:
        made: by variant, head layout and architecture.
        failed: likewise, the compiler's message.
    """

    made: dict[tuple[Variant, str, str], Build] = field(default_factory=dict)
    failed: dict[tuple[Variant, str, str], GdnbenchError] = field(default_factory=dict)

    def of(self, case: Case, arch: str) -> Build | None:
        """The build of a case for an architecture."""
        return self.made.get((case.variant, case.shape.heads, arch))

    def failure(self, case: Case, arch: str) -> GdnbenchError | None:
        """Why there is none."""
        return self.failed.get((case.variant, case.shape.heads, arch))

    def verdicts(self, cases: Sequence[Case], arch: str) -> Judged:
        """The verdict on every case that did not build."""
        failures = {case.id: self.failure(case, arch) for case in cases}
        return {
            case_id: Examined(case_id, Status.BUILD_FAILED, failure.message)
            for case_id, failure in failures.items()
            if failure
        }


def build_cases(catalog: Catalog, cases: Sequence[Case], archs: Sequence[str], observer: Observer) -> Builds:
    """Compiles every CUDA and Triton case for every architecture, in parallel processes."""
    jobs = {}
    for case in cases:
        entry = catalog.entries[case.variant.kernel]
        if not isinstance(entry.kernel, TorchKernel) and entry.missing() is None:
            for arch in archs:
                jobs[case.variant, case.shape.heads, arch] = Job(entry, case.variant, case.shape, arch)
    observer.begin("build", len(jobs))
    results = build_all(list(jobs.values()), on_result=lambda _job, _result: observer.advance())
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
    """

    folder: Path
    environment: Mapping[str, str]
    observer: Observer
    record: Callable[[Event], None]
    started: Started | None = None

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

        outcome = supervise(task, self.folder, name, self.environment, take)
        if outcome.loss:
            self.record(outcome.loss)
            self._conclude(by_id[outcome.case], outcome.loss, judged)

    def _conclude(self, case: Case, verdict: Examined, judged: Judged) -> None:
        judged[case.id] = verdict
        self.observer.examined(case, verdict)
        self.observer.advance()


def share_with_controls(cases: Sequence[Case], judged: Judged) -> None:
    """Gives each control its baseline's verdict: it is the same kernel."""
    baselines = {case.shape: judged[case.id] for case in cases if case.role is Role.BASELINE and case.id in judged}
    for case in cases:
        if case.role is Role.CONTROL and case.shape in baselines:
            judged[case.id] = replace(baselines[case.shape], case=case.id)
