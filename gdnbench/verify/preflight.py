"""Checks cases in worker processes until each has its verdict."""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

from gdnbench.analyse.exit_code import exit_code_of_statuses
from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.request import device_of, requested_captures, requested_workloads, sizes_of, slug_of, timed_at
from gdnbench.catalog.select import find_variant, resolve_op, select_variants
from gdnbench.codegen import ahead
from gdnbench.codegen.builds import ARCHS_WITHOUT_GPU, build_cases
from gdnbench.errors import ExitCode, MachineError, UsageError
from gdnbench.model.case import Case
from gdnbench.model.gpu import CPU, Gpu
from gdnbench.model.kernel import CudaKernel, CuteKernel, CutileKernel, Kernel, TritonKernel
from gdnbench.model.op import VERIFY_SUITE, Op
from gdnbench.model.sequences import HOW_TO_SAY, SequenceLayout, why_not_compared
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone
from gdnbench.process.warm import WarmParent
from gdnbench.store.journal import IMPORT_STEP, Event, Examined, PreflightVerdicts, Started, StepBegun, checked_event
from gdnbench.store.settings import Settings
from gdnbench.verify.moved_loads import moved_loads
from gdnbench.workers.supervision import WaitingWorkers, WorkerOutcome, run_concurrently, supervise, worker_environment
from gdnbench.workers.task import Phase, Task

WORKER = "gdnbench.verify"


@dataclass
class Preflight:
    """Checks cases in worker processes; a worker's death fails only the case that it was on.

    Task files and logs go to `folder`, with a `label` that is unique among preflights that share it. `record` is called
    with every event; `started` is the worker's description of its device. Another thread sets `stop` to cancel the
    checks. With `warm`, workers are forked from a process that stays up; those that are `waiting` come first.
    `on_first_start` is called once a worker has its libraries, which the next ones then load quickly.
    """

    folder: Path
    environment: Mapping[str, str]
    observer: Observer
    record: Callable[[Event], None] = lambda _event: None
    started: Started | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    label: str = ""
    warm: bool = False
    waiting: WaitingWorkers | None = None
    on_first_start: Callable[[], None] = lambda: None

    def judge(self, task: Task, checked: PreflightVerdicts) -> None:
        """Adds each verdict to `checked` as soon as it is known; raises MachineError if a worker ends without one."""
        attempts = count()
        while pending := tuple(case for case in task.cases if case.id not in checked):
            self._run_worker(replace(task, cases=pending), f"{task.phase}-{self.label}{next(attempts)}", checked)
            if not any(case.id in checked for case in pending):
                raise MachineError("a worker ended without a verdict", "see `gdnbench doctor`")

    def _run_worker(self, task: Task, name: str, checked: PreflightVerdicts) -> None:
        by_id = {case.id: case for case in task.cases}

        def take(event: Event) -> None:
            self.record(event)
            match event:
                case Started():
                    if self.started is None:
                        self.on_first_start()
                    self.started = event
                case StepBegun(case=case_id, step=step) if case_id:
                    self.observer(StepChanged(f"{by_id[case_id].label} {by_id[case_id].workload}: {step}"))
                case Examined():
                    self._conclude(by_id[event.case], event, checked)

        warm = WarmParent(self.environment) if self.warm else None
        outcome = supervise(WORKER, task, self.folder, name, self.environment, take, self.stop, warm, self.waiting)
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
    **dict.fromkeys((CudaKernel, CuteKernel, CutileKernel), "the interpreter of PTX"),
    TritonKernel: "Triton's interpreter",
}
"""The interpreters that run kernels without a GPU."""


@dataclass(frozen=True)
class Verification:
    """The results of a verification."""

    seed: int  # of the first kind of inputs; each further kind has the next number
    device: str
    cases: tuple[Case, ...]
    checked: PreflightVerdicts
    interpreted: Mapping[str, str]  # the interpreter that ran a case, by case id, without a GPU
    # Ids of the cases that this machine can only compile: CUDA kernels that cannot be interpreted
    compiled: frozenset[str] = frozenset()
    sanitized: frozenset[str] = frozenset()  # ids of the cases that also ran under compute-sanitizer
    # By label, a workload that a kernel can do which refuses another
    able: Mapping[str, Workload] = field(default_factory=dict)
    captured: Mapping[str, str] = field(default_factory=dict)  # paths of captured inputs, by profile
    quick: bool = False  # whether on one kind of inputs at one workload alone
    invariance: bool = False  # whether every kind of invariance was tested

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
    quick: bool = False,
    invariance: bool = False,
    path: str = "",
    step_limit_s: float,
    gpu: Gpu | None,
    observer: Observer,
    warm: bool = False,
) -> Verification:
    """Verifies variants in worker processes; with `quick` each on the inputs that are timed at its smallest workload.

    With `warm`, workers are forked from a process that stays up. With `invariance` every kind of invariance is tested;
    claimed ones always are. `path` is the label of another op's kernel of single steps, to
    compare with a call of it for each token.

    Without a GPU, Triton and CUDA kernels run in interpreters, by default at the smallest workloads alone, and CUDA
    kernels are compiled for Hopper and Blackwell. Raises UsageError for an invalid seed or limit, and GdnbenchError for
    unknown names or workloads, or a machine on which nothing works.
    """
    of_op = find_op(catalog, op)
    if invariance and (reason := why_not_compared(of_op)):
        raise UsageError(reason, HOW_TO_SAY)
    if path:
        _check_path(catalog, of_op, path)
    settings = Settings(seed=secrets.randbelow(2**31) if seed is None else seed, step_limit_s=step_limit_s)
    captured = requested_captures(of_op, inputs, axes, suite)
    sizes = sizes_of(captured) or requested_workloads(of_op, axes, suite, VERIFY_SUITE)
    workloads = timed_at(of_op, sizes, captured, profiles)
    variants = select_variants(catalog, op, kernels)
    cases = tuple(
        Case(catalog.at(variant, workload, slug_of(gpu))[1], workload) for workload in workloads for variant in variants
    )
    if quick:
        cases = tuple(_smallest_cases(catalog, cases))
    elif gpu is None and not (axes or suite or captured):
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
        scenarios={case.id: of_op.inputs_to_verify(case.workload)[:1] for case in cases} if quick else {},
        captured={each.profile: (str(each.path), each.sha256) for each in captured},
        invariance=invariance,
        path=path,
    )
    with tempfile.TemporaryDirectory(prefix="gdnbench-verify-") as folder:
        verified = judge_cases(catalog, task, gpu, Path(folder), observer, warm=warm)
    refusing = {
        case.label: catalog.entries[case.variant.kernel]
        for case in cases
        if catalog.entries[case.variant.kernel].kernel.unsupported_reason(case.workload)
    }
    able = {label: workload for label, entry in refusing.items() if (workload := entry.able_workload())}
    moved = {kernel: moved_loads(catalog, kernel) for kernel in {case.variant.kernel for case in cases}}
    for case in cases:
        if notes := moved[case.variant.kernel]:
            verdict = verified.checked[case.id]
            verified.checked[case.id] = replace(verdict, notes=(*verdict.notes, *notes))
    paths = {each.profile: str(each.path) for each in captured}
    return replace(verified, able=able, captured=paths, quick=quick, invariance=invariance)


def _check_path(catalog: Catalog, op: Op, label: str) -> None:
    """Raises UsageError unless a label names one kernel, of an op whose single steps compute what `op` does."""
    step = find_op(catalog, resolve_op(catalog, "", [label]))
    find_variant(catalog, step.name, label)
    inputs = {spec.name for spec in op.inputs}
    fits = not why_not_compared(step) and all(each.sequences and each.sequences.state for each in (op, step))
    if fits:
        fits = bool(SequenceLayout.of(op).token_axes) and not SequenceLayout.of(step).token_axes
    if not fits or {spec.name for spec in step.inputs} - inputs or set(step.scalars) - set(op.scalars):
        raise UsageError(
            f"--path: {step.name} is not a single step of {op.name}, with inputs and scalars of the same names",
            "a path is of prefill by a decode kernel, or of verify by a decode-pool kernel",
        )


def judge_cases(
    catalog: Catalog, task: Task, gpu: Gpu | None, folder: Path, observer: Observer, *, warm: bool
) -> Verification:
    """Compiles cases and has workers judge them; without a GPU, those of Triton and CUDA kernels in interpreters."""
    if gpu is None:
        return _verify_without_gpu(catalog, task, folder, observer, warm=warm)
    checked = _compile(catalog, task, (gpu.arch,), observer, _compared_cases(catalog, task, slug_of(gpu)))
    rest = tuple(case for case in task.cases if case.id not in checked)
    observer(PhaseBegun("check", len(rest)))
    preflight = Preflight(folder, worker_environment(gpu), observer, warm=warm)
    preflight.judge(replace(task, cases=rest), checked)
    return Verification(task.seed, gpu.name, task.cases, checked, {})


def _verify_without_gpu(catalog: Catalog, task: Task, folder: Path, observer: Observer, *, warm: bool) -> Verification:
    checked = _compile(catalog, task, ARCHS_WITHOUT_GPU, observer)
    rest = [case for case in task.cases if case.id not in checked]
    interpreted = {case.id: interpreter for case in rest if (interpreter := interpreter_of(case, catalog))}
    observer(PhaseBegun("check", len(rest)))

    def check(stop: threading.Event) -> None:
        preflight = Preflight(folder, worker_environment(None), observer, stop=stop, warm=warm)
        preflight.judge(replace(task, cases=others), checked)

    others = tuple(case for case in rest if case.id not in interpreted)
    interpret = interpreting(
        catalog, replace(task, phase=Phase.INTERPRET, cases=tuple(rest)), folder, observer, checked, warm=warm
    )
    run_concurrently(*([check] if others else []), *interpret)
    refused = {
        case.id for case in rest if catalog.entries[case.variant.kernel].kernel.unsupported_reason(case.workload)
    }
    compiled = frozenset(id_ for id_ in interpreted.keys() - refused if checked[id_].status is Status.UNSUPPORTED)
    for id_ in compiled:
        checked[id_] = replace(checked[id_], reason=f"{_COMPILES}: {checked[id_].reason}")
    return Verification(task.seed, CPU, task.cases, checked, interpreted, compiled)


def interpreting(
    catalog: Catalog, task: Task, folder: Path, observer: Observer, checked: PreflightVerdicts, *, warm: bool = False
) -> list[Callable[[threading.Event], None]]:
    """Returns callables that interpret kernels and add verdicts to `checked`, each with a worker for one language.

    A case is interpreted on all kinds of inputs; beyond a series' smallest workload, for wrong indices alone, on the
    first. Cases of one language are dealt out to as many workers as there are cores for it. With `warm`, workers are
    forked from a process that stays up.
    """
    by_language = {
        language: cases
        for interpreter, language in {text: kind.language for kind, text in INTERPRETERS.items()}.items()
        if (cases := tuple(case for case in task.cases if interpreter_of(case, catalog) == interpreter))
    }
    kinds = catalog.ops[task.op].inputs_to_verify
    first = {case.id: kinds(case.workload)[:1] for case in task.cases if not _is_whole(catalog, case, task.cases)}
    workers = max(1, ahead.build_processes() // max(1, len(by_language)))

    def interpret(cases: tuple[Case, ...], label: str, stop: threading.Event) -> None:
        environment = worker_environment(None, interpret=True)
        preflight = Preflight(folder, environment, observer, stop=stop, label=label, warm=warm)
        preflight.judge(replace(task, cases=cases, scenarios=first | task.scenarios), checked)

    return [
        partial(interpret, cases[place::workers], f"{language}-{place}-")
        for language, cases in by_language.items()
        for place in range(min(workers, len(cases)))
    ]


def _is_whole(catalog: Catalog, case: Case, cases: Sequence[Case]) -> bool:
    alike = (other.workload for other in cases if other.workload.series == case.workload.series)
    return case.workload == min(alike) and not catalog.entries[case.variant.kernel].kernel.floor


def _compared_cases(catalog: Catalog, task: Task, gpu: str) -> tuple[Case, ...]:
    """The further cases that tests of invariance launch, to be compiled in parallel with the task's own."""
    if not task.invariance:
        return ()
    further, layout = dict[Case, None](), SequenceLayout.of(catalog.ops[task.op])
    for case in task.cases:
        _, named = find_variant(catalog, task.op, case.variant.label)
        variants = {variant for _, variant in catalog.entries[case.variant.kernel].changed(case.variant)}
        variants |= {catalog.at(named, other, gpu)[1] for other in layout.other_sizes(case.workload)}
        further |= dict.fromkeys(Case(variant, case.workload) for variant in variants)
        for other in layout.compared_sizes(case.workload):
            further[Case(catalog.at(named, other, gpu)[1], other)] = None
    return tuple(further)


def _compile(
    catalog: Catalog, task: Task, archs: Sequence[str], observer: Observer, further: Sequence[Case] = ()
) -> PreflightVerdicts:
    cases = (*task.cases, *further)
    builds = build_cases(catalog, cases, archs, task.step_limit_s, observer, disassembled=False)
    checked = builds.verdicts(task.cases, archs)
    for case in task.cases:
        if case.id in checked:
            observer(checked_event(case, checked[case.id]))
    return checked


_COMPILES = f"compiles for {' and '.join(ARCHS_WITHOUT_GPU)}"


def interpreter_of(case: Case, catalog: Catalog) -> str:
    """Returns the interpreter for the case, empty if it needs none or a module that it needs is missing."""
    entry = catalog.entries[case.variant.kernel]
    return "" if entry.missing() else INTERPRETERS.get(type(entry.kernel), "")


def _smallest_cases(catalog: Catalog, cases: Sequence[Case]) -> Iterator[Case]:
    """Of each variant the case at its smallest workload, among those that it can do if there are any."""
    by_label: dict[str, list[Case]] = {}
    for case in cases:
        by_label.setdefault(case.label, []).append(case)
    for alike in by_label.values():
        able = [
            case for case in alike if not catalog.entries[case.variant.kernel].kernel.unsupported_reason(case.workload)
        ]
        yield min(able or alike, key=lambda case: case.workload)


def _smallest(workloads: Sequence[Workload]) -> set[Workload]:
    return {
        workload
        for series in {workload.series for workload in workloads}
        for workload in sorted(workload for workload in workloads if workload.series == series)[:INTERPRETED]
    }


FEW_WORKLOADS = 8
"""Most workloads that are each verified in all scenarios. With more, four others come up at two workloads or more."""


def scenarios_to_verify(op: Op, cases: Sequence[Case]) -> dict[str, tuple[str, ...]]:
    """The scenarios in which each case is verified, by case id; empty if all are verified in all.

    A workload that is timed in several profiles meets all its scenarios in one of them, and in the others only the
    timed one. `cases` are all of the run, so that scenarios do not depend on which cases are left to do.
    """
    workloads = list(dict.fromkeys(case.workload for case in cases))
    sizes = list(dict.fromkeys(workload.at("") for workload in workloads))
    kinds = {workload: op.inputs_to_verify(workload) for workload in workloads}
    if len(sizes) > FEW_WORKLOADS:
        for workload in workloads:
            timed, *others = kinds[workload]
            if others:
                kinds[workload] = (timed, others[sizes.index(workload.at("")) % len(others)])
    elif len(sizes) == len(workloads):
        return {}
    first = {workload.at(""): workload for workload in reversed(workloads)}
    again = {workload for workload in workloads if workload != first[workload.at("")]}
    return {case.id: kinds[case.workload][: 1 if case.workload in again else None] for case in cases}
