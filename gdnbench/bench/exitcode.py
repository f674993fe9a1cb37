"""The exit code of a run, from its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gdnbench.errors import ExitCode
from gdnbench.model import Measurement, Role, Status
from gdnbench.stats import Verdict

# The gravest first: wrong numbers are worse news than a kernel that did not build.
_GRAVITY = (ExitCode.WRONG_NUMBERS, ExitCode.BUILD, ExitCode.PARTIAL)


def exit_code_of(measurements: Iterable[Measurement], *, interrupted: bool) -> ExitCode:
    """What a run tells its caller: the gravest failure, else whether the A/A pair could be told to be the same."""
    rows = list(measurements)
    if interrupted:
        return ExitCode.INTERRUPTED
    noisy = any(_contradicts(row) for row in rows)
    return gravest(row.status for row in rows) or (ExitCode.NOISY if noisy else ExitCode.OK)


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


def _contradicts(row: Measurement) -> bool:
    """Whether a kernel was told apart from itself."""
    apart = {Verdict.FASTER, Verdict.SLOWER}
    return row.role is Role.CONTROL and row.versus is not None and row.versus.verdict in apart
