"""One column against the first: a ratio for each case, with interval and verdict where both were measured; their mean.

Figures of one run are paired by round (`compare.within_run`). Those of two runs are compared by their mean times
without what the runs as a whole moved by, and what that leaves open is in the interval (`compare.run_change`).

In the geometric mean, the rounds and what a case strays by are independent from case to case and shrink with their
number; what is common to the cases of a workload shrinks with the number of workloads, what is common to the run does
not. Nor is it known that A/A noise does, so its mean over the cases is taken whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from gdnbench.compare.figure import FigureSource
from gdnbench.compare.grid import GridEntry, GridRow
from gdnbench.compare.run_change import CaseChange, RunPair, TimeKind
from gdnbench.compare.within_run import ratio_within_run
from gdnbench.errors import UsageError
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.stats.comparison import Comparison, Verdict
from gdnbench.stats.interval import Interval
from gdnbench.stats.multiple import compare_unpaired, judge_family
from gdnbench.stats.unpaired import UnpairedLogRatio
from gdnbench.stats.variance import Variance
from gdnbench.wording import plural

FEWEST_PEERS = 4
"""Unchanged cases of other kernels that tell what two runs differ by, before a case's own change has a verdict."""

NO_ROUNDS = "not measured here"
OTHER_TIMER = "the timers differ"

T = TypeVar("T")
PairOf = Callable[[FigureSource, FigureSource], RunPair]
"""Two runs, as a whole."""

EntryPair = tuple[GridEntry, GridEntry]
"""A figure of the first column and one of a later column."""


@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """How `gdnbench compare` compares.

    Attributes:
        margin: differences up to this ratio count as none.
        confidence: of each column's family of comparisons, between 0 and 1.
        raw: whether what the runs as a whole moved by stays in the ratios.
    """

    margin: float
    confidence: float = 0.95
    raw: bool = False


def check_settings(margin: float, *, raw: bool, strict: bool, gate: str) -> CompareSettings:
    """The settings of a command line.

    Args:
        margin: of `--margin` or `--fail-on`, a ratio.
        raw: whether what the runs as a whole moved by stays in the ratios.
        strict: whether `--strict` was given.
        gate: what `--fail-on` was given; empty where it was not.

    Raises:
        UsageError: if the margin is no small positive ratio, or `strict` stands without a gate.
    """
    if not 0.0 <= margin < 1.0:
        raise UsageError(f"a margin of {margin:g} is not a relative difference", "0.005 is half a percent")
    if strict and not gate:
        raise UsageError("--strict needs --fail-on", "as in --fail-on slower:1% --strict")
    return CompareSettings(margin=margin, raw=raw)


@dataclass(frozen=True)
class TimeRatio:
    """A later figure against the first.

    Attributes:
        value: time of the first / time of the later: above 1 the later is faster.
        comparison: its interval and verdict; None where there can be none.
        reason: why there is none, or why there is no verdict; empty where there is one.
        kind: which times are judged.
        by_kind: for each kind of time that two runs both have, the ratio without what the runs as a whole moved by.
        apart: whether the figures are of two runs.
    """

    value: float
    comparison: Comparison | None = None
    reason: str = ""
    kind: TimeKind = TimeKind.STREAM
    by_kind: Mapping[TimeKind, float] = field(default_factory=dict)
    apart: bool = False


@dataclass(frozen=True)
class GeometricMean:
    """The geometric mean of a column's ratios.

    Attributes:
        cases: how many; floors are not among them.
        value: the mean: above 1 the later column is faster.
        interval: None where some ratio has none, or the ratios are of several runs or pairs of runs.
    """

    cases: int
    value: float
    interval: Interval | None


def compare_column(
    rows: Sequence[GridRow], column: int, pair_of: PairOf, settings: CompareSettings
) -> tuple[TimeRatio | None, ...]:
    """Compares a column with the first, row by row; None where a side has no time.

    Figures of one run are paired by round, as `gdnbench run` does; others are compared by their mean times. Each of the
    two is a family of its own for Holm's correction. Floors are corrected apart from kernels: they are no claims, but
    what claims rest on.
    """
    pairs = {index: pair for index, row in enumerate(rows) if (pair := timed_pair(row, column))}
    comparable = {index: pair for index, pair in pairs.items() if _has_rounds(*pair) and _same_timer(*pair)}
    within, changes = {}, {}
    for index, (left, right) in comparable.items():
        if _same_rounds(left, right):
            within[index] = ratio_within_run(left.source, [left.figure], [right.figure])
        else:
            changes[index] = _changes(left, right, pair_of)
    limits = {"margin": settings.margin, "confidence": settings.confidence}
    comparisons: dict[int, Comparison] = {}
    for paired in _kernels_and_floors(within, pairs):
        comparisons |= judge_family(paired, **limits)
    log_ratios = {index: _log_ratio(*pairs[index], pair_of, settings) for index in changes}
    for unpaired in _kernels_and_floors(log_ratios, pairs):
        comparisons |= compare_unpaired(unpaired, **limits)
    return tuple(
        _time_ratio(*pairs[index], comparisons.get(index), changes.get(index, {}), pair_of) if index in pairs else None
        for index in range(len(rows))
    )


def timed_pair(row: GridRow, column: int) -> EntryPair | None:
    """A row's first and later figure, if both have a time."""
    left, right = row.entries[0], row.entries[column]
    if left and right and left.figure.status is Status.OK and right.figure.status is Status.OK:
        return left, right
    return None


def is_no_kernel(entry: GridEntry) -> bool:
    """Whether it is a floor or an ablation."""
    return not entry.figure.role.does_the_work


def _has_rounds(left: GridEntry, right: GridEntry) -> bool:
    return _both_measured(left, right) and left.figure.has_rounds and right.figure.has_rounds


def _both_measured(left: GridEntry, right: GridEntry) -> bool:
    return left.source.is_measured and right.source.is_measured


def _same_timer(left: GridEntry, right: GridEntry) -> bool:
    """Whether both time the same span: one timer's holds the launch, another's does not."""
    return left.figure.timer == right.figure.timer


def _same_rounds(left: GridEntry, right: GridEntry) -> bool:
    """Whether both were measured in the same rounds, those of one run."""
    return left.source is right.source and left.figure.rounds_us.shape == right.figure.rounds_us.shape


def _kernels_and_floors(values: Mapping[int, T], pairs: Mapping[int, EntryPair]) -> tuple[dict[int, T], dict[int, T]]:
    """Two families, each corrected for its own number."""
    floors = {index: value for index, value in values.items() if is_no_kernel(pairs[index][0])}
    return {index: value for index, value in values.items() if index not in floors}, floors


def _time_ratio(
    left: GridEntry,
    right: GridEntry,
    comparison: Comparison | None,
    changes: Mapping[TimeKind, CaseChange],
    pair_of: PairOf,
) -> TimeRatio:
    if comparison is None:
        other_timer = _both_measured(left, right) and not _same_timer(left, right)
        value = left.figure.time_us / right.figure.time_us
        return TimeRatio(value, reason=OTHER_TIMER if other_timer else NO_ROUNDS)
    if not changes:
        return TimeRatio(comparison.speedup.estimate, comparison)
    by_kind = {kind: math.exp(change.log_ratio.mean) for kind, change in changes.items()}
    runs = pair_of(left.source, right.source)
    kind = runs.kind_of(left.figure, right.figure)
    reason = ""
    change = runs.of_kind(kind)
    if change.same_model and (peers := change.peers(left.figure, right.figure)) < FEWEST_PEERS:
        reason = f"{plural(peers, 'unchanged case')} in both runs, and {FEWEST_PEERS} are needed for a verdict"
        comparison = Comparison(comparison.speedup, Verdict.UNCLEAR)
    return TimeRatio(comparison.speedup.estimate, comparison, reason, kind=kind, by_kind=by_kind, apart=True)


def _changes(left: GridEntry, right: GridEntry, pair_of: PairOf) -> dict[TimeKind, CaseChange]:
    """The change of a case by every kind of time that both runs have."""
    noise = float(np.hypot(_noise(left), _noise(right)))
    runs = pair_of(left.source, right.source)
    return {kind: change for kind in TimeKind if (change := runs.change(left.figure, right.figure, kind, noise))}


def _log_ratio(left: GridEntry, right: GridEntry, pair_of: PairOf, settings: CompareSettings) -> UnpairedLogRatio:
    """The log-ratio of two figures of different runs, by the times that judge it, with all of its uncertainty."""
    kind = pair_of(left.source, right.source).kind_of(left.figure, right.figure)
    change = _changes(left, right, pair_of)[kind]
    return change.left_in if settings.raw else change.log_ratio


def _noise(entry: GridEntry) -> float:
    return entry.source.noise.get(entry.figure.workload, 0.0)


def geometric_mean(
    rows: Sequence[GridRow],
    ratios: Sequence[TimeRatio | None],
    column: int,
    pair_of: PairOf,
    settings: CompareSettings,
) -> GeometricMean | None:
    """The geometric mean of a column's ratios, without those of floors; None where no case has a ratio.

    Args:
        rows: of the grid.
        ratios: what `compare_column` made of them.
        column: the later column.
        pair_of: two runs, as a whole.
        settings: as for the ratios; the interval has their confidence.
    """
    pairs = [
        (pair, ratio)
        for row, ratio in zip(rows, ratios, strict=True)
        if ratio and (pair := timed_pair(row, column)) and not is_no_kernel(pair[0])
    ]
    if not pairs:
        return None
    value = math.exp(float(np.mean([math.log(ratio.value) for _, ratio in pairs])))
    if any(ratio.comparison is None for _, ratio in pairs):
        return GeometricMean(len(pairs), value, None)
    return GeometricMean(len(pairs), value, _mean_interval([pair for pair, _ in pairs], pair_of, settings))


def _mean_interval(pairs: Sequence[EntryPair], pair_of: PairOf, settings: CompareSettings) -> Interval | None:
    if all(_same_rounds(left, right) for left, right in pairs):
        return _paired_mean_interval(pairs, settings.confidence)
    if any(_same_rounds(left, right) for left, right in pairs):
        return None
    sources = {(left.source.name, right.source.name) for left, right in pairs}
    if len(sources) > 1:  # each pair of runs has a launch of its own, and they are not independent
        return None
    runs = pair_of(pairs[0][0].source, pairs[0][1].source)
    if len({runs.kind_of(left.figure, right.figure) for left, right in pairs}) > 1:
        return None
    ratios = [_log_ratio(left, right, pair_of, settings) for left, right in pairs]
    places = [(right.figure.op, right.figure.workload) for _, right in pairs]
    mean, noise = np.mean([ratio.mean for ratio in ratios]), np.mean([ratio.noise for ratio in ratios])
    bias = max(ratio.bias for ratio in ratios)
    return UnpairedLogRatio(float(mean), _mean_components(ratios, places), float(noise), bias).speedup(
        settings.confidence
    )


def _mean_components(
    ratios: Sequence[UnpairedLogRatio], places: Sequence[tuple[str, Workload]]
) -> tuple[Variance, ...]:
    """The variance of a mean of ratios: each case's own parts, then its workload's and its run's, added as they are."""
    count = len(ratios)
    own = [Variance(part.value / count**2, part.df) for ratio in ratios for part in ratio.components[:2]]
    # The strays of one workload have one estimated dispersion between them.
    strays = [_joint([ratio.components[2] for ratio in here], count, alike=False) for here in _by(places, ratios)]
    shared = [_joint([ratio.components[3] for ratio in here], count, alike=True) for here in _by(places, ratios)]
    return (*own, *strays, *shared, _joint([ratio.components[4] for ratio in ratios], count, alike=True))


def _by(places: Sequence[T], ratios: Sequence[UnpairedLogRatio]) -> list[list[UnpairedLogRatio]]:
    groups: dict[T, list[UnpairedLogRatio]] = {}
    for place, ratio in zip(places, ratios, strict=True):
        groups.setdefault(place, []).append(ratio)
    return list(groups.values())


def _joint(parts: Sequence[Variance], count: int, *, alike: bool) -> Variance:
    """The variance of a sum over `count`, of parts that are the same error (`alike`) or independent of each other."""
    sds = [math.sqrt(part.value) for part in parts]
    variance = sum(sds) ** 2 if alike else sum(sd**2 for sd in sds)
    return Variance(variance / count**2, min(part.df for part in parts))


def _paired_mean_interval(pairs: Sequence[EntryPair], confidence: float) -> Interval | None:
    """Over the rounds in which every case was measured, if the pairs are all of one run."""
    if len({(left.source.name, left.figure.rounds_us.shape) for left, _ in pairs}) > 1:
        return None
    left, right = zip(*pairs, strict=True)
    ratio = ratio_within_run(left[0].source, [each.figure for each in left], [each.figure for each in right])
    return ratio.speedup(confidence) if ratio.n > 1 else None
