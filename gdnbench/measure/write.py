"""Analyses a run, writes its files, and gives its folder its final name."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from gdnbench.analyse.analysis import Analysis, analyse, contradictions, with_clocks, without_verdicts
from gdnbench.analyse.conclude import conclude
from gdnbench.analyse.rounds import Collected
from gdnbench.catalog.catalog import Catalog
from gdnbench.machine.gpus import spec_of
from gdnbench.measure.inputs import effects_of_inputs
from gdnbench.model.case import Case
from gdnbench.model.gpu import Build
from gdnbench.model.status import Clock, Role, Status
from gdnbench.store.files import RunFolder, drop_journal
from gdnbench.store.info import RunInfo, failed_gates, held_claims, largest_errors, passed_gates, write_info
from gdnbench.store.journal import Examined
from gdnbench.store.measurements import contest_errors, write_measurements
from gdnbench.store.samples import RoundSamples, write_rounds, write_samples
from gdnbench.store.tables import BuildRow, LaunchRow, write_builds, write_launches, write_sweep

if TYPE_CHECKING:
    from gdnbench.measure.run import Session


def analyse_run(session: Session) -> Analysis:
    """Turns a run's samples into rows; a case that one clock finds too fast, or to cheat, has no time by any."""
    # Implausible by a further clock: no time by any, since the launch in the run's own hides work that is left out.
    session.disqualify()  # also by what an earlier part of the run has found
    analysis = _analyse_clocks(session)
    lost = [
        Examined(row.case.id, row.status, f"by {row.clock}: {row.reason}")
        for row in analysis.clocks
        if row.status is Status.IMPLAUSIBLE
    ]
    by_cupti = [row for row in analysis.clocks if row.clock == "cupti"]
    contradicted = contradictions(analysis.measurements, by_cupti)
    lost += [Examined(id_, Status.TAMPERS, why) for id_, why in contradicted.items() if id_ in session.apart]
    for verdict in lost:
        session.collected.take(verdict)
    analysis = _analyse_clocks(session) if lost else analysis
    return without_verdicts(analysis, {id_: why for id_, why in contradicted.items() if id_ not in session.apart})


def _analyse_clocks(session: Session) -> Analysis:
    builds: dict[str, Build] = {}
    warnings = [_form_notes(session.catalog, session.cases)]
    if session.gpu:
        builds = {case.id: build for case in session.cases if (build := session.builds.of(case, session.gpu.arch))}
        warnings.append(session.builds.serialized_warnings(session.cases, session.gpu.arch))
    judge = partial(
        analyse,
        session.op,
        checked=session.checked,
        builds=builds,
        settings=session.settings,
        run_id=session.info.run_id,
        rated=spec_of(session.gpu.slug) if session.gpu else None,
        copying={name for name, entry in session.catalog.entries.items() if entry.kernel.floor == "copy"},
        warnings=warnings,
        apart=session.apart,
    )
    own = judge(cases=session.cases, collected=session.collected, timer="nvbench" if session.gpu else "cpu")
    timed = [row.case for row in own.measurements if row.timing]
    effects = effects_of_inputs(session.op, timed, session.collected, session.probed, session.settings)
    rows = (replace(row, inputs=effects.get(row.case.id)) for row in own.measurements)
    own = replace(own, measurements=tuple(rows))
    clocked = {clock: session.clocked.get(clock, Collected()) for clock in session.settings.clocks}
    return with_clocks(
        own, {clock: judge(cases=timed, collected=clocked[clock], timer=clock, clock=clock) for clock in clocked}
    )


def _form_notes(catalog: Catalog, cases: Sequence[Case]) -> dict[str, str]:
    """Notes on floors that are measured in another form than the one declared for their workload, by case id."""
    notes = {}
    for case in cases:
        declared, *others = catalog.entries[case.variant.kernel].forms(case.variant, case.workload)
        if others and case.variant.params != declared.params:
            notes[case.id] = f"as {case.variant.params}, faster here than as declared"
    return notes


def final_info(session: Session, analysis: Analysis, *, interrupted: bool) -> RunInfo:
    """The description of a run that ends, with what its checks and its analysis found."""
    unfinished = any(row.status is Status.NOT_RUN for row in analysis.measurements)
    gates = {case_id: verdict.gates for case_id, verdict in session.checked.items()}
    kernels = {case.id: case.label for case in session.cases if case.role is not Role.CONTROL}
    contest = {case_id: verdict.contest_error for case_id, verdict in session.checked.items()}
    claims = {case_id: verdict.invariance for case_id, verdict in session.checked.items()}
    return replace(
        session.info,
        complete=not interrupted and not unfinished and session.measured_all,
        gates=failed_gates(gates),
        gates_passed=passed_gates(gates),
        errors=largest_errors(gates, kernels),
        contest=contest_errors(contest, kernels),
        claims=held_claims(claims, kernels),
        tuned={case_id: sorted(choices) for case_id, choices in session.collected.tuned.items()},
        warnings=list(dict.fromkeys((*session.info.warnings, *analysis.warnings))),
    )


def write_conclusions(session: Session) -> None:
    """Writes those of a sweep, without points that an earlier part measured and the preflight now refuses."""
    refused = {case_id for case_id, verdict in session.checked.items() if verdict.status is not Status.OK}
    samples = {id_: rounds for id_, rounds in session.collected.samples.items() if id_ not in refused}
    collected = replace(session.collected, samples=samples)
    swept = conclude(session.catalog, session.cases, session.info.swept, collected, session.settings)
    write_sweep(session.folder.path, swept)


def write_run(
    folder: RunFolder,
    info: RunInfo,
    analysis: Analysis,
    collected: Collected,
    builds: Sequence[BuildRow],
    clocked: Mapping[Clock, Collected],
) -> Path:
    """Writes a run's files, and removes the journal if it is complete; returns the folder's final name."""
    write_measurements(folder.path, info, analysis.rows)
    write_rounds(folder.path, analysis.rounds)
    write_builds(folder.path, builds)
    write_launches(folder.path, list(_launches(clocked.get("cupti", Collected()))))
    if not info.settings.get("looks"):  # of a score nothing is stored that is not read at once
        write_samples(folder.path, _samples(collected))
        for clock, of_clock in clocked.items():
            write_samples(folder.path, _samples(of_clock), clock)
    _pack_timer_records(folder.path / "nvbench")
    write_info(folder.path, info)
    # Last: a process killed before this point leaves all that --resume needs.
    if info.complete:
        drop_journal(folder.path)
        if not any(row.status.is_failure for row in analysis.rows):
            for pattern in ("examine-*", "interpret-*", "measure-*", "wait-*"):
                for path in folder.path.glob(pattern):
                    path.unlink()
    return folder.finish()


def _launches(collected: Collected) -> Iterator[LaunchRow]:
    for case_id, rounds in collected.samples.items():
        by_function: dict[str, list[float]] = {}
        for sampled in rounds.values():
            for function, time_us in sampled.functions_us.items():
                by_function.setdefault(function, []).append(time_us)
        for function, times_us in by_function.items():
            yield LaunchRow(case=case_id, function=function, rounds=len(times_us), time_us=median(times_us))


def _samples(collected: Collected) -> Iterator[RoundSamples]:
    for case_id, rounds in collected.samples.items():
        for number, sampled in sorted(rounds.items()):
            times_us, places = np.asarray(sampled.times_us), (sampled.placements, sampled.output_placements)
            yield RoundSamples(case_id, number, times_us, sampled.sm_mhz, *places)


def _pack_timer_records(folder: Path) -> None:
    """Compresses NVBench's JSON (13 KB a state, to a thirtieth); its sample files are in the parquet file already."""
    for record in folder.glob("*.json"):
        if record.stat().st_size:
            with record.open("rb") as source, gzip.open(f"{record}.gz", "wb") as target:
                shutil.copyfileobj(source, target)
        record.unlink()
    for samples in folder.glob("*-bin"):
        shutil.rmtree(samples)
    with suppress(OSError):  # it is not there, or not empty
        folder.rmdir()
