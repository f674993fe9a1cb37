"""A run's kernels over the workloads of a suite: the weighted geometric mean of their ratios, with its interval.

The interval is over rounds and processes, as that of each workload is. A process adds one launch to the times of all
workloads, and so, but for terms of second order, one constant to a weighted mean of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gdnbench.catalog.resolve import op_option
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Suite
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray
from gdnbench.stats.comparison import Comparison
from gdnbench.stats.estimators import weighted_geomean
from gdnbench.stats.multiple import judge_family
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, estimate_effects
from gdnbench.store.samples import CaseRounds, processes_of

_REFERENCE = ""
"""Stands for the fastest of the references among the labels of kernels, of which none is empty."""


@dataclass(frozen=True)
class SuiteRow:
    """One kernel over a suite.

    Attributes:
        label: the kernel.
        time_us: weighted geometric mean of its times over the workloads, microseconds.
        role: a floor has no comparison.
        comparison: the reference's time over the kernel's; None for a floor, and where the kernel is the reference.
    """

    label: str
    time_us: float
    role: Role
    comparison: Comparison | None


@dataclass(frozen=True)
class SuiteResult:
    """The kernels of a run over a suite.

    Attributes:
        suite: the workloads and their weights.
        over: labels of the references; at each workload, kernels are compared with the fastest of them.
        rows: every kernel that has a time at each workload, fastest first.
        incomplete: labels of the kernels that lack a time at some workload.
    """

    suite: Suite
    over: tuple[str, ...]
    rows: tuple[SuiteRow, ...]
    incomplete: tuple[str, ...]


def judge_suite(
    measurements: Sequence[Measurement],
    rounds: Mapping[str, CaseRounds],
    suite: Suite,
    *,
    op: str,
    over: Sequence[str] = (),
    margin: float,
    confidence: float,
) -> SuiteResult:
    """Compares every kernel of a run with references, over a suite.

    Args:
        measurements: the run's rows.
        rounds: its round times, by case id.
        suite: the workloads and their weights.
        op: the op, which has the suite.
        over: labels of the references; by default the run's baseline.
        margin: relative difference that counts as none.
        confidence: of the intervals.

    Raises:
        UsageError: if the run lacks a workload, or a time of every reference at one.
        UnknownNameError: for a reference that is not in the run.
    """
    _check_measured(measurements, suite, op)
    times = _times(measurements, rounds, suite)
    over = tuple(over) or _baseline(measurements)
    unknown = [label for label in over if label not in times]
    if unknown:
        raise UnknownNameError(f"the run has no times of {unknown[0]}", f"it has {', '.join(times) or 'none'}")
    reference = {workload: _fastest([times[label] for label in over], workload) for workload in suite.workloads}
    complete = {label: by_workload for label, by_workload in times.items() if len(by_workload) == len(suite.weights)}
    means = {label: _mean(times, suite) for label, times in complete.items()}
    roles = {row.case.label: row.role for row in measurements if row.role is not Role.CONTROL}
    judged = [label for label in means if over != (label,) and roles[label] is not Role.FLOOR]
    ratios = _ratios({**means, _REFERENCE: _mean(reference, suite)}, judged, measurements, rounds)
    comparisons = judge_family(ratios, margin=margin, confidence=confidence)
    rows = [
        SuiteRow(label, float(np.exp(np.nanmean(np.log(mean)))), roles[label], comparisons.get(label))
        for label, mean in means.items()
    ]
    rows.sort(key=lambda row: row.time_us)
    return SuiteResult(suite, over, tuple(rows), tuple(label for label in times if label not in complete))


def _ratios(
    means: Mapping[str, FloatArray],
    labels: Sequence[str],
    measurements: Sequence[Measurement],
    rounds: Mapping[str, CaseRounds],
) -> dict[str, PairedLogRatio]:
    """What the rounds say of log(reference / kernel), with what processes add to it.

    Args:
        means: shape (rounds,) by label, weighted geometric means in microseconds; that of the reference, too.
        labels: the kernels to compare.
        measurements: the run's rows.
        rounds: its round times.
    """
    # A floor that moves nothing is a few ticks of the timer, and no evidence on the others.
    empty = {row.case.label for row in measurements if row.is_empty_floor}
    effects = estimate_effects(
        means,
        processes_of(rounds.values()),
        left_out=empty & means.keys(),
        has_launch=any(row.timing.timer == "nvbench" for row in measurements if row.timing),
        usual_sd_us=USUAL_LAUNCH_SD_US,
    )
    times = {label: effects.without_launch(mean) for label, mean in means.items()}
    return {
        label: PairedLogRatio.from_rounds(
            times[label],
            times[_REFERENCE],
            effects.process,
            effects.of_ratio((label, _REFERENCE), (times[label], times[_REFERENCE])),
        )
        for label in labels
    }


def _check_measured(measurements: Sequence[Measurement], suite: Suite, op: str) -> None:
    measured = {row.case.workload for row in measurements}
    missing = [str(workload) for workload in suite.workloads if workload not in measured]
    if missing:
        command = shlex.join(["gdnbench", "run", *op_option(op), "--suite", suite.name])
        raise UsageError(f"the run lacks {', '.join(missing)} of the suite {suite.name}", f"{command} measures them")


def _times(
    measurements: Sequence[Measurement], rounds: Mapping[str, CaseRounds], suite: Suite
) -> dict[str, dict[Workload, FloatArray]]:
    """Round times by label and workload, of all but the baseline's second measurement."""
    found: dict[str, dict[Workload, FloatArray]] = {}
    for row in measurements:
        if row.timing and row.role is not Role.CONTROL and row.case.workload in suite.weights and row.case.id in rounds:
            found.setdefault(row.case.label, {})[row.case.workload] = rounds[row.case.id].times_us
    return found


def _baseline(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    labels = dict.fromkeys(row.case.label for row in measurements if row.role is Role.BASELINE)
    if not labels:
        raise UsageError("the run has no baseline", "name what to compare with: --over decode-fla")
    return tuple(labels)


def _fastest(references: Sequence[Mapping[Workload, FloatArray]], workload: Workload) -> FloatArray:
    there = [times[workload] for times in references if workload in times]
    if not there:
        raise UsageError(f"none of the references has a time at {workload}", "name others with --over")
    return min(there, key=lambda times: float(np.nanmean(np.log(times))))


def _mean(by_workload: Mapping[Workload, FloatArray], suite: Suite) -> FloatArray:
    return weighted_geomean([by_workload[workload] for workload in suite.workloads], list(suite.weights.values()))
