"""Measures a step, or launches alone, worker after worker, and compares every path with its kernel's first one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gdnbench.analyse.rounds import Collected, RoundTimes, WorkloadTimes
from gdnbench.codec import convert
from gdnbench.codegen.builds import build_cases
from gdnbench.errors import GdnbenchError, MachineError, UsageError
from gdnbench.machine.gpus import alone_on
from gdnbench.machine.provenance import describe_machine, git_state
from gdnbench.measure.schedule import round_share
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.process.events import Observer, PhaseBegun, UnitDone
from gdnbench.stats import FloatArray
from gdnbench.stats.interval import Interval, t_interval
from gdnbench.stats.multiple import judge_family
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.step.plan import LaunchCase, Quantity, StepCase, StepPlan, StepSettings, StepTask, launch_cases
from gdnbench.store.files import RunFolder, run_id_of, write_dataclasses
from gdnbench.store.info import RunInfo, case_documents, write_info
from gdnbench.store.journal import BURN_IN, Event, Examined, Sampled
from gdnbench.store.measurements import write_measurements
from gdnbench.store.samples import write_rounds
from gdnbench.store.schema import GitDocument, MachineDocument
from gdnbench.store.tables import LAUNCH_WAYS, LAUNCHES_OP, STEP_NAME, LaunchWayRow, StepRow
from gdnbench.workers.supervision import WorkerOutcome, supervise, worker_environment

LABEL = "step"
_WORKER = "gdnbench.step.worker"
_BUILD_LIMIT_S = 30.0


RunWorker = Callable[[StepTask, Path, str, Callable[[Event], None]], WorkerOutcome]
"""Runs one worker to its end, as `supervise` does."""


@dataclass(frozen=True)
class StepFinished:
    """A run that has ended; `statuses` leaves out cases that are impossible by their nature."""

    path: Path
    statuses: tuple[Status, ...]
    interrupted: bool


def on_gpu(gpu: Gpu) -> RunWorker:
    """Returns a function that runs workers on a GPU."""

    def run(task: StepTask, folder: Path, name: str, on_event: Callable[[Event], None]) -> WorkerOutcome:
        return supervise(_WORKER, task, folder, name, worker_environment(gpu), on_event)

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
    if not wanted:
        return
    builds = build_cases(plan.catalog, wanted, [plan.gpu.arch], _BUILD_LIMIT_S, observer)
    for each in plan.cases:
        if verdict := builds.verdict(each.case, [plan.gpu.arch]):
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
    observer(PhaseBegun("measure", settings.rounds * len(ids)))
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
                        observer(UnitDone())
            case Examined(status=status) if status is not Status.OK:
                verdicts[event.case] = event
            case _:
                pass

    return take


def _describe(plan: StepPlan, run_id: str, now: datetime, name: str, *, complete: bool) -> RunInfo:
    catalog, settings = plan.catalog, asdict(plan.settings)
    cases = list(dict.fromkeys(each.case for each in plan.cases))
    entries = {each.variant.kernel: catalog.entries[each.variant.kernel] for each in cases}
    of_op: dict[str, Any] = {}
    if plan.op:
        git = convert(git_state(catalog.op_folders[plan.op.name]), GitDocument)
        of_op = {"workloads": plan.op.workloads, "op_hash": catalog.op_hash(plan.op.name), "git": git}
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
        write_dataclasses(folder / STEP_NAME, StepRow, steps)
    else:
        rows = ways = analyse_launches(
            launch_cases(), collected, plan.settings, verdicts, run_id=info.run_id, gpu=info.gpu
        )
        write_dataclasses(folder / LAUNCH_WAYS, LaunchWayRow, ways)
    write_measurements(folder, info, [])  # other verbs look in both for NVBench's times: none here
    write_rounds(folder, [])
    write_info(folder, info)
    if not any(row.status.is_failure for row in rows):
        for path in (*folder.glob("step-*.json"), *folder.glob("step-*.log")):
            path.unlink()
    return tuple(row.status for row in rows)


AGAINST_ITSELF = "itself"
TRIM = 0.25
"""Leaves the middle half: a step includes the host's time, which has interrupts in it."""
NOT_REACHED = "the run was stopped before its turn"


def analyse_steps(
    cases: Sequence[StepCase],
    collected: Collected,
    settings: StepSettings,
    verdicts: Mapping[str, Examined],
    *,
    run_id: str,
    gpu: str,
    op: str,
) -> list[StepRow]:
    """Makes a row for every case, measured or not.

    Args:
        collected: the samples, under the names of `StepCase.of`.
        verdicts: of cases that failed or are unavailable, by id.
        gpu: the GPU's short name.
    """
    rounds = RoundTimes(collected, settings.confidence, TRIM)
    groups = {each.group: _Group(cases, each.group, rounds) for each in cases}
    comparisons = _compare_paths(cases, groups, settings)
    rows = []
    for case in cases:
        row = _bare(case, settings, run_id, gpu, op, verdicts.get(case.id))
        group = groups[case.group]
        if group.has(case, Quantity.STEP) and row.status is Status.OK:
            row = replace(row, **group.figures(case, settings.confidence), **comparisons.get(case.id, {}))
        elif row.status is Status.OK:
            row = replace(row, status=Status.NOT_RUN, reason=NOT_REACHED)
        rows.append(row)
    return rows


class _Group:
    """The cases at one workload in one condition of the L2: by each quantity, in the same rounds."""

    def __init__(self, cases: Sequence[StepCase], name: str, rounds: RoundTimes) -> None:
        self._rounds = rounds
        self.at: dict[Quantity, WorkloadTimes] = {}
        for quantity in Quantity:
            ids = [each.of(quantity) for each in cases if each.group == name and each.of(quantity) in rounds.times]
            if ids:
                self.at[quantity] = rounds.workload(ids)

    def has(self, case: StepCase, quantity: Quantity) -> bool:
        return quantity in self.at and case.of(quantity) in self.at[quantity].times

    def times(self, case: StepCase, quantity: Quantity) -> FloatArray:
        return self.at[quantity].times[case.of(quantity)]

    def figures(self, case: StepCase, confidence: float) -> dict[str, Any]:
        """The row's cells of times and differences."""
        cells: dict[str, Any] = self._rounds.counts(case.of(Quantity.STEP))
        for quantity in Quantity:
            if self.has(case, quantity):
                cells |= _cells(quantity.value, self.at[quantity].interval(case.of(quantity)))
        for name, whole, part in (
            ("gap", Quantity.QUEUED, Quantity.KERNELS),
            ("waits", Quantity.STEP, Quantity.QUEUED),
        ):
            if self.has(case, whole) and self.has(case, part):
                cells |= difference(name, self.times(case, whole), self.times(case, part), confidence)
        return cells


def difference(name: str, whole: FloatArray, part: FloatArray, confidence: float) -> dict[str, float]:
    """Cells of a difference of two quantities, with its interval over the rounds that have both."""
    both = whole - part
    both = both[np.isfinite(both)]
    return _cells(name, t_interval(both, confidence)) if both.size else {}


def _cells(name: str, interval: Interval) -> dict[str, float]:
    return {f"{name}_us": interval.estimate, f"{name}_lo_us": interval.low, f"{name}_hi_us": interval.high}


def baseline_of(
    case: StepCase, cases: Sequence[StepCase], measured: Mapping[str, object] | set[str]
) -> StepCase | None:
    """The case to compare with, or None: the same kernel by the first of its paths that was measured."""
    for each in cases:
        same = each.case == case.case and each.l2 is case.l2 and not each.is_again
        if same and each.id in measured:
            return each
    return None


def _compare_paths(
    cases: Sequence[StepCase], groups: Mapping[str, _Group], settings: StepSettings
) -> dict[str, dict[str, Any]]:
    measured = {each.id for each in cases if groups[each.group].has(each, Quantity.STEP)}
    found: dict[str, dict[str, Any]] = {}
    ratios: dict[str, PairedLogRatio] = {}
    controls: dict[str, PairedLogRatio] = {}
    for case in cases:
        base = baseline_of(case, cases, measured)
        if case.id not in measured or base is None or base.id == case.id:
            continue
        group = groups[case.group]
        ratio = group.at[Quantity.STEP].paired(case.of(Quantity.STEP), base.of(Quantity.STEP))
        again = case.is_again and case.path is base.path
        (controls if again else ratios)[case.id] = ratio
        saved = difference(
            "saved", group.times(base, Quantity.STEP), group.times(case, Quantity.STEP), settings.confidence
        )
        found[case.id] = {"versus": AGAINST_ITSELF if again else base.path.value, **saved}
    judged = judge_family(ratios, margin=settings.margin, confidence=settings.confidence)
    judged |= {id_: judge_paired(ratio, settings.margin, settings.confidence) for id_, ratio in controls.items()}
    for id_, comparison in judged.items():
        speedup = comparison.speedup
        ends = {"speedup": speedup.estimate, "speedup_lo": speedup.low, "speedup_hi": speedup.high}
        found[id_] |= {**ends, "verdict": comparison.verdict.value}
    return found


def _bare(case: StepCase, settings: StepSettings, run_id: str, gpu: str, op: str, verdict: Examined | None) -> StepRow:
    status, reason = (verdict.status, verdict.reason) if verdict else (Status.OK, "")
    if case.refusal:
        status, reason = Status.UNSUPPORTED, case.refusal
    variant = case.case.variant
    return StepRow(
        run_id=run_id,
        gpu=gpu,
        op=op,
        kernel=variant.kernel,
        label=variant.label,
        params=str(variant.params),
        workload=str(case.case.workload),
        path=case.path.value,
        l2=case.l2.value,
        is_again=int(case.is_again),
        layers=settings.layers,
        between_mib=settings.between_mib,
        status=status,
        reason=reason,
    )


def analyse_launches(
    cases: Sequence[LaunchCase],
    collected: Collected,
    settings: StepSettings,
    verdicts: Mapping[str, Examined],
    *,
    run_id: str,
    gpu: str,
) -> list[LaunchWayRow]:
    """Makes a row for every way, measured or not; arguments as `analyse_steps`."""
    rounds = RoundTimes(collected, settings.confidence, TRIM)
    rows = []
    for case in cases:
        verdict = verdicts.get(case.id)
        status, reason = (verdict.status, verdict.reason) if verdict else (Status.OK, "")
        cells: dict[str, Any] = {}
        for quantity in ("host", "gap"):
            id_ = f"{case.id}|{quantity}"
            if id_ in rounds.times:
                cells |= _cells(quantity, rounds.interval(id_))
                cells |= rounds.counts(id_)
        if not cells and status is Status.OK:
            status, reason = Status.NOT_RUN, NOT_REACHED
        rows.append(
            LaunchWayRow(
                run_id=run_id,
                gpu=gpu,
                way=case.way.value,
                arguments=case.arguments,
                status=status,
                reason=reason,
                **(cells if status is Status.OK else {}),
            )
        )
    return rows
