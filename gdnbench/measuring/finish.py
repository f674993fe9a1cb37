"""Writes a run's files and gives its folder its final name."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from gdnbench.errors import ExitCode, MachineError
from gdnbench.measuring.analyse import Analysis
from gdnbench.measuring.rounds import Collected
from gdnbench.model.gpu import CPU
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Clock, Role, Status
from gdnbench.stats.interval import Verdict
from gdnbench.store.builds import BuildRow, LaunchRow, write_builds, write_launches
from gdnbench.store.files import RunFolder, drop_journal
from gdnbench.store.info import RunInfo, write_info
from gdnbench.store.measurements import write_measurements
from gdnbench.store.samples import RoundSamples, write_rounds, write_samples


def write_run(
    folder: RunFolder,
    info: RunInfo,
    analysis: Analysis,
    collected: Collected,
    builds: Sequence[BuildRow],
    clocked: Mapping[Clock, Collected] | None = None,
) -> Path:
    """Writes all files of a run; returns the folder under its final name.

    For a complete run the journal is removed, and, unless a case failed, the workers' task files and logs.
    """
    write_measurements(folder.path, info, analysis.rows)
    write_rounds(folder.path, analysis.rounds)
    write_builds(folder.path, builds)
    write_launches(folder.path, list(_launches((clocked or {}).get("cupti", Collected()))))
    write_samples(folder.path, _samples(collected))
    for clock, found in (clocked or {}).items():
        write_samples(folder.path, _samples(found), clock)
    _pack_timer_records(folder.path / "nvbench")
    write_info(folder.path, info)
    # Last: a process killed before this point leaves all that --resume needs.
    if info.complete:
        drop_journal(folder.path)
        if not any(row.status.is_failure for row in analysis.rows):
            _drop_worker_files(folder.path)
    return folder.finish()


def _launches(collected: Collected) -> Iterator[LaunchRow]:
    """The CUPTI times of each case's functions, in the order in which a call launches them."""
    for case_id, rounds in collected.samples.items():
        found: dict[str, list[float]] = {}
        for sampled in rounds.values():
            for function, time_us in sampled.functions_us.items():
                found.setdefault(function, []).append(time_us)
        for function, times_us in found.items():
            yield LaunchRow(case=case_id, function=function, rounds=len(times_us), time_us=median(times_us))


def _samples(collected: Collected) -> Iterator[RoundSamples]:
    for case_id, rounds in collected.samples.items():
        for number, sampled in sorted(rounds.items()):
            yield RoundSamples(
                case_id,
                number,
                np.asarray(sampled.times_us),
                sampled.sm_mhz,
                sampled.placements,
                sampled.output_placements,
            )


def _pack_timer_records(folder: Path) -> None:
    """Compresses NVBench's JSON (13 KB a state, to a thirtieth); its sample files are in the parquet file already."""
    if not folder.is_dir():
        return
    for record in folder.glob("*.json"):
        if record.stat().st_size:
            with record.open("rb") as source, gzip.open(f"{record}.gz", "wb") as target:
                shutil.copyfileobj(source, target)
        record.unlink()
    for samples in folder.glob("*-bin"):
        shutil.rmtree(samples)
    if not any(folder.iterdir()):
        folder.rmdir()


def _drop_worker_files(folder: Path) -> None:
    for path in (*folder.glob("examine-*"), *folder.glob("interpret-*"), *folder.glob("measure-*")):
        path.unlink()


# Gravest first: wrong numbers are worse than a kernel that did not build.
_GRAVITY = (ExitCode.WRONG_NUMBERS, ExitCode.BUILD, ExitCode.PARTIAL)


def exit_code_of(measurements: Iterable[Measurement], *, interrupted: bool, baseline_named: bool = False) -> ExitCode:
    """The exit code of a run: the gravest failure, else ENVIRONMENT if nothing asked for can run, else NOISY or OK.

    NOISY means that the A/A pair differs. Without a GPU that is only a warning: other programs share the CPU, and
    nobody tunes these kernels for it. `baseline_named`: the user named the baseline among the kernels.
    """
    rows = list(measurements)
    if interrupted:
        return ExitCode.INTERRUPTED
    code = exit_code_of_statuses(
        [row.status for row in rows], [row.status for row in asked_for(rows, baseline_named=baseline_named)]
    )
    noisy = any(_contradicts(row) for row in rows)
    return ExitCode.NOISY if noisy and code is ExitCode.OK else code


def exit_code_of_statuses(statuses: Iterable[Status], asked: Collection[Status]) -> ExitCode:
    """The gravest failure of all cases, else ENVIRONMENT (5) if none of those that the user named could run."""
    impossible = bool(asked) and Status.OK not in asked
    return gravest(statuses) or (ExitCode.ENVIRONMENT if impossible else ExitCode.OK)


def refuse_nothing_measured(
    code: ExitCode, measurements: Iterable[Measurement], *, baseline_named: bool = False
) -> None:
    """Raises MachineError, after the table, if nothing the user named has a time and no graver failure is reported."""
    if code is not ExitCode.ENVIRONMENT:
        return
    reasons: dict[str, list[str]] = {}
    for row in asked_for(measurements, baseline_named=baseline_named):
        reasons.setdefault(row.reason, []).append(row.case.variant.kernel)
    told = "; ".join(f"{', '.join(dict.fromkeys(kernels))}: {why}" for why, kernels in reasons.items())
    raise MachineError(f"nothing that was asked for can be measured here: {told}", "see `gdnbench doctor`")


def asked_for(measurements: Iterable[Measurement], *, baseline_named: bool = False) -> list[Measurement]:
    """The rows that the user named; control, floor and an unnamed baseline join by themselves.

    If there are no other rows, the rows that do not do the op's work count as named.
    """
    rows = list(measurements)
    named = {Role.KERNEL, Role.BASELINE} if baseline_named else {Role.KERNEL}
    kernels = [row for row in rows if row.role in named]
    return kernels or [row for row in rows if not row.role.does_the_work]


def exit_code_of_sweep(measurements: Iterable[Measurement], swept: Collection[str], *, interrupted: bool) -> ExitCode:
    """The exit code of a sweep: a point that cannot work is a result, unless no point works."""
    rows = list(measurements)
    points = [row for row in rows if row.case.is_point_of(swept)]
    if any(row.timing for row in points) and not any(row.status is Status.NOT_RUN for row in points):
        rows = [row for row in rows if row.timing]
    return exit_code_of(rows, interrupted=interrupted)


def gravest(statuses: Iterable[Status]) -> ExitCode | None:
    """The exit code of the worst failure, or None if there is none."""
    codes = {status.exit_code for status in statuses}
    return next((code for code in _GRAVITY if code in codes), None)


def gravest_code(codes: Iterable[ExitCode]) -> ExitCode:
    """The joint exit code of several runs: interrupted or crashed, else the gravest failure, else what is left.

    A missing part of a machine and a noisy measurement count only if nothing failed.
    """
    there = set(codes)
    ranked = (
        *(ExitCode.INTERRUPTED, ExitCode.CRASHED, *_GRAVITY),
        *(ExitCode.ENVIRONMENT, ExitCode.USAGE, ExitCode.NOISY),
    )
    return next((code for code in ranked if code in there), max(there, default=ExitCode.OK))


def _contradicts(row: Measurement) -> bool:
    """Whether the row is a control on a GPU that differs from its baseline."""
    apart = {Verdict.FASTER, Verdict.SLOWER}
    if row.timing is None or row.timing.timer == CPU:
        return False
    return row.role is Role.CONTROL and row.versus is not None and row.versus.verdict in apart
