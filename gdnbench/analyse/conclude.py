"""Concludes a sweep: plateaus, the best kernel of each workload, and a kernel's weighted ratio over all workloads.

And says which kernels of a run are close, so that further processes may change what the run says of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from gdnbench.analyse.analysis import ALARM, own_sds_of, times_by_workload
from gdnbench.analyse.rounds import Collected, RoundTimes, WorkloadTimes
from gdnbench.catalog.catalog import Catalog
from gdnbench.model.case import Case
from gdnbench.model.declaration import Params
from gdnbench.model.kernel import Kernel
from gdnbench.model.measurement import OneForAll, Place, Plateau, Point, Sweep
from gdnbench.model.op import USUAL_PROCESS_SD, Op
from gdnbench.model.status import Role, Timer
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import weighted_geomean
from gdnbench.stats.interval import Comparison, Verdict, half_width_of, log_margin
from gdnbench.stats.multiple import BestComparison, compare_with_best
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, ProcessEffects, estimate_effects, joint_process
from gdnbench.store.journal import Examined
from gdnbench.store.settings import Settings, confidence_of_look

RaceGroup = tuple[str, Workload]  # kernel and workload, whose points race against each other


def group_cases(cases: Sequence[Case], swept: Collection[str]) -> dict[RaceGroup, tuple[Case, ...]]:
    """The racing points by kernel and workload."""
    groups: dict[RaceGroup, tuple[Case, ...]] = {}
    for case in cases:
        if case.is_point_of(swept):
            key = (case.variant.kernel, case.workload)
            groups[key] = (*groups.get(key, ()), case)
    return groups


def judge_groups(
    groups: Mapping[RaceGroup, Sequence[Case]],
    rounds: RoundTimes,
    collected: Collected,
    margin: float,
    confidence: float,
    own_sd: float = USUAL_PROCESS_SD[0],
) -> dict[RaceGroup, BestComparison[Case]]:
    """Compares the points of each group with its leader; its burn-ins count the interim analyses."""
    fields: dict[RaceGroup, BestComparison[Case]] = {}
    for group, cases in groups.items():
        points = {case: rounds.times[case.id] for case in cases if case.id in rounds.times}
        if any(np.isfinite(each).any() for each in points.values()):
            process = rounds.process([case.id for case in points])
            own_sds = dict.fromkeys(points, own_sd)
            effects = estimate_effects(points, process, usual_sd_us=USUAL_LAUNCH_SD_US, own_sds=own_sds)
            look = max(1, *(collected.burn_ins[case.id] for case in points))
            fields[group] = compare_with_best(points, margin=margin, confidence=confidence, look=look, effects=effects)
    return fields


def survivors(field: BestComparison[Case], collected: Collected) -> tuple[Case, ...]:
    """The leader and the points that may be as fast; a point with fewer rounds was dropped earlier."""
    most = len(collected.samples[field.leader.id])
    others = (
        case
        for case, comparison in field.others.items()
        if comparison.verdict is not Verdict.SLOWER and len(collected.samples[case.id]) == most
    )
    return (field.leader, *others)


def conclude(
    catalog: Catalog,
    cases: Sequence[Case],
    swept: Mapping[str, Sequence[str]],
    collected: Collected,
    settings: Settings,
) -> Sweep:
    """Returns the conclusions of a sweep of `swept` params, by kernel; `cases` includes those without samples."""
    groups = group_cases([case for case in cases if collected.samples.get(case.id)], swept)
    rounds = RoundTimes(collected, settings.confidence, settings.trim)
    fields = judge_groups(groups, rounds, collected, settings.margin, settings.confidence)
    points = {group: _points(field, collected) for group, field in fields.items()}
    plateaus = tuple(
        _plateau(catalog.entries[kernel].kernel, workload, points[kernel, workload]) for kernel, workload in fields
    )
    return Sweep(
        axes=_axes(group_cases(cases, swept), swept),
        budget_s=settings.budget_s or 0.0,
        points=tuple(point for group in points.values() for point in group),
        plateaus=plateaus,
        one_for_all=one_for_all_of(catalog, plateaus, points, settings.margin),
        finals=tuple(finals(catalog, plateaus, groups, rounds, settings)),
    )


def _points(field: BestComparison[Case], collected: Collected) -> list[Point]:
    still = set(survivors(field, collected))
    points = [make_point(field.leader, Place.BEST, None, len(collected.samples[field.leader.id]))]
    for case, comparison in field.others.items():
        # A point dropped at an earlier analysis stays slower, though its few rounds give a wider interval by now.
        place = place_of(comparison) if case in still else Place.SLOWER
        points.append(make_point(case, place, comparison, len(collected.samples[case.id])))
    return [points[0], *sorted(points[1:], key=lambda point: point.slower_by)]


def _plateau(kernel: Kernel, workload: Workload, points: Sequence[Point]) -> Plateau:
    tied = [point for point in points if point.place in {Place.BEST, Place.TIED}]
    return Plateau(
        kernel=kernel.name,
        workload=workload,
        best=points[0].label,
        simplest=min(tied, key=lambda point: simplicity(kernel, point.params)).label,
        tied=tuple(point.label for point in tied),
        unclear=tuple(point.label for point in points if point.place is Place.UNCLEAR),
        within=max(point.slower_hi for point in tied),
    )


def simplicity(kernel: Kernel, params: Params) -> tuple[int, tuple[int, ...]]:
    """Sort key, least for the simplest: how many params are not at their defaults, then order among the choices."""
    changed = sum(params[name] != param.default for name, param in kernel.params.items())
    return changed, tuple(param.choices.index(params[name]) for name, param in kernel.params.items())


def one_for_all_of(
    catalog: Catalog, plateaus: Sequence[Plateau], points: Mapping[RaceGroup, Sequence[Point]], margin: float
) -> tuple[OneForAll, ...]:
    """The one point to take for all workloads, of every kernel with several; `margin` is relative."""
    workloads: dict[str, list[Workload]] = {}
    for plateau in plateaus:
        workloads.setdefault(plateau.kernel, []).append(plateau.workload)
    found = (
        _least_regret(catalog.entries[name].kernel, [points[name, workload] for workload in of_kernel], margin)
        for name, of_kernel in workloads.items()
        if len(of_kernel) > 1
    )
    return tuple(each for each in found if each)


def _least_regret(kernel: Kernel, by_workload: Sequence[Sequence[Point]], margin: float) -> OneForAll | None:
    """The simplest point whose worst regret is within the margin of the least worst; None if none is everywhere."""
    labels = set.intersection(*({point.label for point in points} for points in by_workload))
    if not labels:
        return None
    params = {point.label: point.params for point in by_workload[0]}
    choices = [
        OneForAll(
            kernel=kernel.name,
            label=label,
            regret={
                point.workload: max(0.0, point.slower_by)
                for points in by_workload
                for point in points
                if point.label == label
            },
        )
        for label in labels
    ]
    least = min(choice.worst[1] for choice in choices)
    near = [choice for choice in choices if choice.worst[1] <= least + margin]
    return min(near, key=lambda choice: simplicity(kernel, params[choice.label]))


def _axes(
    groups: Mapping[RaceGroup, Sequence[Case]], swept: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, list[str | int]]]:
    axes: dict[str, dict[str, list[str | int]]] = {}
    for (kernel, _), cases in groups.items():
        axes[kernel] = {
            name: list(dict.fromkeys(case.variant.params[name] for case in cases)) for name in swept.get(kernel, ())
        }
    return axes


def finals(
    catalog: Catalog,
    plateaus: Sequence[Plateau],
    groups: Mapping[RaceGroup, Sequence[Case]],
    rounds: RoundTimes,
    settings: Settings,
) -> Iterator[Point]:
    """Compares the kernels' simplest points at each workload, fastest first, in the rounds that all of them share."""
    for cases in _finalists(catalog, plateaus, groups).values():
        times = rounds.together([case.id for case in cases])
        measured_in = min(len(each) for each in times.values())
        if len(cases) < 2 or measured_in == 0:
            continue
        by_id = {case.id: case for case in cases}
        field = compare_with_best(times, margin=settings.margin, confidence=settings.confidence)
        others = [make_point(by_id[key], place_of(each), each, measured_in) for key, each in field.others.items()]
        yield make_point(by_id[field.leader], Place.BEST, None, measured_in)
        yield from sorted(others, key=lambda point: point.slower_by)


def _finalists(
    catalog: Catalog, plateaus: Sequence[Plateau], groups: Mapping[RaceGroup, Sequence[Case]]
) -> dict[Workload, list[Case]]:
    finalists: dict[Workload, list[Case]] = {}
    for plateau in plateaus:
        if not catalog.entries[plateau.kernel].kernel.floor:
            own = groups[plateau.kernel, plateau.workload]
            finalists.setdefault(plateau.workload, []).append(
                next(case for case in own if case.label == plateau.simplest)
            )
    return finalists


def place_of(comparison: Comparison) -> Place:
    """The place of a case, from its comparison with the best."""
    return {Verdict.SAME: Place.TIED, Verdict.SLOWER: Place.SLOWER}.get(comparison.verdict, Place.UNCLEAR)


def make_point(case: Case, place: Place, comparison: Comparison | None, rounds: int) -> Point:
    """Makes a point of a case; its comparison is with the best, and None for the best itself."""
    speedup = comparison.speedup if comparison else None
    return Point(
        kernel=case.variant.kernel,
        label=case.label,
        params=case.variant.params,
        workload=case.workload,
        place=place,
        slower_by=1.0 / speedup.estimate - 1.0 if speedup else 0.0,
        slower_lo=1.0 / speedup.high - 1.0 if speedup else 0.0,
        slower_hi=(1.0 / speedup.low - 1.0 if speedup.low > 0 else float("inf")) if speedup else 0.0,
        rounds=rounds,
    )


Weights = Mapping[Workload, float]


def overall_ratio(
    cases: Sequence[Case],
    collected: Collected,
    weights: Weights,
    settings: Settings,
    *,
    has_launch: bool,
    own_sds: Mapping[str, float] | None = None,
) -> PairedLogRatio | None:
    """log(baseline / kernel), weighted over workloads, or None if one of the two lacks a time at one of them.

    A process adds one launch to the times of all workloads, and so, but for second-order terms, one constant to their
    weighted mean. The ratio is widened by what the control shows.
    """
    rounds = RoundTimes(collected, settings.confidence, settings.trim)
    means = _means(cases, rounds, weights)
    if not {Role.KERNEL, Role.BASELINE} <= means.keys():
        return None
    ids: dict[Workload, list[str]] = {}
    for case in cases:
        if case.id in rounds.times:
            ids.setdefault(case.workload, []).append(case.id)
    effects = estimate_effects(
        means,
        joint_process([rounds.process(of_workload) for of_workload in ids.values()]),
        has_launch=has_launch,
        usual_sd_us=USUAL_LAUNCH_SD_US,
        own_sds={case.role: own_sds[case.id] for case in cases if case.id in own_sds} if own_sds else None,
    )
    ratio = _paired(means, effects, Role.KERNEL)
    return ratio.widened_by(_paired(means, effects, Role.CONTROL), ALARM) if Role.CONTROL in means else ratio


def _means(cases: Sequence[Case], rounds: RoundTimes, weights: Weights) -> dict[Role, FloatArray]:
    """Weighted means of round times over the workloads, for the roles that have a time at each of them."""
    by_role: dict[Role, dict[Workload, FloatArray]] = {}
    for case in cases:
        if case.id in rounds.times and case.workload in weights:
            by_role.setdefault(case.role, {})[case.workload] = rounds.times[case.id]
    return {
        role: weighted_geomean([times[workload] for workload in weights], list(weights.values()))
        for role, times in by_role.items()
        if times.keys() >= weights.keys()
    }


def _paired(means: Mapping[Role, FloatArray], effects: ProcessEffects[Role], role: Role) -> PairedLogRatio:
    return PairedLogRatio.with_effects((role, Role.BASELINE), (means[role], means[Role.BASELINE]), effects)


CLEAR = 2.0
"""Half-widths of the corrected interval between a clear ratio and the margin.

With fewer, noise would decide which cases are left out, and so which intervals are printed.
"""


def find_close(
    op: Op,
    cases: Sequence[Case],
    timed: Mapping[Timer, Collected],
    checked: Mapping[str, Examined],
    settings: Settings,
    apart: Collection[str],
) -> set[str]:
    """Ids of the kernels that are not clear of the baseline and of the fastest kernel by one of the timers.

    The confidence is that of one of as many interim analyses as there are processes.
    """
    confidence = confidence_of_look(settings.confidence, settings.processes)
    own_sds = own_sds_of(op, cases, checked)
    found: set[str] = set()
    for timer, collected in timed.items():
        rounds = RoundTimes(collected, confidence, settings.trim, apart)
        measured = [case for case in cases if case.id in rounds.times]
        floors = {case.id for case in measured if case.role is Role.FLOOR}
        found |= {case.id for case in cases if case.role is Role.KERNEL and case.id not in rounds.times}
        for workload, at in times_by_workload(rounds, measured, floors, timer, own_sds).items():
            here = [case for case in measured if case.workload == workload]
            found |= _close_at(here, at, settings.margin, confidence)
    return found


def _close_at(measured: Sequence[Case], at: WorkloadTimes, margin: float, confidence: float) -> set[str]:
    kernels = [case for case in measured if case.role is Role.KERNEL]
    baselines = [case for case in measured if case.role is Role.BASELINE]
    times = {case.id: at.interval(case.id) for case in (*kernels, *baselines)}
    if not kernels:
        return set()
    fastest = min(times.values(), key=lambda time: time.estimate)
    contenders = {id_ for id_, time in times.items() if not time.low > fastest.high * (1.0 + margin)}

    def is_clear(case: Case) -> bool:
        of_case = (at.paired(case.id, each.id) for each in baselines if at.has_beside(case.id, each.id))
        return all(_is_clear(ratio, margin, confidence) for ratio in of_case)

    return {case.id for case in kernels if case.id in contenders or not is_clear(case)}


def _is_clear(ratio: PairedLogRatio, margin: float, confidence: float) -> bool:
    half_width = half_width_of(ratio.variance, confidence)
    return math.isfinite(half_width) and abs(ratio.mean) - log_margin(margin) > CLEAR * half_width
