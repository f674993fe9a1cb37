"""A column against the first: a ratio for each case, with interval and verdict where both were measured; their mean.

Figures of one run are paired by round. As in the run's own table, launches of processes are subtracted, and the
interval includes what else processes add and the noise of a baseline that differs significantly from itself. Sides that
share no rounds are compared through a case that was timed beside both, as a kernel with Python of its own is
(docs/threats.md): its ratio is the quotient of two ratios, each paired by round. Figures of two runs are compared by
their mean times, less the change of the runs as a whole, whose uncertainty is in the interval (`run_change`).

In the geometric mean, the rounds and the strays of cases shrink with the number of cases, what is common to the cases
of a workload shrinks with the number of workloads, and what is common to the run does not shrink, nor does A/A noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gdnbench.analyse.analysis import ALARM
from gdnbench.analyse.figure import Figure, FigureSource
from gdnbench.analyse.grid import GridEntry, GridRow
from gdnbench.analyse.run_change import RunPair, TimeKind, is_empty, own_sd
from gdnbench.errors import UsageError
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import CPU
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.estimators import weighted_geomean
from gdnbench.stats.interval import Comparison, Interval, Variance, Verdict
from gdnbench.stats.multiple import compare_unpaired, judge_family
from gdnbench.stats.paired import PairedLogRatio, UnpairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, estimate_effects, joint_process
from gdnbench.wording import plural

Rounds = npt.NDArray[np.bool_]  # mask of a run's rounds, shape (rounds,)


def move_rounds(times_us: FloatArray, bridge_us: FloatArray, rounds: Rounds) -> FloatArray:
    """Converts the rounds of a case to other rounds of the run, by the bridge that was timed in both.

    The n-th common round of case and bridge is paired with the n-th of the wanted rounds, so that a ratio to what was
    timed there has the noise of both of its parts, and processes are paired with processes. All arrays have the shape
    (rounds,), times in microseconds, NaN where there is none; the result is NaN outside the wanted rounds, and where
    the case has fewer.
    """
    before = np.flatnonzero(np.isfinite(times_us) & np.isfinite(bridge_us))
    after = np.flatnonzero(rounds & np.isfinite(bridge_us))
    count = min(len(before), len(after))
    before, after = before[:count], after[:count]
    moved = np.full_like(times_us, np.nan)
    moved[after] = times_us[before] * bridge_us[after] / bridge_us[before]
    return moved


Side = Sequence[Figure]
"""Figures of one run, all with the same number of rounds: they stand for the geometric mean of their times."""

_SideKey = tuple[tuple[Role, str, Params, Workload], ...]


def ratio_within_run(source: FigureSource, left: Side, right: Side) -> PairedLogRatio:
    """The estimate of log(left / right) from the rounds of a run, by one timer; sides have as many figures."""
    workloads = list(dict.fromkeys(figure.workload for figure in (*left, *right)))
    sides = {_key(side): side for side in (left, right, *_others(source, left[0], workloads))}
    times = {
        key: weighted_geomean([figure.rounds_us for figure in side], [1.0] * len(side)) for key, side in sides.items()
    }
    if (bridge := _bridge(sides, times, left, right)) is not None:
        known = np.isfinite(times[_key(left)])
        times[_key(right)] = move_rounds(times[_key(right)], times[bridge], known)
    both = np.isfinite(times[_key(left)]) & np.isfinite(times[_key(right)])
    times = {key: mean[both] for key, mean in times.items()}
    if not both.any():
        return PairedLogRatio.from_rounds(times[_key(right)], times[_key(left)])
    effects = estimate_effects(
        times,
        _process([*left, *right])[both],
        left_out={key for key, side in sides.items() if any(map(is_empty, side))},
        has_launch=left[0].timer == "nvbench",
        usual_sd_us=USUAL_LAUNCH_SD_US,
        own_sds={
            key: own_sd(side[0].op, max(figure.launches for figure in side))
            for key, side in sides.items()
            if side[0].role is not Role.CONTROL and side[0].timer != CPU
        },
    )

    def paired(kernel: _SideKey, baseline: _SideKey) -> PairedLogRatio:
        return PairedLogRatio.with_effects((kernel, baseline), (times[kernel], times[baseline]), effects)

    by_role = {side[0].role: key for key, side in sides.items() if len({figure.role for figure in side}) == 1}
    control, baseline = by_role.get(Role.CONTROL), by_role.get(Role.BASELINE)
    ratio = paired(_key(right), _key(left))
    return ratio.widened_by(paired(control, baseline), ALARM) if control and baseline else ratio


def _bridge(
    sides: Mapping[_SideKey, Side], times: Mapping[_SideKey, FloatArray], left: Side, right: Side
) -> _SideKey | None:
    known = {key: np.isfinite(each) for key, each in times.items()}
    one, other = known[_key(left)], known[_key(right)]
    if (one & other).any():
        return None
    found = [key for key, rounds in known.items() if (rounds & one).any() and (rounds & other).any()]
    return min(found, key=lambda key: sides[key][0].role is not Role.BASELINE, default=None)


def _others(source: FigureSource, like: Figure, workloads: Sequence[Workload]) -> Iterator[Side]:
    found: dict[tuple[Role, str], dict[Workload, Figure]] = {}
    for figure in (*source.figures, *source.controls):
        if figure.timer == like.timer and figure.rounds_us.shape == like.rounds_us.shape:
            found.setdefault((figure.role, figure.label), {})[figure.workload] = figure
    for at in found.values():
        if at.keys() >= set(workloads):
            yield [at[workload] for workload in workloads]


def _key(side: Side) -> _SideKey:
    return tuple((figure.role, figure.label, figure.params, figure.workload) for figure in side)


def _process(figures: Side) -> IntArray:
    """The process of each round: workloads that did not fit into memory together were measured by several."""
    by_workload: dict[Workload, IntArray] = {}
    for figure in figures:
        is_known = figure.processes.shape == figure.rounds_us.shape
        process = figure.processes if is_known else np.zeros_like(figure.rounds_us, int)
        by_workload[figure.workload] = np.maximum(by_workload.get(figure.workload, process), process)
    return joint_process(list(by_workload.values()))


FEWEST_PEERS = 4  # the fewest unchanged cases of other kernels in both runs for a verdict on a case's own change

NO_ROUNDS = "not measured here"
OTHER_TIMER = "the timers differ"

T = TypeVar("T")
PairOf = Callable[[FigureSource, FigureSource], RunPair]  # two runs, as a whole
EntryPair = tuple[GridEntry, GridEntry]  # a figure of the first column and one of a later column


@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """The margin up to which ratios count as none, and the confidence of each column's family of comparisons."""

    margin: float
    confidence: float = 0.95


def check_settings(margin: float, *, strict: bool, gate: str) -> CompareSettings:
    """The settings of a command line; `gate` is the text of `--fail-on`, empty without it."""
    if not 0.0 <= margin < 1.0:
        raise UsageError(f"a margin of {margin:g} is not a relative difference", "0.005 is half a percent")
    if strict and not gate:
        raise UsageError("--strict needs --fail-on", "as in --fail-on slower:1% --strict")
    return CompareSettings(margin=margin)


@dataclass(frozen=True)
class TimeRatio:
    """A later figure against the first."""

    value: float  # time of the first / time of the later: above 1 the later is faster
    comparison: Comparison | None = None  # its interval and verdict, or None
    reason: str = ""  # why there is no interval or no verdict; empty if there is one
    kind: TimeKind = TimeKind.STREAM
    by_kind: Mapping[TimeKind, float] = field(default_factory=dict)  # of two runs, by each kind
    apart: bool = False  # whether the figures are of two runs


@dataclass(frozen=True)
class GeometricMean:
    """The geometric mean of a column's ratios, floors left out; no interval over several runs or pairs of runs."""

    cases: int
    value: float
    interval: Interval | None


def compare_column(
    rows: Sequence[GridRow], column: int, pair_of: PairOf, settings: CompareSettings
) -> tuple[TimeRatio | None, ...]:
    """Compares a column with the first, row by row: of one run, of two, and floors apart as Holm's families."""
    pairs = {index: pair for index, row in enumerate(rows) if (pair := timed_pair(row, column))}
    comparable = {index: pair for index, pair in pairs.items() if _both_measured(*pair) and _same_timer(*pair)}
    within, changes = {}, {}
    for index, (left, right) in comparable.items():
        if not (left.figure.has_rounds and right.figure.has_rounds):
            continue
        if _same_rounds(left, right):
            within[index] = ratio_within_run(left.source, [left.figure], [right.figure])
        else:
            changes[index] = _changes(left, right, pair_of)
    limits = {"margin": settings.margin, "confidence": settings.confidence}
    comparisons: dict[int, Comparison] = {}
    for paired in _kernels_and_floors(within, pairs):
        comparisons |= judge_family(paired, **limits)
    log_ratios = {index: _log_ratio(*pairs[index], pair_of) for index in changes}
    for unpaired in _kernels_and_floors(log_ratios, pairs):
        comparisons |= compare_unpaired(unpaired, **limits)
    return tuple(
        _time_ratio(*pairs[index], comparisons.get(index), changes.get(index, {}), pair_of) if index in pairs else None
        for index in range(len(rows))
    )


def timed_pair(row: GridRow, column: int) -> EntryPair | None:
    """Returns a row's first and later figure, or None unless both have a time."""
    left, right = row.entries[0], row.entries[column]
    if left and right and left.figure.status is Status.OK and right.figure.status is Status.OK:
        return left, right
    return None


def is_no_kernel(entry: GridEntry) -> bool:
    """Whether it is a floor or an ablation."""
    return not entry.figure.role.does_the_work


def _both_measured(left: GridEntry, right: GridEntry) -> bool:
    return left.source.is_measured and right.source.is_measured


def _same_timer(left: GridEntry, right: GridEntry) -> bool:
    """Whether both time the same span: only some timers include the launch."""
    return left.figure.timer == right.figure.timer


def _same_rounds(left: GridEntry, right: GridEntry) -> bool:
    return left.source is right.source and left.figure.rounds_us.shape == right.figure.rounds_us.shape


def _kernels_and_floors(values: Mapping[int, T], pairs: Mapping[int, EntryPair]) -> tuple[dict[int, T], dict[int, T]]:
    """Two families, each corrected for its own number."""
    floors = {index: value for index, value in values.items() if is_no_kernel(pairs[index][0])}
    return {index: value for index, value in values.items() if index not in floors}, floors


def _time_ratio(
    left: GridEntry,
    right: GridEntry,
    comparison: Comparison | None,
    changes: Mapping[TimeKind, UnpairedLogRatio],
    pair_of: PairOf,
) -> TimeRatio:
    if comparison is None:
        other_timer = _both_measured(left, right) and not _same_timer(left, right)
        value = left.figure.time_us / right.figure.time_us
        return TimeRatio(value, reason=OTHER_TIMER if other_timer else NO_ROUNDS)
    if not changes:
        return TimeRatio(comparison.speedup.estimate, comparison)
    by_kind = {kind: math.exp(change.mean) for kind, change in changes.items()}
    runs = pair_of(left.source, right.source)
    kind = runs.kind_of(left.figure, right.figure)
    reason = ""
    if left.source.trim != right.source.trim:
        reason = (
            f"samples are trimmed by {left.source.trim} at either end in one run, by {right.source.trim} in the other"
        )
    elif runs.of_kind(kind).same_model and (peers := runs.peers(left.figure, right.figure, kind)) < FEWEST_PEERS:
        reason = f"{plural(peers, 'unchanged case')} in both runs, and {FEWEST_PEERS} are needed for a verdict"
    if reason:
        comparison = Comparison(comparison.speedup, Verdict.UNCLEAR)
    return TimeRatio(comparison.speedup.estimate, comparison, reason, kind=kind, by_kind=by_kind, apart=True)


def _changes(left: GridEntry, right: GridEntry, pair_of: PairOf) -> dict[TimeKind, UnpairedLogRatio]:
    noises = [each.source.noise.get(each.figure.workload, 0.0) for each in (left, right)]
    noise = float(np.hypot(noises[0], noises[1]))
    runs = pair_of(left.source, right.source)
    return {kind: change for kind in TimeKind if (change := runs.change(left.figure, right.figure, kind, noise))}


def _log_ratio(left: GridEntry, right: GridEntry, pair_of: PairOf) -> UnpairedLogRatio:
    kind = pair_of(left.source, right.source).kind_of(left.figure, right.figure)
    return _changes(left, right, pair_of)[kind]


def geometric_mean(
    rows: Sequence[GridRow], ratios: Sequence[TimeRatio | None], column: int, pair_of: PairOf, settings: CompareSettings
) -> GeometricMean | None:
    """Returns the geometric mean of a column's `ratios`, without those of floors, or None if no case has a ratio."""
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
        if len({(left.source.name, left.figure.rounds_us.shape) for left, _ in pairs}) > 1:
            return None
        sides = ([each.figure for each in side] for side in zip(*pairs, strict=True))
        ratio = ratio_within_run(pairs[0][0].source, *sides)  # over the rounds in which every case was measured
        return ratio.speedup(settings.confidence) if ratio.n > 1 else None
    if any(_same_rounds(left, right) for left, right in pairs):
        return None
    runs = {(left.source.name, right.source.name): pair_of(left.source, right.source) for left, right in pairs}
    kinds = {each.kind_of(left.figure, right.figure) for each in runs.values() for left, right in pairs}
    if len(runs) > 1 or len(kinds) > 1:  # each pair of runs has its own launch, and the pairs are not independent
        return None
    ratios = [_log_ratio(left, right, pair_of) for left, right in pairs]
    places = [(right.figure.op, right.figure.workload) for _, right in pairs]
    mean, noise = np.mean([ratio.mean for ratio in ratios]), np.mean([ratio.noise for ratio in ratios])
    unpaired = UnpairedLogRatio(float(mean), _mean_components(ratios, places), float(noise))
    return unpaired.speedup(settings.confidence)


def _mean_components(
    ratios: Sequence[UnpairedLogRatio], places: Sequence[tuple[str, Workload]]
) -> tuple[Variance, ...]:
    """The variance of a mean of ratios: each case's own parts, then its workload's and its run's, added as they are."""
    count = len(ratios)
    own = [Variance(part.value / count**2, part.df) for ratio in ratios for part in ratio.components[:2]]
    # The strays of one workload share one estimated dispersion.
    by_place: dict[tuple[str, Workload], list[UnpairedLogRatio]] = {}
    for place, ratio in zip(places, ratios, strict=True):
        by_place.setdefault(place, []).append(ratio)
    strays = [_joint([each.components[2] for each in group], count, alike=False) for group in by_place.values()]
    shared = [_joint([each.components[3] for each in group], count, alike=True) for group in by_place.values()]
    return (*own, *strays, *shared, _joint([ratio.components[4] for ratio in ratios], count, alike=True))


def _joint(parts: Sequence[Variance], count: int, *, alike: bool) -> Variance:
    """The variance of a sum over `count`, of parts that are the same error (`alike`) or independent of each other."""
    sds = [math.sqrt(part.value) for part in parts]
    variance = sum(sds) ** 2 if alike else sum(sd**2 for sd in sds)
    return Variance(variance / count**2, min(part.df for part in parts))
