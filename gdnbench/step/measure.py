"""Measures a step, worker after worker, and compares every path with its kernel's first one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gdnbench.analyse.rounds import Collected, RoundTimes, WorkloadTimes
from gdnbench.codec import convert
from gdnbench.codegen.builds import build_cases
from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.machine.gpus import alone_on
from gdnbench.machine.provenance import describe_machine, git_state
from gdnbench.measure.schedule import FixedRounds
from gdnbench.measure.timing import Target, TimingWorkers
from gdnbench.model.case import Case, Variant
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.process.events import Observer, RaceStatus
from gdnbench.stats import FloatArray
from gdnbench.stats.interval import Interval, t_interval
from gdnbench.stats.multiple import judge_family
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.step.plan import L2, STEP_LIMIT_S, Quantity, StepCase, StepPlan, StepSettings, StepTask
from gdnbench.store.files import RunFolder, run_id_of, write_dataclasses
from gdnbench.store.info import STEP_NAME, RunInfo, case_documents, write_info
from gdnbench.store.journal import Event, Examined, Sampled, StepBegun
from gdnbench.store.measurements import write_measurements
from gdnbench.store.samples import write_rounds
from gdnbench.store.schema import GitDocument, MachineDocument
from gdnbench.store.tables import StepRow
from gdnbench.workers.supervision import WorkerEnd, worker_environment
from gdnbench.workers.task import Phase

LABEL = "step"
_WORKER = "gdnbench.step.worker"
_BUILD_LIMIT_S = 30.0
_LOST_WITH_WORKER = {end.value for end in WorkerEnd if end is not WorkerEnd.FINISHED}
"""Statuses of a case that took its worker down, which then has not checked what it measured of the others."""


@dataclass(frozen=True)
class StepFinished:
    """A run that has ended; `statuses` leaves out cases that are impossible by their nature."""

    path: Path
    statuses: tuple[Status, ...]
    interrupted: bool


def measure_plan(plan: StepPlan, results: Path, observer: Observer) -> StepFinished:
    """Measures and writes a run; Ctrl-C keeps what is measured. GdnbenchError if nothing can be."""
    if all(each.refusal for each in plan.cases):
        reason = "; ".join(dict.fromkeys(each.refusal for each in plan.cases))
        reason = reason or "there is no kernel, path or condition"
        raise UsageError(f"nothing of this can be measured: {reason}", "choose others by --path and --l2")
    now = datetime.now(UTC)
    label = "-".join(filter(None, (LABEL, plan.label)))
    folder = RunFolder.create(results, run_id_of(now, plan.gpu.slug, plan.op.name, label))
    collected, interrupted = Collected(), False
    try:
        with alone_on(plan.gpu, observer):
            _measure(plan, folder.path, collected, observer)
    except KeyboardInterrupt:
        interrupted = True
    except GdnbenchError:
        shutil.rmtree(folder.path)
        raise
    info = _describe(plan, folder.run_id, now, label, complete=not interrupted)
    statuses = _write(plan, folder.path, info, collected)
    return StepFinished(folder.finish(), statuses, interrupted)


def _measure(plan: StepPlan, folder: Path, collected: Collected, observer: Observer) -> None:
    settings = plan.settings
    builds = build_cases(plan.catalog, plan.cases, [plan.gpu.arch], _BUILD_LIMIT_S, observer)
    for verdict in builds.verdicts(plan.cases, [plan.gpu.arch]).values():
        collected.take(verdict)
    cases = tuple(each for each in plan.cases if not each.refusal)
    task = StepTask(
        phase=Phase.MEASURE,
        device="cuda",
        roots=tuple(str(root) for root in plan.catalog.roots),
        op=plan.op.name,
        cases=cases,
        seed=settings.seed,
        step_limit_s=STEP_LIMIT_S,
        samples={each.id: settings.samples for each in cases},
        layers=settings.layers,
        between_mib=settings.between_mib,
    )
    unchecked: list[Sampled] = []

    def note(event: Event) -> None:
        if isinstance(event, Sampled):
            unchecked.append(event)
        elif isinstance(event, StepBegun) and not event.case:  # a worker begins, or has checked every chain again
            unchecked.clear()
        elif isinstance(event, Examined) and event.status in _LOST_WITH_WORKER:
            for each in unchecked:
                collected.samples.get(each.case, {}).pop(each.round, None)

    workers = TimingWorkers(folder, worker_environment(plan.gpu), observer, note, worker=_WORKER)
    schedule = FixedRounds(settings.rounds, settings.processes)
    while segment := schedule.next_segment(cases, collected, task.samples, {}):
        observer(RaceStatus(segment.standing))
        workers.measure(task, [Target(segment.cases, segment.rounds, collected)])


def _describe(plan: StepPlan, run_id: str, now: datetime, label: str, *, complete: bool) -> RunInfo:
    catalog = plan.catalog
    cases = dict.fromkeys(Case(each.variant, each.workload) for each in plan.cases)
    return RunInfo(
        run_id=run_id,
        timestamp=now.isoformat(timespec="seconds"),
        complete=complete,
        command=plan.command,
        op=plan.op.name,
        gpu=plan.gpu.slug,
        label=label,
        settings=asdict(plan.settings),
        machine=convert(describe_machine(plan.gpu), MachineDocument),
        workloads=plan.op.workloads,
        op_hash=catalog.op_hash(plan.op.name),
        git=convert(git_state(catalog.op_folders[plan.op.name]), GitDocument),
        cases=case_documents(cases),
        sources={each.variant.kernel: catalog.entries[each.variant.kernel].known_source() for each in cases},
    )


def _write(plan: StepPlan, folder: Path, info: RunInfo, collected: Collected) -> tuple[Status, ...]:
    rows = analyse_steps(plan.cases, collected, plan.settings, info)
    write_dataclasses(folder / STEP_NAME, StepRow, rows)
    write_measurements(folder, info, [])  # other verbs look in both for NVBench's times: none here
    write_rounds(folder, [])
    write_info(folder, info)
    shutil.rmtree(folder / "nvbench", ignore_errors=True)
    if not any(row.status.is_failure for row in rows):
        for path in folder.glob("measure-*"):
            path.unlink()
    return tuple(row.status for row in rows)


AGAINST_ITSELF = "itself"
TRIM = 0.25
"""Leaves the middle half: a step includes the host's time, which has interrupts in it."""
NOT_REACHED = "the run was stopped before its turn"


def analyse_steps(
    cases: Sequence[StepCase], collected: Collected, settings: StepSettings, info: RunInfo
) -> list[StepRow]:
    """Makes a row for every case, measured or not; the samples are named by `StepCase.of`."""
    rounds = RoundTimes(collected, settings.confidence, TRIM)
    left = [case for case in cases if case.id not in collected.lost]
    groups = {case.group: _Group([each for each in left if each.group == case.group], rounds) for case in cases}
    comparisons = _compare_paths(left, groups, settings)
    rows = []
    for case in cases:
        status, reason = _status(case, collected)
        row = StepRow(
            run_id=info.run_id,
            gpu=info.gpu,
            op=info.op,
            kernel=case.variant.kernel,
            label=case.variant.label,
            params=str(case.variant.params),
            workload=str(case.workload),
            path=case.path.value,
            l2=case.l2.value,
            is_again=int(case.is_again),
            layers=settings.layers,
            between_mib=settings.between_mib,
            status=status,
            reason=reason,
        )
        if status is Status.OK:
            figures = groups[case.group].figures(case, settings.confidence)
            row = replace(row, **figures, **comparisons.get(case.id, {}))
        rows.append(row)
    return rows


def _status(case: StepCase, collected: Collected) -> tuple[Status, str]:
    if case.refusal:
        return Status.UNSUPPORTED, case.refusal
    if lost := collected.lost.get(case.id):
        return lost.status, lost.reason
    return (Status.OK, "") if collected.samples.get(case.id) else (Status.NOT_RUN, NOT_REACHED)


class _Group:
    def __init__(self, cases: Sequence[StepCase], rounds: RoundTimes) -> None:
        self._rounds = rounds
        self.at: dict[Quantity, WorkloadTimes] = {}
        for quantity in Quantity:
            if ids := [each.of(quantity) for each in cases if each.of(quantity) in rounds.times]:
                self.at[quantity] = rounds.workload(ids)
        self.measured = {each.id for each in cases} & rounds.times.keys()

    def times(self, case: StepCase, quantity: Quantity) -> FloatArray:
        return self.at[quantity].times[case.of(quantity)]

    def figures(self, case: StepCase, confidence: float) -> dict[str, Any]:
        """The row's cells of times and differences."""
        cells: dict[str, Any] = self._rounds.counts(case.of(Quantity.STEP))
        has = [quantity for quantity, at in self.at.items() if case.of(quantity) in at.times]
        for quantity in has:
            cells |= _cells(quantity.value, self.at[quantity].interval(case.of(quantity)))
        for name, whole, part in (
            ("gap", Quantity.QUEUED, Quantity.KERNELS),
            ("waits", Quantity.STEP, Quantity.QUEUED),
        ):
            if whole in has and part in has:
                cells |= difference(name, self.times(case, whole), self.times(case, part), confidence)
        return cells


def difference(name: str, whole: FloatArray, part: FloatArray, confidence: float) -> dict[str, float]:
    """Cells of a difference of two quantities, with its interval over the rounds that have both."""
    both = whole - part
    both = both[np.isfinite(both)]
    return _cells(name, t_interval(both, confidence)) if both.size else {}


def _cells(name: str, interval: Interval) -> dict[str, float]:
    return {f"{name}_us": interval.estimate, f"{name}_lo_us": interval.low, f"{name}_hi_us": interval.high}


def _compare_paths(
    cases: Sequence[StepCase], groups: Mapping[tuple[Workload, L2], _Group], settings: StepSettings
) -> dict[str, dict[str, Any]]:
    measured = [each for each in cases if each.id in groups[each.group].measured]
    first: dict[tuple[Variant, Workload, L2], StepCase] = {}
    for case in measured:
        if not case.is_again:
            first.setdefault((case.variant, *case.group), case)
    found: dict[str, dict[str, Any]] = {}
    ratios: dict[str, PairedLogRatio] = {}
    controls: dict[str, PairedLogRatio] = {}
    for case in measured:
        base = first.get((case.variant, *case.group))
        if base is None or base is case:
            continue
        group = groups[case.group]
        ratio = group.at[Quantity.STEP].paired(case.id, base.id)
        again = case.is_again and case.path is base.path
        (controls if again else ratios)[case.id] = ratio
        before, after = (group.times(each, Quantity.STEP) for each in (base, case))
        saved = difference("saved", before, after, settings.confidence)
        found[case.id] = {"versus": AGAINST_ITSELF if again else base.path.value, **saved}
    judged = judge_family(ratios, margin=settings.margin, confidence=settings.confidence)
    judged |= {id_: judge_paired(ratio, settings.margin, settings.confidence) for id_, ratio in controls.items()}
    for id_, comparison in judged.items():
        speedup = comparison.speedup
        ends = {"speedup": speedup.estimate, "speedup_lo": speedup.low, "speedup_hi": speedup.high}
        found[id_] |= {**ends, "verdict": comparison.verdict.value}
    return found
