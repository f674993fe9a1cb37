"""Checks cases in worker processes until each has its verdict, and gives the command that reproduces a failure."""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.resolve import find_op
from gdnbench.catalog.select import select_variants
from gdnbench.errors import ExitCode, MachineError
from gdnbench.measure.builds import ARCHS_WITHOUT_GPU, build_cases
from gdnbench.measure.exit_code import exit_code_of_statuses
from gdnbench.measure.protocol import (
    IMPORT_STEP,
    Event,
    Examined,
    Phase,
    PreflightVerdicts,
    Started,
    StepBegun,
    Task,
    checked_event,
)
from gdnbench.measure.request import Settings, captured_asked, device_of, sizes_of, slug_of, timed_at, workloads_asked
from gdnbench.measure.supervision import WorkerOutcome, run_concurrently, supervise, worker_environment
from gdnbench.model.case import Case
from gdnbench.model.gpu import CPU, Gpu
from gdnbench.model.kernel import CudaKernel, Kernel, TritonKernel
from gdnbench.model.op import VERIFY_SUITE
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.origin import command_origin
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone
from gdnbench.process.warm import WarmParent


@dataclass
class Preflight:
    """Checks cases in worker processes; a worker's death fails only the case that it was on.

    Attributes:
        folder: for task files and logs.
        record: called with every event.
        started: the worker's description of its device; None until one has started.
        stop: set by another thread to cancel the checks.
        label: part of file names, unique among preflights that share the folder.
        warm: the process to fork workers from; None starts each as a new process.
    """

    folder: Path
    environment: Mapping[str, str]
    observer: Observer
    record: Callable[[Event], None]
    started: Started | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    label: str = ""
    warm: WarmParent | None = None

    def judge(self, task: Task, checked: PreflightVerdicts) -> None:
        """Adds each verdict to `checked` as soon as it is known; raises MachineError if a worker ends without one."""
        attempts = count()
        while pending := tuple(case for case in task.cases if case.id not in checked):
            self._run_worker(replace(task, cases=pending), f"{task.phase}-{self.label}{next(attempts)}", checked)
            if not any(case.id in checked for case in pending):
                raise MachineError("a worker ended without a verdict", f"its log is in {self.folder}")

    def _run_worker(self, task: Task, name: str, checked: PreflightVerdicts) -> None:
        by_id = {case.id: case for case in task.cases}

        def take(event: Event) -> None:
            self.record(event)
            match event:
                case Started():
                    self.started = event
                case StepBegun(case=case_id, step=step) if case_id:
                    self.observer(StepChanged(f"{by_id[case_id].label} {by_id[case_id].workload}: {step}"))
                case Examined():
                    self._conclude(by_id[event.case], event, checked)
                case _:
                    pass

        outcome = supervise(task, self.folder, name, self.environment, take, self.stop, warm=self.warm)
        if outcome.loss:
            for case in _lost_with(by_id[outcome.case], outcome, task.cases, checked):
                loss = replace(outcome.loss, case=case.id)
                self.record(loss)
                self._conclude(case, loss, checked)

    def _conclude(self, case: Case, verdict: Examined, checked: PreflightVerdicts) -> None:
        checked[case.id] = verdict
        self.observer(checked_event(case, verdict))
        self.observer(UnitDone())


def _lost_with(lost: Case, outcome: WorkerOutcome, cases: Sequence[Case], checked: PreflightVerdicts) -> list[Case]:
    """The cases that a lost worker fails: its current one, or all of a kernel whose file it was importing."""
    if outcome.step != IMPORT_STEP:
        return [lost]
    return [case for case in cases if case.variant.kernel == lost.variant.kernel and case.id not in checked]


def share_with_controls(cases: Sequence[Case], checked: PreflightVerdicts) -> None:
    """Gives each control the verdict of its baseline, which is the same kernel."""
    baselines = {case.workload: checked[case.id] for case in cases if case.role is Role.BASELINE and case.id in checked}
    for case in cases:
        if case.role is Role.CONTROL and case.workload in baselines:
            checked[case.id] = replace(baselines[case.workload], case=case.id)


INTERPRETED = 2  # workloads of a series: interpreters are slow, and larger workloads run the same code
INTERPRETERS: Mapping[type[Kernel], str] = {
    TritonKernel: "Triton's interpreter",
    CudaKernel: "the interpreter of PTX",
}
"""The interpreters that run kernels without a GPU."""


@dataclass(frozen=True)
class Verification:
    """The results of a verification.

    Attributes:
        seed: of the inputs; the first kind of inputs uses it, each further kind the next number.
        interpreted: the interpreter that ran a case, by case id, without a GPU.
        compiled: ids of the cases that this machine can only compile: CUDA kernels that cannot be interpreted.
        sanitized: ids of the cases that also ran under compute-sanitizer.
        able: for kernels that refuse a workload, by label, a workload that they can do.
        captured: paths of captured inputs, by profile.
    """

    seed: int
    device: str
    cases: tuple[Case, ...]
    checked: PreflightVerdicts
    interpreted: Mapping[str, str]
    compiled: frozenset[str] = frozenset()
    sanitized: frozenset[str] = frozenset()
    able: Mapping[str, Workload] = field(default_factory=dict)
    captured: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> ExitCode:
        """3 for wrong numbers, 6 for a failed build, 8 for other failures, 5 if nothing could be verified here."""
        statuses = [verdict.status for verdict in self.checked.values()]
        return exit_code_of_statuses(statuses, statuses)


def verify_variants(
    catalog: Catalog,
    op: str,
    kernels: str,
    *,
    axes: str,
    suite: str = "",
    profiles: str = "",
    inputs: Path | None = None,
    seed: int | None,
    step_limit_s: float,
    gpu: Gpu | None,
    observer: Observer,
) -> Verification:
    """Verifies variants in worker processes.

    Without a GPU, Triton and CUDA kernels run in interpreters, by default at the smallest workloads alone, and CUDA
    kernels are compiled for Hopper and Blackwell. Raises UsageError for an invalid seed or limit, and GdnbenchError for
    unknown names or workloads, or a machine on which nothing works.
    """
    found = find_op(catalog, op)
    settings = Settings(seed=secrets.randbelow(2**31) if seed is None else seed, step_limit_s=step_limit_s)
    captured = captured_asked(found, inputs, axes, suite)
    sizes = sizes_of(captured) or workloads_asked(found, axes, suite, VERIFY_SUITE)
    workloads = timed_at(found, sizes, captured, profiles)
    variants = select_variants(catalog, op, kernels)
    cases = tuple(
        Case(catalog.at(variant, workload, slug_of(gpu))[1], workload) for workload in workloads for variant in variants
    )
    if gpu is None and not (axes or suite or captured):
        smallest = _smallest(workloads)
        cases = tuple(case for case in cases if case.workload in smallest or not interpreter_of(case, catalog))
    task = Task(
        phase=Phase.EXAMINE,
        device=device_of(gpu),
        roots=tuple(str(root) for root in catalog.roots),
        op=op,
        cases=cases,
        seed=settings.seed,
        step_limit_s=settings.step_limit_s,
        captured={each.profile: (str(each.path), each.sha256) for each in captured},
    )
    with tempfile.TemporaryDirectory(prefix="gdnbench-verify-") as folder:
        if gpu:
            verified = _verify_on_gpu(catalog, task, gpu, Path(folder), observer)
        else:
            verified = _verify_without_gpu(catalog, task, Path(folder), observer)
    paths = {each.profile: str(each.path) for each in captured}
    return replace(verified, able=_able_workloads(catalog, cases), captured=paths)


def _able_workloads(catalog: Catalog, cases: Sequence[Case]) -> dict[str, Workload]:
    """For kernels that refuse one of their workloads, by label, a workload of the suites that they can do, if any."""
    entries = {case: catalog.entries[case.variant.kernel] for case in cases}
    return {
        case.label: able
        for case, entry in entries.items()
        if entry.kernel.unable(case.workload) and (able := entry.able_workload())
    }


def _verify_on_gpu(catalog: Catalog, task: Task, gpu: Gpu, folder: Path, observer: Observer) -> Verification:
    builds = build_cases(catalog, task.cases, (gpu.arch,), task.step_limit_s, observer, disassembled=False)
    checked = builds.verdicts(task.cases, (gpu.arch,))
    rest = tuple(case for case in task.cases if case.id not in checked)
    observer(PhaseBegun("check", len(rest)))
    preflight = Preflight(folder, worker_environment(gpu), observer, _ignore)
    preflight.judge(replace(task, cases=rest), checked)
    return Verification(task.seed, gpu.name, task.cases, checked, {})


def _verify_without_gpu(catalog: Catalog, task: Task, folder: Path, observer: Observer) -> Verification:
    """Compiles, then checks and interprets at once, each kind of kernel in a worker of its own."""
    checked = _compile(catalog, task, observer)
    rest = [case for case in task.cases if case.id not in checked]
    interpreted = {case.id: told for case in rest if (told := interpreter_of(case, catalog))}
    observer(PhaseBegun("check", len(rest)))

    def check(stop: threading.Event) -> None:
        preflight = Preflight(folder, worker_environment(None), observer, _ignore, stop=stop)
        preflight.judge(replace(task, cases=others), checked)

    others = tuple(case for case in rest if case.id not in interpreted)
    interpret = interpreting(
        catalog, replace(task, phase=Phase.INTERPRET, cases=tuple(rest)), folder, observer, checked
    )
    run_concurrently(*([check] if others else []), *interpret)
    refused = {case.id for case in rest if catalog.entries[case.variant.kernel].kernel.unable(case.workload)}
    compiled = frozenset(id_ for id_ in interpreted.keys() - refused if checked[id_].status is Status.UNSUPPORTED)
    for id_ in compiled:
        checked[id_] = replace(checked[id_], reason=f"{_COMPILES}: {checked[id_].reason}")
    return Verification(task.seed, CPU, task.cases, checked, interpreted, compiled)


def interpreting(
    catalog: Catalog, task: Task, folder: Path, observer: Observer, checked: PreflightVerdicts
) -> list[Callable[[threading.Event], None]]:
    """Returns callables that interpret the task's kernels, those of each language in a worker of its own.

    Kernels without an interpreter are skipped; verdicts are added to `checked`.
    """

    def interpret(cases: tuple[Case, ...], label: str, stop: threading.Event) -> None:
        environment = worker_environment(None, interpret=True)
        preflight = Preflight(folder, environment, observer, _ignore, stop=stop, label=label)
        preflight.judge(replace(task, cases=cases), checked)

    parts: list[Callable[[threading.Event], None]] = []
    for kind, told in INTERPRETERS.items():
        cases = tuple(case for case in task.cases if interpreter_of(case, catalog) == told)
        if cases:
            parts.append(partial(interpret, cases, f"{kind.language}-"))
    return parts


def _compile(catalog: Catalog, task: Task, observer: Observer) -> PreflightVerdicts:
    """Returns the verdicts on the cases that do not compile."""
    builds = build_cases(catalog, task.cases, ARCHS_WITHOUT_GPU, task.step_limit_s, observer, disassembled=False)
    checked = builds.verdicts(task.cases, ARCHS_WITHOUT_GPU)
    for case in task.cases:
        if case.id in checked:
            observer(checked_event(case, checked[case.id]))
    return checked


_COMPILES = f"compiles for {' and '.join(ARCHS_WITHOUT_GPU)}"


def _ignore(_event: object) -> None:
    pass


def interpreter_of(case: Case, catalog: Catalog) -> str:
    """Returns the interpreter for the case, empty if it needs none or a module that it needs is missing."""
    entry = catalog.entries[case.variant.kernel]
    return "" if entry.missing() else INTERPRETERS.get(type(entry.kernel), "")


def _smallest(workloads: Sequence[Workload]) -> set[Workload]:
    """The `INTERPRETED` smallest workloads of each series."""
    return {
        workload
        for series in {workload.series for workload in workloads}
        for workload in sorted(workload for workload in workloads if workload.series == series)[:INTERPRETED]
    }


_NONE: Mapping[str, str] = MappingProxyType({})


def repeat_words(case: Case, seed: int, captured: Mapping[str, str] = _NONE) -> list[str]:
    """The command that verifies a case on the same inputs: `gdnbench verify decode-x --shape B=3 --seed 7`."""
    return ["gdnbench", "verify", case.label, *inputs_words(case.workload, captured), "--seed", str(seed)]


def rerun_words(case: Case, gpu: str, captured: Mapping[str, str] = _NONE) -> list[str]:
    """The command that measures a case again: `gdnbench run --kernel decode-x --shape B=3 --gpu h200`."""
    return ["gdnbench", "run", "--kernel", case.label, *inputs_words(case.workload, captured), "--gpu", gpu]


def inputs_words(workload: Workload, captured: Mapping[str, str]) -> list[str]:
    """Options for a workload and its inputs: `--shape B=3 --profile never`, or the captured file of the profile."""
    spec = workload.spec
    if path := captured.get(workload.profile):
        lists = {each.name for each in spec.lists}  # the file has them in full
        pairs = zip(workload.options[::2], workload.options[1::2], strict=True)
        shown = [word for pair in pairs if pair[1].partition("=")[0] not in lists for word in pair]
        elsewhere = command_origin()
        return ["--inputs", (elsewhere.inputs if elsewhere else "") or path, *shown]
    usual = workload.inputs == (spec.profile or next(iter(spec.profiles), ""))
    return [*workload.options, *([] if usual else ["--profile", workload.inputs])]
