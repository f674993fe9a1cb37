"""The parent's side of measuring: all healthy cases in one worker, a fresh one where that dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from gdnbench.bench.events import Event, Examined, HostTimes, Sampled, Step
from gdnbench.bench.observer import Observer
from gdnbench.bench.plan import round_order
from gdnbench.bench.supervise import supervise
from gdnbench.bench.task import BURN_IN, Task
from gdnbench.errors import MachineError
from gdnbench.model import Case, Clock, Status


@dataclass
class Collected:
    """Everything that was measured.

    Attributes:
        samples: by case id, then by round; all by one clock.
        cpu_us: host time per launch, microseconds, by case id.
        lost: cases that took their worker down while being measured, by id.
        burn_ins: in how many workers a case was measured, by id.
    """

    samples: dict[str, dict[int, Sampled]] = field(default_factory=dict)
    cpu_us: dict[str, float] = field(default_factory=dict)
    lost: dict[str, Examined] = field(default_factory=dict)
    burn_ins: Counter[str] = field(default_factory=Counter)

    def take(self, event: Event) -> None:
        """Keeps what an event says; of the burn-in round, only that it was."""
        match event:
            case Sampled(round=number, case=case_id) if number == BURN_IN:
                self.burn_ins[case_id] += 1
            case Sampled(round=number, case=case_id):
                self.samples.setdefault(case_id, {})[number] = event
            case HostTimes():
                self.cpu_us.update(event.cpu_us)
            case Examined(status=status) if status is not Status.OK:
                self.lost[event.case] = event
                self.samples.pop(event.case, None)
            case _:
                pass

    def whole_rounds(self, case_ids: Iterable[str]) -> set[int]:
        """The rounds in which every one of the cases was measured."""
        rounds = [set(self.samples.get(case_id, ())) for case_id in case_ids]
        return set.intersection(*rounds) if rounds else set()

    def drop_torn_rounds(self, case_ids: Iterable[str]) -> None:
        """Drops rounds that a worker's death cut in two: their halves cannot be compared with each other."""
        ids = list(case_ids)
        whole = self.whole_rounds(ids)
        for case_id in ids:
            kept = {number: sampled for number, sampled in self.samples.get(case_id, {}).items() if number in whole}
            self.samples[case_id] = kept


@dataclass
class Measuring:
    """Measures rounds in worker processes until all are done or no case is left.

    Attributes:
        folder: where task files, logs and the timer's records go.
        environment: variables for the workers.
        observer: told of every step.
        record: called with every event.
    """

    folder: Path
    environment: Mapping[str, str]
    observer: Observer
    record: Callable[[Event], None]

    def measure(self, task: Task, rounds: int, collected: Collected, phase: str = "measure") -> None:
        """Adds to what was collected before until `rounds` rounds are whole; `phase` is what progress calls it.

        Raises:
            MachineError: if a worker ends well and has measured nothing.
        """
        cases = [case for case in task.cases if case.id not in collected.lost]
        done = collected.whole_rounds(case.id for case in cases)
        self.observer.begin(phase, (rounds + 1 - len(done)) * len(cases))
        for attempt in count():
            ids = [case.id for case in cases]
            collected.drop_torn_rounds(ids)
            done = collected.whole_rounds(ids)
            if not cases or len(done) >= rounds:
                return
            first = max(done, default=0) + 1
            order = round_order(ids, 1 + rounds - len(done), task.seed + first)
            part = replace(task, cases=tuple(cases), order=order, first_round=first)
            self._run_worker(part, self._free_name(attempt), collected)
            cases = [case for case in cases if case.id not in collected.lost]
            if [case.id for case in cases] == ids and collected.whole_rounds(ids) <= done:
                raise MachineError("a worker ended without measuring a round", f"its log is in {self.folder}")

    def _free_name(self, attempt: int) -> str:
        """A name that no earlier, interrupted part of the run has used."""
        return next(name for n in count(attempt) if not (self.folder / f"{(name := f'measure-{n}')}.json").exists())

    def _run_worker(self, task: Task, name: str, collected: Collected) -> None:
        by_id: dict[str, Case] = {case.id: case for case in task.cases}

        def take(event: Event) -> None:
            self._keep(event, task.clock, collected)
            match event:
                case Sampled():
                    self.observer.advance()
                case Step(case=case_id, step=step):
                    where = f"{by_id[case_id].label} {by_id[case_id].shape}: " if case_id else ""
                    self.observer.step(where + step)
                case _:
                    pass

        recorded = replace(task, record=str(self.folder / "nvbench" / f"{name}.json"))
        (self.folder / "nvbench").mkdir(exist_ok=True)
        outcome = supervise(recorded, self.folder, name, self.environment, take)
        if outcome.loss:
            self._keep(outcome.loss, task.clock, collected)

    def _keep(self, event: Event, clock: Clock | None, collected: Collected) -> None:
        """The journal must tell the clocks apart, of which the worker reads one and says nothing."""
        if isinstance(event, Examined | Sampled):
            event = replace(event, clock=clock or "")
        self.record(event)
        collected.take(event)
