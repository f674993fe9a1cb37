"""Opens a run: a new one from a request, or one that was stopped."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from gdnbench.bench.environment import slug_of
from gdnbench.bench.observer import Observer
from gdnbench.bench.plan import Plan, make_plan
from gdnbench.bench.request import Request
from gdnbench.bench.resume import load_unfinished
from gdnbench.bench.session import Session
from gdnbench.catalog import Catalog
from gdnbench.codec import convert
from gdnbench.errors import MachineError
from gdnbench.machine import describe_machine, git_state, list_gpus, read_state, select_gpu
from gdnbench.model import Gpu
from gdnbench.store import RunFolder, RunInfo, run_id_of, suite_document, write_info
from gdnbench.store.schema import CaseDocument, GitDocument, MachineDocument


def begin_session(catalog: Catalog, request: Request, gpu: Gpu | None, results: Path, observer: Observer) -> Session:
    """Plans a new run and claims its folder.

    Args:
        catalog: what there is.
        request: what to measure.
        gpu: where; None for the CPU.
        results: the folder that holds runs.
        observer: told of every step.

    Raises:
        GdnbenchError: for a baseline or a clock that cannot be had, or a results folder that cannot be written.
    """
    if request.settings.clocks and gpu is None:
        wanted = ", ".join(request.settings.clocks)
        raise MachineError(f"--timer {wanted}: there is no second clock without a GPU", "leave --timer out")
    plan = make_plan(catalog, request, gpu)
    now = datetime.now(UTC)
    folder = RunFolder.create(results, run_id_of(now, slug_of(gpu), request.op.name, request.label))
    info = _describe(catalog, request, gpu, plan, folder.run_id, now)
    write_info(folder.path, info)
    return Session(catalog, request.op, gpu, plan.cases, request.settings, folder, info, observer)


def resume_session(catalog: Catalog, results: Path, run: str, observer: Observer) -> Session:
    """Takes up a run that was stopped, on the GPU where it began.

    Raises:
        GdnbenchError: if there is no such run, it is whole, its kernels have changed, or its GPU is not here.
    """
    resumed = load_unfinished(results, run, catalog)
    info, described = resumed.info, resumed.info.machine["gpu"]
    gpu = select_gpu(described["uuid"] if described else "cpu", list_gpus())
    folder = RunFolder.reopen(resumed.path)
    op = catalog.ops[info.op]
    settings, collected, clocked = resumed.settings, resumed.collected, resumed.clocked
    return Session(catalog, op, gpu, resumed.cases, settings, folder, info, observer, collected, clocked)


def _describe(catalog: Catalog, request: Request, gpu: Gpu | None, plan: Plan, run_id: str, now: datetime) -> RunInfo:
    # A label is a dispatcher's name where one picked: its table is part of what was measured.
    names = {name for case in plan.cases for name in (case.variant.kernel, case.variant.label)}
    entries = {name: catalog.entries[name] for name in sorted(names & catalog.entries.keys())}
    return RunInfo(
        run_id=run_id,
        timestamp=now.isoformat(timespec="seconds"),
        complete=False,
        command=request.command,
        op=request.op.name,
        gpu=slug_of(gpu),
        label=request.label,
        baseline=plan.baseline,
        settings=asdict(request.settings),
        swept={kernel: list(names) for kernel, names in request.swept.items()},
        suite=suite_document(request.suite) if request.suite else None,
        cases=convert([case.to_dict() for case in plan.cases], list[CaseDocument]),
        machine=convert(describe_machine(gpu), MachineDocument),
        git=convert(git_state(catalog.op_folders[request.op.name]), GitDocument),
        sources={name: entry.known_source() for name, entry in entries.items()},
        warnings=[*plan.notes, *_left_out(catalog), *_company(gpu)],
    )


def _left_out(catalog: Catalog) -> list[str]:
    return [f"{broken.name} is left out, for it does not load: {broken.reason}" for broken in catalog.broken]


def _company(gpu: Gpu | None) -> list[str]:
    """A warning if other processes hold the GPU: their work is in our times."""
    others = read_state(gpu).processes if gpu else ()
    if not others:
        return []
    names = ", ".join(f"{process.name or 'process'} ({process.pid})" for process in others or ())
    return [f"other processes are on the GPU: {names}; times may be inflated"]
