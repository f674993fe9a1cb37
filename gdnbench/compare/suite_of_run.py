"""Sums up a stored run by a suite: the one that it measured, or one that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gdnbench.compare.suite import SuiteResult, judge_worst
from gdnbench.errors import UsageError
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Suite
from gdnbench.model.status import Role
from gdnbench.store.info import RunInfo, suite_of
from gdnbench.store.samples import read_case_rounds


def suite_of_run(
    folder: Path, info: RunInfo, measurements: Sequence[Measurement], asked: Suite | None, over: Sequence[str]
) -> SuiteResult | None:
    """Returns a run's result by a suite, or None without a suite or, by default, without a time of the baseline.

    A run that was stopped is summed up over the workloads that have times. `asked` is the suite that was asked for, by
    default the run's own; `over` are the kernels to compare with, by default the baseline.

    Raises:
        UsageError: for `over` without a suite, or if the run was not to measure all of the suite's workloads.
        UnknownNameError: for a kernel to compare with that the run does not have.
    """
    suite = asked.as_stored(row.case.workload for row in measurements) if asked else suite_of(info)
    if suite is None and over:
        raise UsageError("--over is for a suite", "as in --suite contest --over decode-fla")
    if suite is None or not (asked or over or any(row.timing and row.role is Role.BASELINE for row in measurements)):
        return None
    shown = {row.case.workload.profile for row in measurements}
    suite = Suite(suite.name, {each: weight for each, weight in suite.weights.items() if each.profile in shown})
    settings = info.settings
    return judge_worst(
        measurements,
        {case: found for (case, clock), found in read_case_rounds(folder).items() if clock is None},
        suite,
        op=info.op,
        over=over,
        margin=settings["margin"],
        confidence=settings["confidence"],
    )
