"""A run from its opening on: build, check, measure, analyse, write; stopped at any point, it keeps everything."""

from __future__ import annotations

import math
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from gdnbench.analyse.analysis import Analysis, own_sds_of
from gdnbench.analyse.conclude import find_close
from gdnbench.analyse.rounds import Collected
from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.request import device_of
from gdnbench.codegen.builds import Builds, archs_of, build_cases, build_rows
from gdnbench.errors import GdnbenchError, MachineError
from gdnbench.machine.gpus import alone_on
from gdnbench.measure import timing
from gdnbench.measure.inputs import ROUNDS as PROBE_ROUNDS
from gdnbench.measure.inputs import InputsProbe
from gdnbench.measure.schedule import (
    MOST_ROUNDS_A_SEGMENT,
    FixedRounds,
    Race,
    Schedule,
    Segment,
    SequentialSchedule,
    UntilClear,
    memory_blocks,
    most_placed_bytes,
    round_share,
    sample_count,
)
from gdnbench.measure.timing import Target
from gdnbench.measure.write import analyse_run, final_info, write_conclusions, write_run
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import Device
from gdnbench.model.op import Op
from gdnbench.model.status import Clock, Role, Status, Timer
from gdnbench.model.workload import Workload
from gdnbench.process.events import NoteMade, Observer, PhaseBegun, PhaseTimes, RaceStatus, add_seconds
from gdnbench.process.warm import WarmParent
from gdnbench.store.files import Journal, RunFolder
from gdnbench.store.info import RunInfo, case_documents, suite_of, write_info
from gdnbench.store.journal import Event, Examined, HostTimes, PreflightVerdicts, Sampled, Tuned, checked_event, encode
from gdnbench.store.schema import GpuDocument
from gdnbench.store.settings import READ_BY_NVBENCHS_WORKERS, Settings
from gdnbench.verify.preflight import WORKER as VERIFIER
from gdnbench.verify.preflight import Preflight, interpreter_of, interpreting, scenarios_to_verify, share_with_controls
from gdnbench.workers.supervision import WaitingWorkers, run_concurrently, worker_environment
from gdnbench.workers.task import Phase, Task

Record = Callable[[Event], None]
MEMORY_SHARE = 0.6  # share of the GPU's memory for tensors; the rest is for libraries and kernels' allocations
CPU_MEMORY_BYTES = 8 << 30
_NEEDED_LATER = ("scipy.special", "pandas")
"""Modules of verdicts and tables, imported (a second) while the parent only waits for workers."""
_FOR_SAMPLES = "pyarrow.parquet"
"""As these, where samples are stored, which a score does not do."""


@dataclass(frozen=True)
class Finished:
    """A run whose files are written; `interrupted`: whether the user stopped it."""

    path: Path
    info: RunInfo
    analysis: Analysis
    interrupted: bool


@dataclass
class Session:
    """One run in progress.

    `cases` has the controls, too, `folder` is hidden, and workers are forked from `warm`, or started if it is None;
    some may be `waiting` already.
    `collected` are samples of the run's own timer, `clocked` of the further clocks, both with those from before an
    interruption, `probed` those at the extremes of the inputs. `forms` are tried for copying floors; `draw_key` is
    that of `Task`.
    """

    catalog: Catalog
    op: Op
    gpu: Gpu | None
    cases: tuple[Case, ...]
    settings: Settings
    folder: RunFolder
    info: RunInfo
    observer: Observer
    collected: Collected = field(default_factory=Collected)
    clocked: dict[Clock, Collected] = field(default_factory=dict)
    probed: Collected = field(default_factory=Collected)
    checked: PreflightVerdicts = field(default_factory=dict)
    interpreted: PreflightVerdicts = field(default_factory=dict)
    forms: timing.Forms = field(default_factory=dict)
    builds: Builds = field(default_factory=Builds)
    measured_all: bool = False
    warm: WarmParent | None = None
    waiting: WaitingWorkers | None = None
    draw_key: str = field(default_factory=partial(secrets.token_hex, 16))

    def __post_init__(self) -> None:
        self._phases = PhaseTimes(self.observer)
        self.observer = self._phases

    def run(self) -> Finished:
        """Measures and writes; Ctrl-C keeps what is finished. MachineError, samples kept, if workers cannot work."""
        interrupted = False
        if self.warm and self.gpu:
            threading.Thread(target=self.warm.prepare, daemon=True).start()
        waiting = self.waiting or WaitingWorkers(self.folder.path, worker_environment(self.gpu), self.warm)
        try:
            with alone_on(self.gpu, self.observer), Journal(self.folder.path) as journal, waiting as self._waiting:
                self._work(lambda event: _append(journal, event))
        except KeyboardInterrupt:
            interrupted = True
        except GdnbenchError:
            if self.collected.samples:
                self._finish(interrupted=True)
            else:
                shutil.rmtree(self.folder.path)
            raise
        return self._finish(interrupted)

    def _work(self, record: Record) -> None:
        candidates = [case for case in self.cases if case.role is not Role.CONTROL]
        measured = [case_id for case_id, rounds in self.collected.samples.items() if rounds]
        self.forms = timing.find_forms(self.catalog, candidates, self._device, measured)
        to_build = timing.in_every_form(candidates, self.forms)
        limit_s, read = self.settings.step_limit_s, not self.settings.looks  # nothing of a score is stored
        self.builds = build_cases(self.catalog, to_build, archs_of(self.gpu), limit_s, self.observer, disassembled=read)
        self._check(candidates, record)
        self._take_chosen()
        self._measure(record)
        self._read_clocks(record)
        self._probe_inputs()
        self.measured_all = True

    def _check(self, candidates: list[Case], record: Record) -> None:
        """Checks every case; without a GPU, Triton and CUDA kernels also run in interpreters meanwhile."""
        self.checked.update(self.builds.verdicts(timing.in_every_form(candidates, self.forms), archs_of(self.gpu)))
        built = [case for case in candidates if case.id not in self.checked]
        for case in built:
            if unfit := self.catalog.entries[case.variant.kernel].unfit(self._device, case.workload):
                self.checked[case.id] = Examined(case.id, *unfit)
        for case in candidates:
            if case.id in self.checked:
                self.observer(checked_event(case, self.checked[case.id]))
        pending = tuple(case for case in candidates if case.id not in self.checked)
        # Interpreters are slow, and a larger batch runs the same code.
        smallest = min((case.workload for case in self.cases), default=None) if self.gpu is None else None
        interpreted = tuple(case for case in built if case.workload == smallest and interpreter_of(case, self.catalog))
        self.observer(PhaseBegun("check", len(pending) + len(interpreted)))
        needed = _NEEDED_LATER if self.settings.looks else (*_NEEDED_LATER, _FOR_SAMPLES)
        threading.Thread(target=lambda: [*map(import_module, needed)], daemon=True).start()
        task = self._task(Phase.INTERPRET, interpreted)
        warm = self.warm is not None
        interpret = interpreting(self.catalog, task, self.folder.path, self.observer, self.interpreted, warm=warm)
        run_concurrently(partial(self._judge, pending, record), *interpret)

    def _judge(self, pending: tuple[Case, ...], record: Record, stop: threading.Event) -> None:
        shared = self.folder.path, worker_environment(self.gpu), self.observer, record
        preflight = Preflight(*shared, stop=stop, warm=self.warm is not None, waiting=self._waiting)
        preflight.on_first_start = partial(self._start_waiting, pending)
        tried = timing.forms_to_try(pending, self.forms, self.builds, archs_of(self.gpu))
        scenarios = scenarios_to_verify(self.op, self.cases)
        task = replace(self._task(Phase.EXAMINE, pending), forms=tried, scenarios=scenarios)
        for cases in timing.trusted_first(pending, self.catalog.entries):
            preflight.judge(replace(task, cases=cases), self.checked)
        share_with_controls(self.cases, self.checked)
        if preflight.started and self.gpu:
            described = self.info.machine.get("gpu") or GpuDocument()
            gpu: GpuDocument = {**described, "sms": preflight.started.sms, "l2_bytes": preflight.started.l2_bytes}
            self.info = replace(self.info, machine={**self.info.machine, "gpu": gpu})

    def _start_waiting(self, pending: Sequence[Case]) -> None:
        """Starts the workers that are needed next, which import while these cases are checked."""
        settings, entries = self.settings, self.catalog.entries
        groups, task = len(self._groups(pending)), self._task(Phase.WAIT, timing.trusted_python(pending, entries))
        measuring = groups + settings.processes - 1 if settings.until_clear else groups * settings.processes
        self._waiting.start(VERIFIER, task, len(timing.trusted_first(pending, entries)) - 1)
        self._waiting.start(timing.WORKER, task, 1 if settings.looks or settings.budget_s else measuring)

    def _take_chosen(self) -> None:
        """Takes the forms that the preflight chose; `run.json` has them before the first sample is taken."""
        chosen = timing.as_chosen(self.cases, self.checked)
        if chosen != self.cases:
            self.cases, self.info = chosen, replace(self.info, cases=case_documents(chosen))
            write_info(self.folder.path, self.info)

    def _measure(self, record: Record) -> None:
        healthy = tuple(case for case in self.cases if self._is_healthy(case))
        task, measuring = self._timing_task(healthy), self._measuring(record)
        warm_us = {case.id: self.checked[case.id].warm_us for case in healthy}
        blocks = self._blocks(healthy)
        for block in blocks:
            groups = self._groups(block)
            schedule = self._schedule(groups, len(blocks))
            probe = self._probe(block)
            while segment := schedule.next_segment(block, self.collected, task.samples, warm_us):
                self.observer(RaceStatus(segment.standing))
                targets = [Target(segment.cases, segment.rounds, self.collected, phase=segment.phase)]
                if probe:
                    targets.append(self._probe_target(probe, task))
                targets += self._clock_targets(segment)
                try:
                    timing.measure_groups(measuring, probe.task(task) if probe else task, groups, targets)
                finally:
                    if self.info.swept:  # a point with fewer rounds would count as dropped by the race
                        left = [case.id for case in segment.cases if case.id not in self.collected.lost]
                        self.collected.drop_incomplete_rounds(left)

    def _clock_targets(self, segment: Segment) -> Iterator[Target]:
        """The rounds by CUPTI in the same processes: a start of a process, and binding, take as long as the rounds."""
        settings = self.settings
        for clock in settings.clocks:
            if clock in READ_BY_NVBENCHS_WORKERS and not self.info.swept:
                share = 1.0 if settings.looks else segment.rounds / settings.rounds
                rounds = math.ceil(settings.clock_rounds * share)
                collected = self.clocked.setdefault(clock, Collected())
                yield Target(segment.cases, rounds, collected, clock, phase=clock, unless_lost=self.collected)

    def _schedule(self, groups: Sequence[Sequence[Case]], blocks: int) -> Schedule:
        """The schedule of a block of workloads, of which a race's `blocks` share the budget equally."""
        settings = self.settings
        if settings.looks:
            return SequentialSchedule(settings, self._device, self.weights, self.own_sds)
        if settings.budget_s is not None:
            limits = (settings.budget_s / blocks, settings.margin, settings.confidence)
            return Race(*limits, self._device, self.info.swept)
        if settings.until_clear and settings.processes > 1:
            return UntilClear(settings.rounds, settings.processes, groups, self._find_close)
        return FixedRounds(settings.rounds, settings.processes, groups)

    def _find_close(self, cases: Sequence[Case]) -> set[str]:
        timed: dict[Timer, Collected] = {"nvbench": self.collected}
        timed.update((clock, collected) for clock, collected in self.clocked.items())
        return find_close(self.op, cases, timed, self.checked, self.settings, self.apart)

    def _groups(self, cases: Sequence[Case]) -> tuple[tuple[Case, ...], ...]:
        """The cases that are measured together: for a race and a score, all in one process."""
        alone = self.info.swept or self.settings.looks
        return (tuple(cases),) if alone else timing.isolated_groups(cases, self.catalog.entries)

    def _blocks(self, cases: Sequence[Case]) -> tuple[tuple[Case, ...], ...]:
        settings = self.settings
        is_race = settings.budget_s and not settings.looks
        rounds = MOST_ROUNDS_A_SEGMENT if is_race else round_share(settings.rounds, settings.processes, 1)
        return memory_blocks(self.op, cases, 1 + rounds, settings.samples, self._memory_bytes, self._placed_bytes)

    @property
    def _placed_bytes(self) -> int:
        """Limit of a workload's tensors; with interim analyses all workloads are measured together."""
        together = len({case.workload.at("") for case in self.cases}) if self.settings.looks else 1
        return most_placed_bytes(self._memory_bytes // max(together, 1))

    @property
    def weights(self) -> dict[Workload, float]:
        """Weight of each workload in the joint verdict: that of its suite, else 1."""
        suite = suite_of(self.info)
        return dict(suite.weights) if suite else dict.fromkeys((case.workload for case in self.cases), 1.0)

    @property
    def own_sds(self) -> dict[str, float]:
        """Relative SD that a process adds to each case on a GPU beside the launch; unknown on a CPU."""
        return own_sds_of(self.op, self.cases, self.checked) if self.gpu else {}

    @property
    def _memory_bytes(self) -> int:
        memory = self.gpu.memory_bytes if self.gpu else 0
        return int(MEMORY_SHARE * memory) or CPU_MEMORY_BYTES

    def _read_clocks(self, record: Record) -> None:
        """Reads what processes of the run have not of the rounds by further clocks."""
        for clock in self.settings.clocks:
            timed = tuple(case for case in self.cases if self._is_healthy(case))
            if self.settings.looks and not any(case.role is Role.KERNEL for case in timed):
                return
            collected = self.clocked.setdefault(clock, Collected())
            for block in self._blocks(timed):
                task = replace(self._timing_task(block), clock=clock)
                groups, rounds, processes = self._groups(block), self.settings.clock_rounds, self.settings.processes
                if self.settings.until_clear and clock in READ_BY_NVBENCHS_WORKERS:
                    rounds, processes = round_share(rounds, processes, 1), 1
                rounds_left = FixedRounds(rounds, processes, groups)
                timing.read_clock(self._measuring(record), task, rounds_left, collected, groups)
            self.disqualify()

    def _probe(self, cases: Sequence[Case]) -> InputsProbe | None:
        """The probe of the inputs of some cases, on a GPU, but not for sweeps and scores."""
        if self.gpu is None or self.info.swept or self.settings.looks:
            return None
        probe = InputsProbe(self.op, [case for case in cases if self._is_healthy(case)])
        return probe if probe.cases else None

    def _probe_target(self, probe: InputsProbe, task: Task) -> Target:
        lost, origins, samples = self.collected, probe.origin_ids, probe.samples(task)
        rounds = min(PROBE_ROUNDS, self.settings.rounds)  # of a run of few rounds the probe would take most of the time
        return Target(
            probe.cases, rounds, self.probed, phase="inputs", unless_lost=lost, origins=origins, samples=samples
        )

    def _probe_inputs(self) -> None:
        """Measures what processes of the run have not of the rounds at the extremes of the inputs."""
        if not (probe := self._probe(self.cases)):
            return
        own = self._timing_task(tuple(probe.origins))
        task, target = probe.task(own), self._probe_target(probe, own)
        measuring = self._measuring(lambda _event: None)  # a resumed run measures them again
        for block in self._blocks(probe.cases):
            for cases in timing.trusted_first(block, self.catalog.entries):
                try:
                    measuring.measure(task, [replace(target, cases=cases)])
                except MachineError as error:
                    self.observer(NoteMade(f"inputs: {error.message}"))
        for lost in probe.losses(self.probed):
            self.collected.take(lost)

    def disqualify(self) -> None:
        """Takes the cases that a further clock found to cheat as lost to all."""
        for collected in self.clocked.values():
            for verdict in collected.cheated().values():
                self.collected.take(verdict)

    def _timing_task(self, cases: tuple[Case, ...]) -> Task:
        samples = {
            case.id: sample_count(self.settings.samples, self.checked[case.id].warm_us, self._device) for case in cases
        }
        launched = {case.id: self.checked[case.id].launched for case in cases}
        return replace(
            self._task(Phase.MEASURE, cases),
            samples=samples,
            launched=launched,
            plain=self.settings.plain,
            placed_bytes=self._placed_bytes,
            draw_key=self.draw_key,
        )

    def _measuring(self, record: Record) -> timing.TimingWorkers:
        shared = self.folder.path, worker_environment(self.gpu), self.observer, record
        return timing.TimingWorkers(*shared, self.warm, waiting=self._waiting)

    def _finish(self, interrupted: bool) -> Finished:
        self._phases.begin("analyse")
        analysis = analyse_run(self)
        info = final_info(self, analysis, interrupted=interrupted)
        info = replace(info, seconds=add_seconds(self.info.seconds, self._phases.seconds()))
        rows = build_rows(self.catalog, self.cases, archs_of(self.gpu), self.builds, self.interpreted)
        if info.swept:
            write_conclusions(self)
        path = write_run(self.folder, info, analysis, self.collected, rows, self.clocked)
        return Finished(path, info, analysis, interrupted)

    @property
    def apart(self) -> set[str]:
        """Ids of the cases that run Python of their own and are timed in separate processes."""
        return {case.id for case in self.cases if timing.is_apart(case, self.catalog.entries)}

    def _is_healthy(self, case: Case) -> bool:
        verdict = self.checked.get(case.id)
        return verdict is not None and verdict.status is Status.OK and case.id not in self.collected.lost

    def _task(self, phase: Phase, cases: tuple[Case, ...]) -> Task:
        return Task(
            phase=phase,
            device=self._device,
            roots=tuple(str(root) for root in self.catalog.roots),
            op=self.op.name,
            cases=cases,
            seed=self.settings.seed,
            step_limit_s=self.settings.step_limit_s,
            captured={each["profile"]: (each["path"], each["sha256"]) for each in self.info.inputs},
        )

    @property
    def _device(self) -> Device:
        return device_of(self.gpu)


def _append(journal: Journal, event: Event) -> None:
    if isinstance(event, Examined | Sampled | HostTimes | Tuned):
        journal.append(encode(event))
