"""The exit code of a run, from its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gdnbench.errors import ExitCode, MachineError
from gdnbench.model.gpu import CPU
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status
from gdnbench.stats.comparison import Verdict

# The gravest first: wrong numbers are worse news than a kernel that did not build.
_GRAVITY = (ExitCode.WRONG_NUMBERS, ExitCode.BUILD, ExitCode.PARTIAL)


def exit_code_of(measurements: Iterable[Measurement], *, interrupted: bool, baseline_named: bool = False) -> ExitCode:
    """What a run tells its caller.

    The gravest failure, else that nothing asked for can run here, else whether the A/A pair could be told to be the
    same. Without a GPU that is a warning: other programs share the CPU, and nobody tunes these kernels for it.

    Args:
        measurements: the run's rows.
        interrupted: whether the user stopped it.
        baseline_named: whether the baseline is one of the kernels that the user named.
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
    """What cases tell: the gravest failure, else 5 where none of those that were asked for could run here.

    Args:
        statuses: of all cases.
        asked: of the cases that the user named.
    """
    impossible = bool(asked) and Status.OK not in asked
    return gravest(statuses) or (ExitCode.ENVIRONMENT if impossible else ExitCode.OK)


def refuse_nothing_measured(
    code: ExitCode, measurements: Iterable[Measurement], *, baseline_named: bool = False
) -> None:
    """Says, after the table, why there is no time for anything that the user named.

    Raises:
        MachineError: if that is so, and the exit code tells nothing graver.
    """
    if code is not ExitCode.ENVIRONMENT:
        return
    reasons: dict[str, list[str]] = {}
    for row in asked_for(measurements, baseline_named=baseline_named):
        reasons.setdefault(row.reason, []).append(row.case.variant.kernel)
    told = "; ".join(f"{', '.join(dict.fromkeys(kernels))}: {why}" for why, kernels in reasons.items())
    raise MachineError(f"nothing that was asked for can be measured here: {told}", "see `gdnbench doctor`")


def asked_for(measurements: Iterable[Measurement], *, baseline_named: bool = False) -> list[Measurement]:
    """The rows that the user named; the control, the floor, and a baseline that was not named join by themselves.

    Where nothing but those is there, they were named.
    """
    rows = list(measurements)
    named = {Role.KERNEL, Role.BASELINE} if baseline_named else {Role.KERNEL}
    kernels = [row for row in rows if row.role in named]
    return kernels or [row for row in rows if not row.role.does_the_work]


def exit_code_of_sweep(measurements: Iterable[Measurement], swept: Collection[str], *, interrupted: bool) -> ExitCode:
    """What a sweep of some kernels tells its caller: a point that cannot work is an answer, unless no point works."""
    rows = list(measurements)
    points = [row for row in rows if row.case.is_point_of(swept)]
    if any(row.timing for row in points) and not any(row.status is Status.NOT_RUN for row in points):
        rows = [row for row in rows if row.timing]
    return exit_code_of(rows, interrupted=interrupted)


def gravest(statuses: Iterable[Status]) -> ExitCode | None:
    """The exit code of the worst failure; None if there is none."""
    codes = {status.exit_code for status in statuses}
    return next((code for code in _GRAVITY if code in codes), None)


def gravest_code(codes: Iterable[ExitCode]) -> ExitCode:
    """What several runs tell together: that they were stopped or crashed, else the gravest failure, else what is left.

    That a run's machine lacks something, or that it measured with too much noise, is told where nothing failed.
    """
    there = set(codes)
    ranked = (
        *(ExitCode.INTERRUPTED, ExitCode.CRASHED, *_GRAVITY),
        *(ExitCode.ENVIRONMENT, ExitCode.USAGE, ExitCode.NOISY),
    )
    return next((code for code in ranked if code in there), max(there, default=ExitCode.OK))


def _contradicts(row: Measurement) -> bool:
    """Whether a kernel was told apart from itself."""
    apart = {Verdict.FASTER, Verdict.SLOWER}
    if row.timing is None or row.timing.timer == CPU:
        return False
    return row.role is Role.CONTROL and row.versus is not None and row.versus.verdict in apart
