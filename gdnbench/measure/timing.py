"""Measures rounds in worker processes: which cases share one, in which form, and what is read of each round.

A kernel's Python must not be able to change another kernel's time. It runs in the process that times it, and can change
anything there, so compiled kernels are timed where no such code has run. The op and the baselines named in its
declaration are trusted; baseline, control and floors are timed in every group, so that each kernel has its baseline and
its bounds in rounds of its own process. All kernels called through Python share a group: a group each would cost a
worker's start and the baseline's rounds again for every process.

NVBench's files are read in the parent, since a kernel's code could change a reader in the worker. NVBench numbers them
from 0 in the order of writing: float32 seconds in `<record>-bin`, Hz in `<record>-freqs-bin`.

A copying floor's form that was chosen on another GPU may be slower than a kernel, which would then read over 100 % of
SOL. So the preflight times the forms of each floor without fixed params, and the fastest is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gdnbench.analyse.rounds import Collected
from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import MachineError
from gdnbench.measure.schedule import FixedRounds, round_order
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params, ParamValue
from gdnbench.model.kernel import Device, TorchKernel
from gdnbench.model.status import Clock, Role, Status
from gdnbench.process.events import NoteMade, Observer, PhaseBegun, StepChanged, UnitDone
from gdnbench.process.warm import WarmParent
from gdnbench.store.journal import Event, Examined, HostTimes, PassBegun, PreflightVerdicts, Sampled, StepBegun
from gdnbench.workers.supervision import WaitingWorkers, supervise
from gdnbench.workers.task import Pass, Task, file_of

if TYPE_CHECKING:
    from gdnbench.codegen.builds import Builds

WORKER = "gdnbench.measure.worker"
_HINT = "measure it again; where it comes again, see `gdnbench doctor`"


def read_record(record: Path, number: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A round's samples, µs and SM clocks, MHz, by NVBench's JSON and file `number`; MachineError if invalid."""
    times, clocks = (file_of(record, number, kind) for kind in ("bin", "freqs-bin"))
    try:
        times_us = np.fromfile(times, np.float32).astype(float) * 1e6
        sm_mhz = np.fromfile(clocks, np.float32).astype(float) / 1e6 if clocks.is_file() else np.empty(0)
    except OSError as error:
        raise MachineError(f"NVBench left no samples in {times}: {error.strerror}", "see `gdnbench doctor`") from error
    if not len(times_us):
        raise MachineError(f"NVBench left no samples in {times}", "see `gdnbench doctor`")
    if strange := times_us[~(np.isfinite(times_us) & (times_us > 0))].tolist():
        raise MachineError(f"NVBench measured {strange[0]:g} µs, which is not a time, as {times} has it", _HINT)
    sm_mhz = sm_mhz[np.isfinite(sm_mhz)]
    # Four digits are a tenth of a nanosecond: below every timer's tick, and a third of float64's text.
    return tuple(np.round(times_us, 4).tolist()), tuple(np.round(sm_mhz, 1).tolist())


@dataclass
class Target:
    """Rounds that the cases are to have by one timer, `clock`, None for the run's own, in `collected`.

    A case that is lost there or in `unless_lost` is not measured. `origins` has the run's case, by id, for each case
    that is one of these at other inputs, and that is lost with it; their samples are not recorded in the journal.
    `samples` has how many of these a round has, by case id, where it is another number than the task's.
    """

    cases: tuple[Case, ...]
    rounds: int
    collected: Collected
    clock: Clock | None = None
    phase: str = "measure"
    unless_lost: Collected = field(default_factory=Collected)
    origins: Mapping[str, str] = field(default_factory=dict)
    samples: Mapping[str, int] = field(default_factory=dict)

    @property
    def healthy(self) -> tuple[Case, ...]:
        """The cases that are not lost."""
        lost = self.collected.lost.keys() | self.unless_lost.lost.keys()
        return tuple(case for case in self.cases if not {case.id, self.origins.get(case.id, case.id)} & lost)

    def of_group(self, group: Collection[str], earlier: Collection[str]) -> Target:
        """The target for a group of cases, by id; the run's cases at other inputs are in the first of their groups."""
        cases = [
            case
            for case in self.cases
            if (origin := self.origins.get(case.id, case.id)) in group
            and not (case.id in self.origins and origin in earlier)
        ]
        return replace(self, cases=tuple(cases))


@dataclass
class TimingWorkers:
    """Measures rounds in worker processes until all rounds are done or no case is left.

    Task files, logs and the timer's records go to `folder`. `record` is called with every event. Workers, which run the
    module `worker`, are those that are `waiting`, or forked from `warm`, or started as new processes.
    """

    folder: Path
    environment: Mapping[str, str]
    observer: Observer
    record: Callable[[Event], None]
    warm: WarmParent | None = None
    worker: str = WORKER
    waiting: WaitingWorkers | None = None

    def measure(
        self, task: Task, targets: Sequence[Target], others: Iterable[str] = (), bridge: Collection[str] = ()
    ) -> None:
        """Measures until every target has its complete rounds, those of earlier processes included.

        A worker measures the targets in turn; what it cannot measure of the later ones is left. Other processes measure
        the cases `others` of the same workloads, whose round numbers are not used again, and also the cases in
        `bridge`: if one of these fails here, the other cases caused it, and are lost in its place. Raises MachineError
        if a worker exits normally without a complete round, or cannot measure the first target.
        """
        others, left = {*others}, [*targets]
        for attempt in count():
            for target in left:
                target.collected.drop_incomplete_rounds([case.id for case in target.healthy], others)
            left = [target for target in left if _is_open(target, bridge)]
            if not left:
                return
            first, *further = [_next_pass(target, task, others, target is left[0]) for target in left]
            part = replace(
                task,
                cases=tuple({case.id: case for target in left for case in target.healthy}.values()),
                **vars(first),
                further=tuple(further),
            )
            before = [_progress(target) for target in left]
            # Not that of an earlier process of the run, those before an interruption included.
            number = next(each for each in count(attempt) if not (self.folder / f"measure-{each}.json").exists())
            if given_up := self._run_worker(part, number, left, bridge):
                left.remove(given_up)
            elif [_progress(target) for target in left] == before:
                raise MachineError("a worker ended without measuring a round", "see `gdnbench doctor`")

    def _run_worker(self, task: Task, number: int, targets: Sequence[Target], bridge: Collection[str]) -> Target | None:
        """Runs a worker; returns the target that it could not measure, if it is not the first."""
        by_id: dict[str, Case] = {case.id: case for case in task.cases}
        name = f"measure-{number}"
        totals = [sum(map(len, each.order)) for each in task.passes()]
        at = 0
        self.observer(PhaseBegun(targets[at].phase, totals[at]))

        def keep(event: Event) -> None:
            target = targets[at]
            if isinstance(event, HostTimes):  # NVBench's follow all of its passes, and are of the run's own cases
                target = targets[0]
            elif isinstance(event, Examined):  # perhaps of a later pass, as all cases are bound before the first
                target = next((each for each in targets[at:] if event.case in {case.id for case in each.cases}), target)
            for each in _blamed(event, target.cases, bridge):
                self._keep(each, target)

        def take(event: Event) -> None:
            nonlocal at
            if isinstance(event, PassBegun) and event.number != at:
                at = event.number
                self.observer(PhaseBegun(targets[at].phase, totals[at]))
            if isinstance(event, Sampled):
                event = _with_samples(replace(event, process=number + 1), Path(recorded.record))
            keep(event)
            match event:
                case Sampled(case=case_id) if case_id in by_id:
                    self.observer(UnitDone())
                case StepBegun(case=case_id, step=step):
                    where = f"{by_id[case_id].label} {by_id[case_id].workload}: " if case_id else ""
                    self.observer(StepChanged(where + step))

        recorded = replace(task, record=str(self.folder / "nvbench" / f"{name}.json"))
        (self.folder / "nvbench").mkdir(exist_ok=True)
        try:
            where = self.worker, recorded, self.folder, name, self.environment
            outcome = supervise(*where, take, warm=self.warm, waiting=self.waiting)
        except MachineError:
            if at == 0:
                raise
            return targets[at]
        if outcome.loss:
            keep(outcome.loss)
        return None

    def _keep(self, event: Event, target: Target) -> None:
        """Records an event with its clock, which the worker does not send: the journal must tell clocks apart."""
        if isinstance(event, Examined | Sampled):
            event = replace(event, clock=target.clock or "")
        if not target.origins:
            self.record(event)
        target.collected.take(event)


def _is_open(target: Target, bridge: Collection[str]) -> bool:
    ids = [case.id for case in target.healthy]
    return not {*ids} <= {*bridge} and len(target.collected.complete_rounds(ids)) < target.rounds


def _next_pass(target: Target, task: Task, others: Collection[str], has_burn_in: bool) -> Pass:
    samples, done = target.collected.samples, target.collected.complete_rounds(case.id for case in target.healthy)
    taken = done.union(*(samples.get(other, {}) for other in others))
    first = max(taken, default=0) + 1
    order = round_order(target.healthy, int(has_burn_in) + target.rounds - len(done), task.seed + first)
    return Pass(target.clock, order, first, {**task.samples, **target.samples}, has_burn_in)


def _progress(target: Target) -> tuple[str | int, ...]:
    ids = [case.id for case in target.healthy]
    return (*ids, len(target.collected.complete_rounds(ids)))


def _blamed(event: Event, cases: Sequence[Case], bridge: Collection[str]) -> tuple[Event, ...]:
    """The event; if it is the loss of a bridge case, the loss of all other cases in its process instead."""
    if not isinstance(event, Examined) or event.status is Status.OK or event.case not in bridge:
        return (event,)
    reason = f"what was timed in its process was changed by it or by another with Python of its own: {event.case}: "
    status = Status.TAMPERS if event.status in {Status.TAMPERS, Status.WRONG_WHEN_TIMED} else Status.FAILED
    others = [case.id for case in cases if case.id not in bridge]
    return tuple(replace(event, case=id_, status=status, reason=reason + event.reason) for id_ in others)


def _with_samples(event: Sampled, record: Path) -> Sampled | Examined:
    if event.record is None:
        return event
    try:
        times_us, sm_mhz = read_record(record, event.record)
    except MachineError as error:
        return Examined(event.case, Status.FAILED, f"{error.message}: {error.hint}")
    return replace(event, times_us=times_us, sm_mhz=sm_mhz, record=None)


def measure_groups(
    measuring: TimingWorkers, task: Task, groups: Iterable[Sequence[Case]], targets: Sequence[Target]
) -> None:
    """Measures the groups of cases, which may overlap, in turn, each in its own process, for whole rounds."""
    measured = {case.id for target in targets for case in target.cases if case.id not in target.origins}
    before: set[str] = set()
    for group in groups:
        own = {case.id for case in group} & measured
        kernels = {case.id for case in group if case.role is Role.KERNEL}
        if own & kernels or (own and not kernels):  # else only what kernels are compared with is left
            parts = [target.of_group(own, before) for target in targets]
            measuring.measure(task, parts, measured - own, bridge=own & before)
            before |= own


def read_clock(
    measuring: TimingWorkers, task: Task, schedule: FixedRounds, collected: Collected, groups: Iterable[Sequence[Case]]
) -> None:
    """Measures with the task's further clock; if it cannot be read here, only its own numbers are missing, with why."""
    try:
        while segment := schedule.next_segment(task.cases, collected, task.samples, {}):
            phase = task.clock or segment.phase
            target = Target(segment.cases, segment.rounds, collected, task.clock, phase)
            measure_groups(measuring, task, groups, [target])
    except MachineError as error:
        measuring.observer(NoteMade(f"{task.clock}: {error.message}"))
        for case in task.cases:
            if not collected.samples.get(case.id) and case.id not in collected.lost:
                collected.take(Examined(case.id, Status.FAILED, error.message, clock=task.clock or ""))


_BRIDGE = {Role.BASELINE, Role.CONTROL, Role.FLOOR}


def _runs_own_python(case: Case, entries: Mapping[str, CatalogEntry]) -> bool:
    entry = entries[case.variant.kernel]
    return isinstance(entry.kernel, TorchKernel) and entry.kernel.name not in entry.op.baselines


def is_apart(case: Case, entries: Mapping[str, CatalogEntry]) -> bool:
    """Whether a case is timed in another process than the compiled kernels, if there are any."""
    return case.role not in _BRIDGE and _runs_own_python(case, entries)


def isolated_groups(cases: Sequence[Case], entries: Mapping[str, CatalogEntry]) -> tuple[tuple[Case, ...], ...]:
    """The cases of workloads measured together, as one group, or as two: compiled kernels, then those with Python."""
    python = {case.id for case in cases if is_apart(case, entries)}
    compiled = {case.id for case in cases if case.role not in _BRIDGE} - python
    if not python or not compiled:
        return (tuple(cases),) if cases else ()
    return tuple(tuple(case for case in cases if case.id not in others) for others in (python, compiled))


def trusted_first(cases: Sequence[Case], entries: Mapping[str, CatalogEntry]) -> tuple[tuple[Case, ...], ...]:
    """The cases in the order of verification: those with their own Python in a second process."""
    own = tuple(case for case in cases if _runs_own_python(case, entries))
    return tuple(filter(None, (tuple(case for case in cases if case not in own), own)))


def trusted_python(cases: Sequence[Case], entries: Mapping[str, CatalogEntry]) -> tuple[Case, ...]:
    """The cases whose files may run in any worker: baselines that are called through Python."""
    called = (case for case in cases if isinstance(entries[case.variant.kernel].kernel, TorchKernel))
    return tuple(case for case in called if not _runs_own_python(case, entries))


Forms = Mapping[str, tuple[Variant, ...]]
"""Forms of each case that has several, by case id, the declared one first."""


def find_forms(catalog: Catalog, cases: Sequence[Case], device: Device, measured: Collection[str] = ()) -> Forms:
    """The forms of the cases with several on a device; controls take the baseline's, `measured` keep theirs."""
    found: dict[str, tuple[Variant, ...]] = {}
    for case in cases:
        entry = catalog.entries[case.variant.kernel]
        if device in entry.kernel.devices and case.role is not Role.CONTROL and case.id not in measured:
            forms = entry.forms(case.variant, case.workload)
            found |= {case.id: forms} if len(forms) > 1 else {}
    return found


def in_every_form(cases: Sequence[Case], forms: Forms) -> list[Case]:
    """The cases, those with several forms once in each; all forms of a case have its id."""
    return [replace(case, variant=form) for case in cases for form in forms.get(case.id, (case.variant,))]


def forms_to_try(
    cases: Sequence[Case], forms: Forms, builds: Builds, archs: Sequence[str]
) -> dict[str, tuple[dict[str, ParamValue], ...]]:
    """Params of the forms that compiled and can be launched, by case id, as a task takes them."""
    tried: dict[str, tuple[dict[str, ParamValue], ...]] = {}
    for form in in_every_form([case for case in cases if case.id in forms], forms):
        if builds.can_launch(form, archs):
            tried[form.id] = (*tried.get(form.id, ()), dict(form.variant.params))
    return tried


def as_chosen(cases: Sequence[Case], checked: PreflightVerdicts) -> tuple[Case, ...]:
    """The cases, each in the form that the preflight chose if it has several."""
    chosen = {id_: Params(verdict.params) for id_, verdict in checked.items() if verdict.params}
    return tuple(
        replace(case, variant=replace(case.variant, params=chosen[case.id])) if case.id in chosen else case
        for case in cases
    )
