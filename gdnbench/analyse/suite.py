"""A run's kernels by the rounds that they share: the fastest of a workload, and their means over those of a suite.

A mean is the weighted geometric mean of a kernel's ratios. Its interval is over rounds and processes and includes the
noise of a baseline that differs from itself. A process adds one launch to the times of all workloads, and so, but for
second-order terms, one constant to their weighted mean.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gdnbench.analyse.analysis import ALARM
from gdnbench.analyse.card_run import PooledTimes
from gdnbench.analyse.ratio import move_rounds
from gdnbench.analyse.run_change import own_sd, process_by_workload
from gdnbench.catalog.select import op_option
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model.measurement import InputsEffect, Measurement
from gdnbench.model.op import Suite
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import weighted_geomean
from gdnbench.stats.interval import Comparison, Verdict, margin_edges
from gdnbench.stats.multiple import compare_with_best, judge_family
from gdnbench.stats.paired import Effects, PairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, ProcessEffects, estimate_effects
from gdnbench.store.info import RunInfo, suite_of
from gdnbench.store.samples import CaseRounds, read_rounds

_ByLabel = dict[str, dict[Workload, FloatArray]]


@dataclass(frozen=True)
class SuiteRow:
    """One kernel over a suite; the reference's time over the kernel's is none for a floor and the reference."""

    label: str
    time_us: float  # weighted geometric mean over the workloads
    role: Role
    comparison: Comparison | None
    speedups: Mapping[Workload, float]
    profile: str = ""  # empty if the op has only one
    inputs: InputsEffect | None = None

    @property
    def worst(self) -> Workload | None:
        """Returns the workload with the smallest speedup, or None without a comparison."""
        return min(self.speedups, key=self.speedups.__getitem__, default=None)

    def slower_at(self, margin: float) -> int:
        """At how many workloads its time exceeds the reference's by more than a margin, intervals aside."""
        return sum(speedup < margin_edges(margin)[0] for speedup in self.speedups.values())


@dataclass(frozen=True)
class SuiteResult:
    """The kernels of a run over a suite."""

    suite: Suite
    left_out: tuple[Workload, ...]  # workloads that the run did not reach, or at which no reference has a time
    over: tuple[str, ...]  # labels of the references; at each workload, kernels are compared with the fastest of them
    margin: float  # relative difference that counts as none
    rows: tuple[SuiteRow, ...]  # every kernel that has a time at each of the other workloads, fastest first
    incomplete: Mapping[str, int]  # for the other kernels, the number of these workloads at which they have a time
    profiles: tuple[str, ...] = ()  # the distributions of inputs that were measured; a row is the worst over them

    @property
    def summed(self) -> int:
        """The number of workloads that the means are over."""
        return len(self.suite.weights) - len(self.left_out)


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
    """Compares every kernel of a run with references, over those workloads of a suite that have times.

    `over` are labels of the references, by default the run's baseline. UsageError is raised if the run was not to
    measure a workload, UnknownNameError for a reference that is not in the run.
    """
    measured = {row.case.workload for row in measurements}
    if missing := [str(workload) for workload in suite.workloads if workload not in measured]:
        command = shlex.join(["gdnbench", "run", *op_option(op), "--suite", suite.name])
        raise UsageError(f"the run lacks {', '.join(missing)} of the suite {suite.name}", f"{command} measures them")
    times, again = _times(measurements, rounds, suite)
    baselines = tuple(dict.fromkeys(row.case.label for row in measurements if row.role is Role.BASELINE))
    over = tuple(over) or baselines
    if not over:
        raise UsageError("the run has no baseline", "name what to compare with: --over decode-fla")
    if unknown := [label for label in over if label not in times]:
        raise UnknownNameError(f"the run has no times of {unknown[0]}", f"it has {', '.join(times) or 'none'}")
    paired = _side_by_side(times, baselines[0] if baselines else "")
    stopped = {row.case.workload for row in measurements if row.status is Status.NOT_RUN}
    reference: dict[Workload, FloatArray] = {}
    for workload in suite.workloads:
        timed = [paired[label][workload] for label in over if workload in paired[label]]
        if timed and workload not in stopped:
            reference[workload] = min(timed, key=_time)
    weights = {workload: suite.weights[workload] for workload in reference}
    complete = {label: found for label, found in paired.items() if found.keys() >= weights.keys()}
    means = {label: _mean(found, weights) for label, found in complete.items() if weights}
    roles = {row.case.label: row.role for row in measurements if row.role is not Role.CONTROL}
    judged = [label for label in means if over != (label,) and roles[label].does_the_work]
    comparisons: Mapping[str, Comparison] = {}
    if judged:
        controls = {label: _mean(found, weights) for label, found in again.items() if found.keys() >= weights.keys()}
        effects = _effects({**means, **controls}, measurements, rounds, op, lambda row: row.case.label)
        noise = _noise(means, controls, measurements, effects)
        ratios = _ratios({label: means[label] for label in judged}, _mean(reference, weights), over, effects, noise)
        comparisons = judge_family(ratios, margin=margin, confidence=confidence)
    rows = []
    for label in means:
        speedups = {at: _time(reference[at] / paired[label][at]) for at in weights} if label in comparisons else {}
        versus, inputs = comparisons.get(label), largest_effect(measurements, label, weights)
        own = _time(_mean(times[label], weights)), roles[label]
        rows.append(SuiteRow(label, *own, versus, speedups, suite.workloads[0].inputs, inputs))
    rows.sort(key=lambda row: row.time_us)
    left_out = tuple(workload for workload in suite.workloads if workload not in weights)
    incomplete = {label: len(found.keys() & weights.keys()) for label, found in times.items() if label not in complete}
    return SuiteResult(suite, left_out, over, margin, tuple(rows), incomplete)


def judge_worst(
    measurements: Sequence[Measurement],
    rounds: Mapping[str, CaseRounds],
    suite: Suite,
    *,
    op: str,
    over: Sequence[str] = (),
    margin: float,
    confidence: float,
) -> SuiteResult:
    """As `judge_suite`, for a suite measured with several distributions of inputs: each kernel at its worst.

    The worst is selected after the fact, so each is taken at the level at which all have the confidence (Bonferroni).
    """
    parts = suite.by_profile()
    names = [part.workloads[0].inputs for part in parts.values()]
    each = 1.0 - (1.0 - confidence) / len(parts)
    results = [
        judge_suite(measurements, rounds, part, op=op, over=over, margin=margin, confidence=each)
        for part in parts.values()
    ]
    first, *others = results
    if not others:
        return replace(first, profiles=tuple(filter(None, names)))
    by_label: dict[str, list[SuiteRow]] = {}
    for row in (row for result in results for row in result.rows):
        by_label.setdefault(row.label, []).append(row)
    # The worst of a kernel that lacks a time in one of them is unknown.
    worst = [min(rows, key=_speedup) for rows in by_label.values() if len(rows) == len(results)]
    lacking = {label: len(rows) for label, rows in by_label.items() if len(rows) < len(results)}
    return replace(
        first,
        left_out=tuple(workload for result in results for workload in result.left_out),
        rows=tuple(sorted(worst, key=_speedup, reverse=True)),
        incomplete={**lacking, **{label: count for result in results for label, count in result.incomplete.items()}},
        profiles=tuple(names),
    )


def _speedup(row: SuiteRow) -> float:
    """The speedup over the reference; 1 for the reference itself, 0 for a floor."""
    if row.comparison:
        return row.comparison.speedup.estimate
    return 1.0 if row.role.does_the_work else 0.0


def largest_effect(
    measurements: Sequence[Measurement], label: str, workloads: Container[Workload]
) -> InputsEffect | None:
    """The largest effect of the inputs on a kernel's time at some workloads, or None."""
    effects = [
        row.inputs for row in measurements if row.inputs and row.case.label == label and row.case.workload in workloads
    ]
    return max(effects, key=lambda effect: effect.low, default=None)


def _effects(
    times_us: Mapping[str, FloatArray],
    measurements: Sequence[Measurement],
    rounds: Mapping[str, CaseRounds],
    op: str,
    name: Callable[[Measurement], str],
) -> ProcessEffects[str]:
    # An empty floor takes a few ticks of the timer, and nothing is estimated from it for the others.
    empty = {name(row) for row in measurements if row.is_empty_floor}
    return estimate_effects(
        times_us,
        process_by_workload(measurements, rounds),
        left_out=empty & times_us.keys(),
        has_launch=any(row.timing.timer == "nvbench" for row in measurements if row.timing),
        usual_sd_us=USUAL_LAUNCH_SD_US,
        own_sds={name(row): own_sd(op, row.launches) for row in measurements if row.role is not Role.CONTROL},
    )


def _ratios(
    means: Mapping[str, FloatArray],
    reference: FloatArray,
    over: Sequence[str],
    effects: ProcessEffects[str],
    noise: PairedLogRatio | None,
) -> dict[str, PairedLogRatio]:
    """The ratios log(reference / kernel); the reference is made of kernels that already count in the effects."""
    stands_for = next((label for label in over if label in effects.outliers), over[0])
    return {
        label: PairedLogRatio.with_effects((label, stands_for), (mean, reference), effects).widened_by(noise, ALARM)
        for label, mean in means.items()
    }


def _noise(
    means: Mapping[str, FloatArray],
    controls: Mapping[str, FloatArray],
    measurements: Sequence[Measurement],
    effects: ProcessEffects[str],
) -> PairedLogRatio | None:
    labels = {row.role: row.case.label for row in measurements if row.role in {Role.BASELINE, Role.CONTROL}}
    baseline, control = labels.get(Role.BASELINE, ""), labels.get(Role.CONTROL, "")
    if baseline not in means or control not in controls:
        return None
    return PairedLogRatio.with_effects((control, baseline), (controls[control], means[baseline]), effects)


def _times(
    measurements: Sequence[Measurement], rounds: Mapping[str, CaseRounds], suite: Suite
) -> tuple[_ByLabel, _ByLabel]:
    found: _ByLabel = {}
    again: _ByLabel = {}
    for row in measurements:
        if row.timing and row.case.workload in suite.weights and row.case.id in rounds:
            times = again if row.role is Role.CONTROL else found
            times.setdefault(row.case.label, {})[row.case.workload] = rounds[row.case.id].times_us
    return found, again


def side_by_side(times_us: Mapping[str, FloatArray], bridge: str) -> dict[str, FloatArray]:
    """Moves the cases of a workload to the rounds in which most of them were timed, through `bridge`, timed beside all.

    `times_us` has the shape (rounds,) by case, microseconds, NaN where a round is missing. Cases that already share
    rounds stay as they are, as does a case that shares none with the bridge. A case that shares rounds with every
    other, as a floor that is timed in all processes does, tells nothing of which were timed together.
    """
    known = {name: np.isfinite(times) for name, times in times_us.items() if name != bridge}
    apart = {name for name, mask in known.items() if not all((mask & other).any() for other in known.values())}
    if bridge not in times_us or not apart:
        return dict(times_us)
    in_order = [name for name in times_us if name in apart]  # of groups of one size the first counts, in every process
    most = max(({other for other in apart if (known[other] & known[name]).any()} for name in in_order), key=len)
    rounds = np.logical_or.reduce([known[name] for name in most])
    return {
        name: times
        if name in most
        else move_rounds(times, times_us[bridge], rounds)
        if name in apart
        else np.where(rounds, times, np.nan)
        for name, times in times_us.items()
    }


def _side_by_side(times: _ByLabel, baseline: str) -> _ByLabel:
    found: _ByLabel = {label: {} for label in times}
    for workload in dict.fromkeys(workload for by_workload in times.values() for workload in by_workload):
        here = {label: by_workload[workload] for label, by_workload in times.items() if workload in by_workload}
        for label, each in side_by_side(here, baseline).items():
            found[label][workload] = each
    return found


def _mean(by_workload: Mapping[Workload, FloatArray], weights: Mapping[Workload, float]) -> FloatArray:
    return weighted_geomean([by_workload[workload] for workload in weights], list(weights.values()))


def _time(rounds_us: FloatArray) -> float:
    """The geometric mean of the known rounds; NaN without any."""
    present = rounds_us[~np.isnan(rounds_us)]
    return float(np.exp(np.mean(np.log(present)))) if len(present) else math.nan


def suite_of_run(
    folder: Path, info: RunInfo, measurements: Sequence[Measurement], requested: Suite | None, over: Sequence[str]
) -> SuiteResult | None:
    """A run's result by a suite, or None without a suite or, by default, without a time of the baseline.

    A run that was stopped is summed up over the workloads that have times. `requested` is the suite that was named, by
    default the run's own; `over` are the kernels to compare with, by default the baseline.
    """
    suite = requested.as_stored(row.case.workload for row in measurements) if requested else suite_of(info)
    if suite is None and over:
        raise UsageError("--over is for a suite", "as in --suite contest --over decode-fla")
    if suite is None or not (
        requested or over or any(row.timing and row.role is Role.BASELINE for row in measurements)
    ):
        return None
    shown = {row.case.workload.profile for row in measurements}
    suite = Suite(suite.name, {each: weight for each, weight in suite.weights.items() if each.profile in shown})
    limits = {name: info.settings[name] for name in ("margin", "confidence")}
    return judge_worst(measurements, read_rounds(folder), suite, op=info.op, over=over, **limits)


@dataclass(frozen=True, kw_only=True)
class FastestKernel:
    """The fastest kernel of a workload, and the labels of those that tie with it, or may."""

    row: Measurement
    tied: tuple[str, ...] = ()  # shown to be within the margin
    unclear: tuple[str, ...] = ()

    @property
    def peers(self) -> tuple[str, ...]:
        """The kernels that do not clearly differ from it."""
        return (*self.tied, *self.unclear)


def fastest_of(info: RunInfo, rows: Sequence[Measurement], rounds: Mapping[str, CaseRounds]) -> FastestKernel | None:
    """Returns the fastest row of a workload, floors aside, or None; `rounds` are by case id.

    Kernels are compared as in a sweep, by the rounds that all share, moved there by the baseline. Without such rounds
    it is the one with the least time.
    """
    timed = [row for row in rows if row.timing and row.role is not Role.CONTROL]
    racing = {row.case.id: row for row in timed if row.role.does_the_work}
    if not racing:
        return None
    bridge = next((row.case.id for row in rows if row.role is Role.BASELINE), "")
    shared = side_by_side({row.case.id: rounds[row.case.id].times_us for row in timed if row.case.id in rounds}, bridge)
    known = {name: shared[name] for name in racing if name in shared}
    try:
        effects = _effects(known, timed, rounds, info.op, lambda row: row.case.id)
    except ValueError:  # no rounds, or invalid ones: times still hold
        effects = None
    return _fastest(info, racing, known, effects if len(known) == len(racing) else None)


def fastest_of_joint(info: RunInfo, rows: Sequence[Measurement], pooled: PooledTimes) -> FastestKernel | None:
    """Returns the fastest row of a workload of joined runs as `fastest_of`, by the rounds of all of them."""
    racing = {
        row.case.id: row for row in rows if row.timing and row.role.does_the_work and row.role is not Role.CONTROL
    }
    return _fastest(info, racing, {name: pooled.times[name] for name in racing}, pooled.effects) if racing else None


def _fastest(
    info: RunInfo, racing: Mapping[str, Measurement], known: Mapping[str, FloatArray], effects: Effects[str] | None
) -> FastestKernel:
    limits = {name: info.settings[name] for name in ("margin", "confidence")}
    try:
        field = compare_with_best(known, **limits, effects=effects) if effects and len(known) > 1 else None
    except ValueError:
        field = None
    if field is None:
        return FastestKernel(row=min(racing.values(), key=lambda row: row.timing.time_us if row.timing else 0.0))
    tied, unclear = (
        tuple(racing[name].case.label for name, other in field.others.items() if other.verdict is verdict)
        for verdict in (Verdict.SAME, Verdict.UNCLEAR)
    )
    return FastestKernel(row=racing[field.leader], tied=tied, unclear=unclear)
