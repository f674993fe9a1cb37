"""Measures rounds in worker processes: all working cases in one worker, and in a new one if that dies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from gdnbench.errors import MachineError
from gdnbench.measuring.observer import Observer
from gdnbench.measuring.protocol import Event, Examined, Sampled, StepBegun, Task
from gdnbench.measuring.records import read_record
from gdnbench.measuring.rounds import Collected
from gdnbench.measuring.schedule import FixedRounds, round_order
from gdnbench.measuring.workers import supervise
from gdnbench.model.case import Case
from gdnbench.model.status import Clock, Status
from gdnbench.process.warm import WarmParent


@dataclass
class TimingWorkers:
    """Measures rounds in worker processes until all rounds are done or no case is left.

    Task files, logs and the timer's records go to `folder`. `record` is called with every event. Workers are forked
    from `warm`, or started as new processes if it is None.
    """

    folder: Path
    environment: Mapping[str, str]
    observer: Observer
    record: Callable[[Event], None]
    warm: WarmParent | None = None

    def measure(
        self,
        task: Task,
        rounds: int,
        collected: Collected,
        phase: str = "measure",
        others: Iterable[str] = (),
        bridge: Collection[str] = (),
    ) -> None:
        """Adds to `collected` until the cases have `rounds` complete rounds, those of earlier processes included.

        Raises MachineError if a worker exits normally without a complete round.

        Args:
            others: ids of cases of the same workloads that other processes measure, whose round numbers are not used
                again.
            bridge: ids of those cases of the task that other processes measure, too: if one fails here, the other cases
                caused it, and are lost in its place.
        """
        others = {*others}
        cases = [case for case in task.cases if case.id not in collected.lost]
        done = collected.complete_rounds(case.id for case in cases)
        self.observer.begin(phase, (rounds + 1 - len(done)) * len(cases))
        for attempt in count():
            ids = [case.id for case in cases]
            collected.drop_incomplete_rounds(ids, others)
            done = collected.complete_rounds(ids)
            if {*ids} <= {*bridge} or len(done) >= rounds:
                return
            taken = done.union(*(collected.samples.get(other, {}) for other in others))
            first = max(taken, default=0) + 1
            order = round_order(cases, 1 + rounds - len(done), task.seed + first)
            part = replace(task, cases=tuple(cases), order=order, first_round=first)
            self._run_worker(part, self._free_number(attempt), collected, bridge)
            cases = [case for case in cases if case.id not in collected.lost]
            if [case.id for case in cases] == ids and collected.complete_rounds(ids) <= done:
                raise MachineError("a worker ended without measuring a round", f"its log is in {self.folder}")

    def _free_number(self, attempt: int) -> int:
        """The first number that no earlier process of the run has, those before an interruption included; from 0."""
        return next(number for number in count(attempt) if not (self.folder / f"measure-{number}.json").exists())

    def _run_worker(self, task: Task, number: int, collected: Collected, bridge: Collection[str]) -> None:
        by_id: dict[str, Case] = {case.id: case for case in task.cases}
        name = f"measure-{number}"

        def take(event: Event) -> None:
            if isinstance(event, Sampled):
                event = _with_samples(replace(event, process=number + 1), Path(recorded.record))
            for each in _blamed(event, task.cases, bridge):
                self._keep(each, task.clock, collected)
            match event:
                case Sampled():
                    self.observer.advance()
                case StepBegun(case=case_id, step=step):
                    where = f"{by_id[case_id].label} {by_id[case_id].workload}: " if case_id else ""
                    self.observer.step(where + step)
                case _:
                    pass

        recorded = replace(task, record=str(self.folder / "nvbench" / f"{name}.json"))
        (self.folder / "nvbench").mkdir(exist_ok=True)
        outcome = supervise(recorded, self.folder, name, self.environment, take, warm=self.warm)
        for each in _blamed(outcome.loss, task.cases, bridge) if outcome.loss else ():
            self._keep(each, task.clock, collected)

    def _keep(self, event: Event, clock: Clock | None, collected: Collected) -> None:
        """Records an event with its clock: the worker sends no clock, and the journal must tell them apart."""
        if isinstance(event, Examined | Sampled):
            event = replace(event, clock=clock or "")
        self.record(event)
        collected.take(event)


def _blamed(event: Event, cases: Sequence[Case], bridge: Collection[str]) -> tuple[Event, ...]:
    """The event; if it is the loss of a bridge case, the loss of all other cases in its process instead."""
    if not isinstance(event, Examined) or event.status is Status.OK or event.case not in bridge:
        return (event,)
    reason = f"what was timed in its process was changed by it or by another with Python of its own: {event.case}: "
    status = Status.TAMPERS if event.status in {Status.TAMPERS, Status.WRONG_WHEN_TIMED} else Status.FAILED
    others = [case.id for case in cases if case.id not in bridge]
    return tuple(replace(event, case=id_, status=status, reason=reason + event.reason) for id_ in others)


def _with_samples(event: Sampled, record: Path) -> Sampled | Examined:
    """The round with its samples, from NVBench's files if the message lacks them; a failure if they are unreadable."""
    if event.record is None:
        return event
    try:
        times_us, sm_mhz = read_record(record, event.record)
    except MachineError as error:
        return Examined(event.case, Status.FAILED, f"{error.message}: {error.hint}")
    return replace(event, times_us=times_us, sm_mhz=sm_mhz, record=None)


def measure_groups(
    measuring: TimingWorkers,
    task: Task,
    groups: Iterable[Sequence[Case]],
    rounds: int,
    collected: Collected,
    phase: str,
) -> None:
    """Measures the groups of cases, which may overlap, in turn, each in its own process, for `rounds` whole rounds."""
    measured = {case.id for case in task.cases}
    before: set[str] = set()
    for group in groups:
        cases = tuple(case for case in group if case.id in measured)
        if cases:
            own = {case.id for case in cases}
            part = replace(task, cases=cases)
            measuring.measure(part, rounds, collected, phase, measured - own, bridge=own & before)
            before |= own


def read_clock(
    measuring: TimingWorkers,
    task: Task,
    schedule: FixedRounds,
    collected: Collected,
    groups: Iterable[Sequence[Case]],
) -> None:
    """Measures with the task's further clock; if it cannot be read here, only its own numbers are missing, with why."""
    try:
        while segment := schedule.next_segment(task.cases, collected, task.samples, {}):
            measure_groups(measuring, task, groups, segment.rounds, collected, task.clock or segment.phase)
    except MachineError as error:
        measuring.observer.note(f"{task.clock}: {error.message}")
        for case in task.cases:
            if not collected.samples.get(case.id) and case.id not in collected.lost:
                collected.take(Examined(case.id, Status.FAILED, error.message, clock=task.clock or ""))
