"""Scores the kernels of a stored run as the FlashInfer contest would, and compares its tolerance with our gates.

The score of a definition is the mean of the speedups over FlashInfer's kernel at all of its workloads, each counted as
often as its data set lists it; 0 if any element is outside the tolerance (FAQ.md and EVALUATION.md of
flashinfer-bench-starter-kit, 2026).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gdnbench.analyse.suite import SuiteResult, judge_suite
from gdnbench.catalog.select import op_option
from gdnbench.errors import UsageError
from gdnbench.model.declaration import CONTEST_TOLERANCE, contest_baseline
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Op, Suite
from gdnbench.model.status import Clock, Role, Status
from gdnbench.model.workload import Workload
from gdnbench.stats.interval import Comparison
from gdnbench.store.info import RunInfo, is_step, read_info, suite_of
from gdnbench.store.measurements import read_clocks, read_run
from gdnbench.store.samples import CaseRounds, read_case_rounds
from gdnbench.store.schema import GateDocument
from gdnbench.store.tables import read_sweep

Tolerance = Literal["pass", "fail", "unknown"]
_ROUNDED = 2.0**-8  # largest relative error of rounding the oracle's value to bf16


def judge_tolerance(
    info: RunInfo, label: str, rows: Sequence[Measurement], scenario: str
) -> tuple[Tolerance, Workload | None]:
    """Whether a kernel's cases pass, and the first workload where they fail, by inputs of the contest's kind."""
    stored = info.contest.get(label)
    failed = set(stored["failed"] if stored else ())
    for row in rows:
        if row.case.id in failed or any(_refutes(gate, scenario) for gate in info.gates.get(row.case.id, ())):
            return "fail", row.case.workload
    timed = sum(1 for row in rows if row.timing)
    if stored and stored["tolerance"] == CONTEST_TOLERANCE and stored["count"] >= max(1, timed):
        return "pass", None
    return "unknown", None


def _refutes(gate: GateDocument, scenario: str) -> bool:
    """Whether the worst element of a gate is outside the contest's tolerance, however the oracle's value is rounded."""
    wrong = gate.get("wrong")
    of_output = gate["status"] == Status.WRONG_NUMBERS  # the gate may also be of a changed input
    if not of_output or gate["scenario"] != scenario or not wrong or wrong["got"] is None or wrong["expected"] is None:
        return False
    got, expected = float(wrong["got"]), float(wrong["expected"])
    if not math.isfinite(got):
        return True
    slack = _ROUNDED * abs(expected)
    return abs(got - expected) - slack > CONTEST_TOLERANCE * max(1.0, abs(expected) + slack)


@dataclass(frozen=True)
class ContestRow:
    """The contest's result for one kernel."""

    label: str
    tolerance: Tolerance
    fails_at: Workload | None  # the first workload
    worst_error: float  # its largest error in units of the tolerance; NaN if it was not stored
    status: Status  # OK, or the first failure by our gates; what a stopped run did not reach comes last
    reason: str
    score: float | None  # by the run's own timer; None if it lacks a time at some workload
    cupti_score: float | None  # the score by kernel times, as later versions of the contest's tool time
    mean: Comparison | None  # our weighted geometric mean with its interval; None for the reference and without a score
    speedups: Mapping[Workload, float]  # empty without a score
    timed: int  # at how many of the scored workloads it has a time

    @property
    def passes_there_alone(self) -> bool:
        """Whether the contest's tolerance passes what our gates refuse."""
        return self.tolerance == "pass" and self.status.is_failure

    @property
    def best(self) -> Workload | None:
        """The workload with the largest speedup, or None."""
        return max(self.speedups, key=self.speedups.__getitem__, default=None)

    @property
    def worst(self) -> Workload | None:
        """The workload with the smallest speedup, or None."""
        return min(self.speedups, key=self.speedups.__getitem__, default=None)


@dataclass(frozen=True)
class ContestResult:
    """The contest's result for the kernels of a run over a suite, best score first.

    `missing` are the workloads at which the run has no time of a reference. `over` are the references; at each
    workload, speedups are over the fastest of them. `over_theirs` says that it is FlashInfer's kernel alone, as in the
    contest.
    """

    info: RunInfo
    suite: Suite
    missing: tuple[Workload, ...]
    over: tuple[str, ...]
    over_theirs: bool
    rows: tuple[ContestRow, ...]

    @property
    def scored_lines(self) -> float:
        """The number of lines of the contest's data set that scores are over."""
        return sum(weight for workload, weight in self.suite.weights.items() if workload not in self.missing)

    @property
    def lines(self) -> float:
        """The number of all lines of the contest's data set."""
        return sum(self.suite.weights.values())


StoredTimes = tuple[Sequence[Measurement], Mapping[str, CaseRounds]]
"""A run's measurements and its round times, by case id, of one clock."""


def _default_reference(op: str, rows: Sequence[Measurement]) -> tuple[str, ...]:
    """FlashInfer's kernel, if it has a time wherever the run's baseline has one; else empty, for the baseline."""
    theirs = {row.case.workload for row in rows if row.timing and row.case.label == contest_baseline(op)}
    ours = {row.case.workload for row in rows if row.timing and row.role is Role.BASELINE}
    return (contest_baseline(op),) if theirs and theirs >= ours else ()


def _judge(info: RunInfo, times: StoredTimes, suite: Suite, over: Sequence[str]) -> SuiteResult:
    rows, rounds = times
    measured = {row.case.workload for row in rows}
    suite = Suite(suite.name, {workload: weight for workload, weight in suite.weights.items() if workload in measured})
    limits = {name: info.settings[name] for name in ("margin", "confidence")}
    return judge_suite(rows, rounds, suite, op=info.op, over=over, **limits)


def _by_cupti(
    info: RunInfo, times: Mapping[Clock | None, StoredTimes], suite: Suite, own: SuiteResult
) -> SuiteResult | None:
    """Returns the result by CUPTI, or None unless it has times of the same workloads."""
    cupti = times.get("cupti")
    if cupti is None or not own.rows:
        return None
    timed = {row.case.label for row in cupti[0] if row.timing and row.case.workload in _summed(own)}
    if not set(own.over) <= timed:
        return None
    result = _judge(info, cupti, suite, own.over)
    return result if _summed(result) == _summed(own) else None


def _summed(result: SuiteResult) -> set[Workload]:
    return set(result.suite.weights) - set(result.left_out)


def _row(
    info: RunInfo,
    label: str,
    rows: Sequence[Measurement],
    results: tuple[SuiteResult, SuiteResult | None],
    scenario: str,
) -> ContestRow:
    own, by_cupti = results
    found = next((row for row in own.rows if row.label == label), None)
    reached = [row for row in rows if row.status is not Status.NOT_RUN] or rows
    failure = next((row for row in reached if row.status is not Status.OK), None)
    tolerance, fails_at = judge_tolerance(info, label, rows, scenario)
    speedups = _speedups(own, label)
    return ContestRow(
        label=label,
        tolerance=tolerance,
        fails_at=fails_at,
        worst_error=float(info.contest[label]["worst"]) if label in info.contest else math.nan,
        status=failure.status if failure else Status.OK,
        reason=failure.reason if failure else "",
        score=0.0 if tolerance == "fail" else contest_score(speedups, own.suite.weights),
        cupti_score=contest_score(_speedups(by_cupti, label), own.suite.weights) if by_cupti else None,
        mean=found.comparison if found else None,
        speedups=speedups,
        timed=sum(1 for row in rows if row.timing and row.case.workload in _summed(own)),
    )


def _speedups(result: SuiteResult, label: str) -> Mapping[Workload, float]:
    """The speedup at each workload; 1 for the reference itself, empty for a kernel that lacks a workload."""
    found = next((row for row in result.rows if row.label == label), None)
    if found is None:
        return {}
    return found.speedups or dict.fromkeys((each for each in result.suite.weights if each in _summed(result)), 1.0)


def contest_score(speedups: Mapping[Workload, float], weights: Mapping[Workload, float]) -> float | None:
    """Returns the mean of the speedups, each workload counted by its weight, or None if there are none."""
    total = sum(weights[workload] for workload in speedups)
    return sum(weights[workload] * speedup for workload, speedup in speedups.items()) / total if speedups else None


def has_workloads(folder: Path, ops: Mapping[str, Op], suite: str) -> bool:
    """Whether a run, which has to be readable, has kernels at any workload of its op's suite."""
    info = read_info(folder)
    op = ops.get(info.op)
    if op is None or suite not in op.suites or info.swept or is_step(folder):
        return False
    sizes, complete = {each.at("") for each in op.suite(suite).workloads}, op.workloads.completed
    return any(complete(info.workloads.stored_case(case)).at("") in sizes for case in info.cases)


def contest_of_run(folder: Path, op: Op, suite_name: str, over: Sequence[str]) -> ContestResult:
    """Scores the kernels of a run over those workloads of a suite that it measured, with the weights stored with it.

    `over` are the kernels to compare with; by default FlashInfer's if the run has it wherever it has its own baseline,
    else that baseline. UsageError is raised for a sweep or a step, or a run without such a workload or baseline.
    """
    if read_sweep(folder):
        raise UsageError(
            f"{folder.name} is not a run of kernels over workloads", "name a run: gdnbench runs lists them"
        )
    info, measurements = read_run(folder)
    suite = suite_of(info)
    if suite is None or suite.name != suite_name:
        suite = op.suite(suite_name).as_stored(row.case.workload for row in measurements)
    by_profile = suite.by_profile()  # the contest's own inputs are most like the first
    suite = by_profile.get("", next(iter(by_profile.values())))
    rows = [row for row in measurements if row.role is not Role.CONTROL and row.case.workload in suite.weights]
    if not rows:
        command = shlex.join(["gdnbench", "run", *op_option(info.op), "--suite", suite.name])
        raise UsageError(
            f"the run measured none of the {len(suite.weights)} workloads of the suite {suite.name}",
            f"{command} measures them",
        )
    rounds = read_case_rounds(folder)
    times: dict[Clock | None, StoredTimes] = {
        clock: (of_clock, {case: found for (case, by), found in rounds.items() if by == clock})
        for clock, of_clock in [(None, measurements), *read_clocks(folder).items()]
    }
    result = _judge(info, times[None], suite, tuple(over) or _default_reference(info.op, rows))
    by_cupti = _by_cupti(info, times, suite, result)
    scored = [
        _row(info, label, [row for row in rows if row.case.label == label], (result, by_cupti), op.scenarios[0])
        for label in dict.fromkeys(row.case.label for row in rows if row.role.does_the_work)
    ]
    scored.sort(key=lambda row: (row.score is None, -(row.score or 0.0)))
    missing = tuple(workload for workload in suite.workloads if workload not in _summed(result))
    return ContestResult(info, suite, missing, result.over, result.over == (contest_baseline(info.op),), tuple(scored))
