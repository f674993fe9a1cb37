"""The weighted ratio of a kernel to its baseline over all workloads of a run, as far as it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdnbench.measuring.analyse import ALARM
from gdnbench.measuring.request import Settings
from gdnbench.measuring.rounds import Collected, RoundTimes
from gdnbench.model.case import Case
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import weighted_geomean
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, ProcessEffects, estimate_effects, joint_process

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
    """Returns log(baseline / kernel), weighted over workloads, or None if one of the two lacks a time at a workload.

    A process adds one launch to the times of all workloads, and so, but for second-order terms, one constant to their
    weighted mean. The ratio is widened by what the control shows. The cases have one kernel among them, the weights are
    positive, and `own_sds` are those of `estimate_effects` by case id, alike at all workloads.
    """
    rounds = RoundTimes(collected, settings.confidence, settings.trim)
    means = _means(cases, rounds, weights)
    if not {Role.KERNEL, Role.BASELINE} <= means.keys():
        return None
    effects = estimate_effects(
        means,
        joint_process([rounds.process(ids) for ids in _ids_by_workload(cases, rounds)]),
        has_launch=has_launch,
        usual_sd_us=USUAL_LAUNCH_SD_US,
        own_sds={case.role: own_sds[case.id] for case in cases if case.id in own_sds} if own_sds else None,
    )
    ratio = _paired(means, effects, Role.KERNEL)
    return ratio.widened_by(_paired(means, effects, Role.CONTROL), ALARM) if Role.CONTROL in means else ratio


def _ids_by_workload(cases: Sequence[Case], rounds: RoundTimes) -> list[list[str]]:
    found: dict[Workload, list[str]] = {}
    for case in cases:
        if case.id in rounds.times:
            found.setdefault(case.workload, []).append(case.id)
    return list(found.values())


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
