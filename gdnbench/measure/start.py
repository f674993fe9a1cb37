"""Opens a run: a new one, or a stopped one."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gdnbench.analyse.analysis import is_of_times
from gdnbench.analyse.rounds import Collected
from gdnbench.catalog.captured import document_of, find_again
from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.request import slug_of
from gdnbench.codec import convert
from gdnbench.errors import GpuNotFoundError, MachineError, RunFormatError, UsageError
from gdnbench.functions.reference import names_functions
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.machine.provenance import describe_machine, git_state, host_name, library_versions, read_state
from gdnbench.measure.plan import Plan
from gdnbench.measure.run import Session
from gdnbench.model.case import Case, key_of, same_sources
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Clock
from gdnbench.process.events import Observer
from gdnbench.process.warm import WarmParent
from gdnbench.store.calibration import last_calibration
from gdnbench.store.files import RunFolder, read_journal, run_id_of
from gdnbench.store.find import find_newest, name_runs
from gdnbench.store.info import RunInfo, case_documents, read_info, suite_document, write_info
from gdnbench.store.journal import BURN_IN, Event, Examined, Sampled, decode
from gdnbench.store.schema import CalibrationDocument, GitDocument, MachineDocument
from gdnbench.store.settings import Settings, settings_of
from gdnbench.workers.supervision import worker_environment


def begin_session(catalog: Catalog, plan: Plan, results: Path, observer: Observer) -> Session:
    """Begins a run and claims its folder in `results`; GdnbenchError if the clock or folder cannot be had."""
    request, gpu = plan.request, plan.gpu
    if request.settings.clocks and gpu is None:
        wanted = ", ".join(request.settings.clocks)
        raise MachineError(f"--timer {wanted}: there is no second clock without a GPU", "leave --timer out")
    now = datetime.now(UTC)
    folder = RunFolder.create(results, run_id_of(now, slug_of(gpu), request.op.name, request.label))
    try:
        info = _describe(catalog, plan, folder.run_id, now)
        write_info(folder.path, info)
    except BaseException:  # no verb would see a folder without its description
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return Session(catalog, request.op, gpu, plan.cases, request.settings, folder, info, observer, warm=_warm(gpu))


def resume_session(
    catalog: Catalog, results: Path, run: str, observer: Observer, inputs: Path | None = None
) -> Session:
    """Resumes a stopped run, by its id, the start of that, or its folder, on the GPU where it began.

    `inputs` is where its captured inputs are now, None if they have not moved. Raises GdnbenchError if the run is
    unknown or complete, what it measures has changed, or its GPU is not here.
    """
    resumed = load_unfinished(results, run, catalog)
    captured = find_again(resumed.info.inputs, inputs, resumed.info.run_id)
    info, described = replace(resumed.info, inputs=captured), resumed.info.machine["gpu"]
    try:
        gpu = select_gpu(described["uuid"] if described else "cpu", list_gpus())
    except GpuNotFoundError as error:
        target = info.machine.get("target")
        raise GpuNotFoundError(
            error.message, f"it began on another machine: --on {target}" if target else error.hint
        ) from error
    if changed := library_change(info):
        raise UsageError(f"{changed} since {info.run_id} began", "start a new run, or install what it began with")
    folder = RunFolder.reopen(resumed.path)
    op = catalog.ops[info.op]
    settings, collected, clocked = resumed.settings, resumed.collected, resumed.clocked
    cases = resumed.cases
    return Session(catalog, op, gpu, cases, settings, folder, info, observer, collected, clocked, warm=_warm(gpu))


def _warm(gpu: Gpu | None) -> WarmParent | None:
    """The process from which a GPU's workers are forked, since importing torch would be most of their start."""
    return WarmParent(worker_environment(gpu)) if gpu else None


def _describe(catalog: Catalog, plan: Plan, run_id: str, now: datetime) -> RunInfo:
    request, gpu = plan.request, plan.gpu
    # A label may be a dispatcher's name, and the dispatcher's table is part of what is measured.
    names = {name for case in plan.cases for name in (case.variant.kernel, case.variant.label)}
    entries = {name: catalog.entries[name] for name in sorted(names & catalog.entries.keys())}
    left_out = [f"{broken.name} is left out, for it does not load: {broken.reason}" for broken in catalog.broken]
    return RunInfo(
        run_id=run_id,
        timestamp=now.isoformat(timespec="seconds"),
        complete=False,
        command=request.command,
        op=request.op.name,
        gpu=slug_of(gpu),
        label=request.label,
        baseline=plan.baseline,
        baseline_named=any(variant.label == plan.baseline for variant in request.variants) and not request.swept,
        settings=asdict(request.settings),
        swept={kernel: list(names) for kernel, names in request.swept.items()},
        suite=suite_document(request.suite) if request.suite else None,
        workloads=request.op.workloads,
        op_hash=catalog.op_hash(request.op.name),
        cases=case_documents(plan.cases),
        machine=convert(describe_machine(gpu), MachineDocument),
        git=convert(git_state(catalog.op_folders[request.op.name]), GitDocument),
        sources={name: entry.known_source() for name, entry in entries.items()},
        calibration=_last_calibration(gpu),
        inputs=[document_of(each) for each in request.captured],
        warnings=[*plan.notes, *left_out, *_other_processes(gpu)],
    )


def _last_calibration(gpu: Gpu | None) -> CalibrationDocument | None:
    try:
        calibration = last_calibration(host_name(), gpu.slug) if gpu else None
    except RunFormatError:
        return None
    return calibration.summary if calibration else None


def _other_processes(gpu: Gpu | None) -> list[str]:
    others = (read_state(gpu).processes if gpu else None) or ()
    names = ", ".join(f"{process.name or 'process'} ({process.pid})" for process in others)
    return [f"other processes are on the GPU: {names}; times may be inflated"] if names else []


@dataclass(frozen=True)
class Resumed:
    """An unfinished run, from its folder and journal: samples of its own timer (`collected`) and further clocks."""

    path: Path
    info: RunInfo
    settings: Settings
    cases: tuple[Case, ...]
    collected: Collected
    clocked: dict[Clock, Collected]


def load_unfinished(results: Path, wanted: str, catalog: Catalog) -> Resumed:
    """Reads the journal of an unfinished run, without the warnings of its description that concern its times.

    Cases that killed their worker are tried again, except in a race, where the others are ahead of them, and except for
    those that cheated. Raises UnknownNameError if there is no such run, and UsageError if it is complete, or a kernel
    or the op has changed since.
    """
    named = name_runs(results, wanted, stopped=True)
    path = named.runs[0] if named.is_one else find_newest(named.runs, lambda folder: not read_info(folder).complete)
    info = read_info(path)
    if info.complete:
        raise UsageError(f"{info.run_id} is complete: there is nothing to resume", f"gdnbench show {info.run_id}")
    cases = tuple(Case.from_dict(case, info.workloads) for case in info.cases)
    of_revision = any(case.variant.is_of_revision for case in cases)
    if of_revision or names_functions([info.command]):
        what = "git revisions" if of_revision else "functions"
        raise UsageError(f"{info.run_id} measures {what}, and is not resumed", f"begin it anew: {info.command}")
    info = replace(info, warnings=[warning for warning in info.warnings if not is_of_times(warning)])
    if changed := source_change(info, catalog):  # a run must not mix two versions of a kernel
        raise UsageError(f"{changed} since {info.run_id} began", "start a new run")
    settings = settings_of(info)
    try:
        events = [decode(line) for line in read_journal(path)]
    except ValueError as error:
        raise RunFormatError(f"the journal in {path} is damaged: {error}", "measure anew") from error
    collected = _replay(event for event in events if not _clock(event))
    if not (info.swept and any(collected.samples.values())):
        collected.lost = collected.cheated()
    clocked = {clock: _replay(event for event in events if _clock(event) == clock) for clock in settings.clocks}
    for each in clocked.values():
        each.lost = each.cheated()
    return Resumed(path, info, settings, cases, collected, clocked)


def _clock(event: Event) -> str:
    return event.clock if isinstance(event, Examined | Sampled) else ""


def _replay(events: Iterable[Event]) -> Collected:
    """The samples of a journal. Each worker begins with a burn-in of its cases; its incomplete round is dropped."""
    collected = Collected()
    worker_cases: set[str] = set()  # of the current worker
    in_burn_in = False
    for event in events:
        if isinstance(event, Sampled):
            if event.round == BURN_IN and not in_burn_in:
                _drop_incomplete(collected, worker_cases)
                worker_cases = set()
            in_burn_in = event.round == BURN_IN
            worker_cases |= {event.case} if in_burn_in else set()
        collected.take(event)
    _drop_incomplete(collected, worker_cases)
    return collected


def _drop_incomplete(collected: Collected, worker_cases: set[str]) -> None:
    workloads = {key_of(case_id) for case_id in worker_cases}
    others = [each for each in collected.samples if each not in worker_cases and key_of(each) in workloads]
    collected.drop_incomplete_rounds(worker_cases - collected.lost.keys(), others)


def source_change(info: RunInfo, catalog: Catalog) -> str:
    """Names the first kernel, or the op, that has changed since the run; empty if none has."""
    for name, source_hash in info.sources.items():
        entry = catalog.entries.get(name)
        if entry is None or not same_sources(entry.known_source(), source_hash):
            return f"{name} {'is gone' if entry is None else 'has changed'}"
    if info.op_hash and info.op in catalog.ops and catalog.op_hash(info.op) != info.op_hash:
        return f"what {info.op} says of inputs and gates has changed"  # other inputs may take other times
    return ""


def library_change(info: RunInfo) -> str:
    """Names the first library whose version has changed since the run; empty if none has."""
    now = library_versions()
    for name, version in info.machine.get("versions", {}).items():
        if name in now and now[name] != version:
            return f"{name} has changed from {version or 'none'} to {now[name] or 'none'}"
    return ""
