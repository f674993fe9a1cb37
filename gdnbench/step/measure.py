"""Measures a step, or launches alone: workers one after the other, each with its share of the rounds."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from gdnbench.catalog.catalog import Catalog
from gdnbench.codec import convert
from gdnbench.errors import GdnbenchError, MachineError, UsageError
from gdnbench.machine.provenance import describe_machine, git_state
from gdnbench.measure.builds import build_cases
from gdnbench.measure.observer import Observer, alone_on
from gdnbench.measure.protocol import BURN_IN, Event, Examined, Sampled
from gdnbench.measure.rounds import Collected
from gdnbench.measure.schedule import round_share
from gdnbench.measure.supervision import WorkerOutcome, supervise, worker_environment
from gdnbench.model.gpu import Gpu
from gdnbench.model.op import Op
from gdnbench.model.status import Status
from gdnbench.step.analyse import analyse_launches, analyse_steps
from gdnbench.step.plan import StepCase, StepSettings, StepTask, launch_cases
from gdnbench.store.files import RunFolder, run_id_of
from gdnbench.store.info import RunInfo, case_documents, write_info
from gdnbench.store.measurements import write_measurements
from gdnbench.store.samples import write_rounds
from gdnbench.store.schema import GitDocument, MachineDocument
from gdnbench.store.step import LAUNCHES_OP, LaunchWayRow, StepRow, write_launch_ways, write_steps

LABEL = "step"
_WORKER = "gdnbench.step.worker"
_BUILD_LIMIT_S = 30.0


class RunWorker(Protocol):
    """Runs one worker to its end."""

    def __call__(self, task: StepTask, folder: Path, name: str, on_event: Callable[[Event], None]) -> WorkerOutcome:
        """Runs a worker as `supervise` does."""


@dataclass(frozen=True)
class StepPlan:
    """What is measured; `op` is None, and `cases` is empty, for launches alone."""

    catalog: Catalog
    op: Op | None
    gpu: Gpu
    cases: tuple[StepCase, ...]
    settings: StepSettings
    command: str = ""
    label: str = ""


@dataclass(frozen=True)
class StepFinished:
    """A run that has ended; `statuses` leaves out cases that are impossible by their nature."""

    path: Path
    statuses: tuple[Status, ...]
    interrupted: bool


def on_gpu(gpu: Gpu) -> RunWorker:
    """Returns a function that runs workers on a GPU."""

    def run(task: StepTask, folder: Path, name: str, on_event: Callable[[Event], None]) -> WorkerOutcome:
        return supervise(task, folder, name, worker_environment(gpu), on_event, module=_WORKER)

    return run


def measure_plan(
    plan: StepPlan, results: Path, observer: Observer, run_worker: RunWorker | None = None
) -> StepFinished:
    """Measures and writes a run; Ctrl-C ends it early and keeps what is measured.

    Workers run on the plan's GPU unless `run_worker` is given. Raises GdnbenchError if no case can be measured, workers
    cannot work here, or nothing can be written.
    """
    _refuse_nothing(plan)
    now = datetime.now(UTC)
    name = plan.op.name if plan.op else LAUNCHES_OP
    folder = RunFolder.create(results, run_id_of(now, plan.gpu.slug, name, "-".join(filter(None, (LABEL, plan.label)))))
    collected, verdicts, interrupted = Collected(), dict[str, Examined](), False
    try:
        with alone_on(plan.gpu, observer):
            _build(plan, verdicts, observer)
            measure_rounds(plan, folder.path, collected, verdicts, observer, run_worker or on_gpu(plan.gpu))
    except KeyboardInterrupt:
        interrupted = True
    except GdnbenchError:
        shutil.rmtree(folder.path)
        raise
    info = _describe(plan, folder.run_id, now, name, complete=not interrupted)
    statuses = _write(plan, folder.path, info, collected, verdicts)
    return StepFinished(folder.finish(), statuses, interrupted)


def _refuse_nothing(plan: StepPlan) -> None:
    """Raises UsageError for a run that would hold no time."""
    reasons = dict.fromkeys(each.refusal for each in plan.cases)
    if plan.op and all(reasons):
        reason = "; ".join(reasons) or "there is no kernel, path or condition"
        raise UsageError(f"nothing of this can be measured: {reason}", "choose others by --path and --l2")


def _build(plan: StepPlan, verdicts: dict[str, Examined], observer: Observer) -> None:
    wanted = list(dict.fromkeys(each.case for each in plan.cases))
    builds = build_cases(plan.catalog, wanted, [plan.gpu.arch], _BUILD_LIMIT_S, observer) if wanted else None
    for each in plan.cases if builds else ():
        verdict = builds.verdict(each.case, [plan.gpu.arch]) if builds else None
        if verdict is not None:
            verdicts[each.id] = replace(verdict, case=each.id)


def measure_rounds(
    plan: StepPlan,
    folder: Path,
    collected: Collected,
    verdicts: dict[str, Examined],
    observer: Observer,
    run_worker: RunWorker,
) -> None:
    """Measures every process's share of the rounds; a process restarts without a case that fails."""
    settings = plan.settings
    ids = [each.id for each in plan.cases if not each.refusal] or [each.id for each in launch_cases() if not plan.cases]
    done, attempt = 0, 0
    observer.begin("measure", settings.rounds * len(ids))
    for process in range(1, settings.processes + 1):
        target = round_share(settings.rounds, settings.processes, process)
        while True:
            left = [id_ for id_ in ids if id_ not in verdicts]
            if not left:
                return
            attempt += 1
            generator = random.Random(settings.seed + attempt)
            order = tuple(tuple(generator.sample(left, len(left))) for _ in range(1 + target - done))
            task = StepTask(
                roots=tuple(str(root) for root in plan.catalog.roots),
                op=plan.op.name if plan.op else "",
                cases=tuple(each for each in plan.cases if each.id in left),
                settings=settings,
                order=order,
                first_round=done + 1,
            )
            taken: list[Sampled] = []
            before = len(verdicts)
            outcome = run_worker(task, folder, f"step-{attempt}", _taking(taken, verdicts, observer))
            if outcome.loss is not None:
                verdicts.setdefault(outcome.case, outcome.loss)
            measured = {each.round for each in taken}
            if outcome.loss is None and measured >= set(range(done + 1, target + 1)):
                for each in taken:
                    collected.take(replace(each, process=process))
                break
            if len(verdicts) == before:
                raise MachineError("a worker ended before its rounds were whole", "see `gdnbench doctor`")
        done = target
    for id_ in list(collected.samples):
        if id_.rpartition("|")[0] in verdicts:
            del collected.samples[id_]


def _taking(taken: list[Sampled], verdicts: dict[str, Examined], observer: Observer) -> Callable[[Event], None]:
    def take(event: Event) -> None:
        match event:
            case Sampled():
                if event.round != BURN_IN:
                    taken.append(event)
                    if event.case.endswith(("|step", "|host")):
                        observer.advance()
            case Examined(status=status) if status is not Status.OK:
                verdicts[event.case] = event
            case _:
                pass

    return take


def _describe(plan: StepPlan, run_id: str, now: datetime, name: str, *, complete: bool) -> RunInfo:
    catalog, settings = plan.catalog, asdict(plan.settings)
    cases = list(dict.fromkeys(each.case for each in plan.cases))
    entries = {each.variant.kernel: catalog.entries[each.variant.kernel] for each in cases}
    of_op: dict[str, Any] = (
        {
            "workloads": plan.op.workloads,
            "op_hash": catalog.op_hash(plan.op.name),
            "git": convert(git_state(catalog.op_folders[plan.op.name]), GitDocument),
        }
        if plan.op
        else {}
    )
    return RunInfo(
        run_id=run_id,
        timestamp=now.isoformat(timespec="seconds"),
        complete=complete,
        command=plan.command,
        op=name,
        gpu=plan.gpu.slug,
        label="-".join(filter(None, (LABEL, plan.label))),
        settings=settings,
        cases=case_documents(cases),
        machine=convert(describe_machine(plan.gpu), MachineDocument),
        sources={kernel: entry.known_source() for kernel, entry in entries.items()},
        **of_op,
    )


def _write(
    plan: StepPlan, folder: Path, info: RunInfo, collected: Collected, verdicts: Mapping[str, Examined]
) -> tuple[Status, ...]:
    rows: Sequence[StepRow | LaunchWayRow]
    if plan.op:
        rows = steps = analyse_steps(
            plan.cases, collected, plan.settings, verdicts, run_id=info.run_id, gpu=info.gpu, op=info.op
        )
        write_steps(folder, steps)
    else:
        rows = ways = analyse_launches(
            launch_cases(), collected, plan.settings, verdicts, run_id=info.run_id, gpu=info.gpu
        )
        write_launch_ways(folder, ways)
    write_measurements(folder, info, [])  # other verbs look in both for NVBench's times: none here
    write_rounds(folder, [])
    write_info(folder, info)
    if not any(row.status.is_failure for row in rows):
        for path in (*folder.glob("step-*.json"), *folder.glob("step-*.log")):
            path.unlink()
    return tuple(row.status for row in rows)
