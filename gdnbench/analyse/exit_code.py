"""The exit code of a run, from its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gdnbench.errors import ExitCode, MachineError
from gdnbench.model.gpu import CPU
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status

# Gravest first: wrong numbers are worse than a kernel that did not build.
_GRAVITY = (ExitCode.WRONG_NUMBERS, ExitCode.BUILD, ExitCode.PARTIAL)


def exit_code_of_rows(
    measurements: Iterable[Measurement], *, interrupted: bool, baseline_named: bool = False
) -> ExitCode:
    """The gravest failure, else ENVIRONMENT if nothing requested can run, else NOISY on a GPU that is, or OK."""
    rows = list(measurements)
    if interrupted:
        return ExitCode.INTERRUPTED
    code = exit_code_of_statuses(
        [row.status for row in rows], [row.status for row in asked_for(rows, baseline_named=baseline_named)]
    )
    from gdnbench.stats.interval import Verdict  # brings NumPy, which `verify` does without

    controls = [row for row in rows if row.role is Role.CONTROL and row.timing and row.timing.timer != CPU]
    noisy = any(row.versus and row.versus.verdict in {Verdict.FASTER, Verdict.SLOWER} for row in controls)
    return ExitCode.NOISY if noisy and code is ExitCode.OK else code


def exit_code_of_statuses(statuses: Iterable[Status], requested: Collection[Status]) -> ExitCode:
    """The gravest failure of all cases, else ENVIRONMENT (5) if none of those that the user named could run."""
    impossible = bool(requested) and Status.OK not in requested
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
    text = "; ".join(f"{', '.join(dict.fromkeys(kernels))}: {why}" for why, kernels in reasons.items())
    raise MachineError(f"nothing requested can be measured here: {text}", "see `gdnbench doctor`")


def asked_for(measurements: Iterable[Measurement], *, baseline_named: bool = False) -> list[Measurement]:
    """The rows that the user named; without any, those that do not do the op's work."""
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
    return exit_code_of_rows(rows, interrupted=interrupted)


def gravest(statuses: Iterable[Status]) -> ExitCode | None:
    """The exit code of the worst failure, or None if there is none."""
    codes = {status.exit_code for status in statuses}
    return next((code for code in _GRAVITY if code in codes), None)


def worst_exit_code(codes: Iterable[ExitCode]) -> ExitCode:
    """The joint exit code of several runs: interrupted or crashed, else the gravest failure, else what is left."""
    distinct = set(codes)
    ranked = (
        *(ExitCode.INTERRUPTED, ExitCode.CRASHED, *_GRAVITY),
        *(ExitCode.ENVIRONMENT, ExitCode.USAGE, ExitCode.NOISY),
    )
    return next((code for code in ranked if code in distinct), max(distinct, default=ExitCode.OK))
