"""The ratio of two sides of one run over their common rounds, with all the noise that the run shows.

As in the run's own table, launches of processes are subtracted, and the interval includes what else processes add and
the noise of a baseline that differs significantly from itself. Sides that share no rounds are compared through a case
that was timed beside both (`compare.bridge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gdnbench.compare.bridge import move_rounds
from gdnbench.compare.figure import Figure, FigureSource
from gdnbench.compare.spread import is_empty, own_sd
from gdnbench.measuring.analyse import ALARM
from gdnbench.model.gpu import CPU
from gdnbench.model.params import Params
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.estimators import weighted_geomean
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, estimate_effects, joint_process

Side = Sequence[Figure]
"""Figures of one run, all with the same number of rounds: they stand for the geometric mean of their times."""

_SideKey = tuple[tuple[Role, str, Params, Workload], ...]


def ratio_within_run(source: FigureSource, left: Side, right: Side) -> PairedLogRatio:
    """The estimate of log(left / right) from the rounds of a run.

    The sides have as many figures, at least one, all by the same timer.
    """
    workloads = list(dict.fromkeys(figure.workload for figure in (*left, *right)))
    sides = {_key(side): side for side in (left, right, *_others(source, left[0], workloads))}
    times = {key: _mean(side) for key, side in sides.items()}
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
    """Returns a case timed beside both of two sides that share no rounds, preferably the baseline, or None."""
    known = {key: np.isfinite(each) for key, each in times.items()}
    one, other = known[_key(left)], known[_key(right)]
    if (one & other).any():
        return None
    found = [key for key, rounds in known.items() if (rounds & one).any() and (rounds & other).any()]
    return min(found, key=lambda key: sides[key][0].role is not Role.BASELINE, default=None)


def _others(source: FigureSource, like: Figure, workloads: Sequence[Workload]) -> Iterator[Side]:
    """The figures of each case of the run that has rounds at each of the workloads, the control included."""
    found: dict[tuple[Role, str], dict[Workload, Figure]] = {}
    for figure in (*source.figures, *source.controls):
        if figure.timer == like.timer and figure.rounds_us.shape == like.rounds_us.shape:
            found.setdefault((figure.role, figure.label), {})[figure.workload] = figure
    for at in found.values():
        if at.keys() >= set(workloads):
            yield [at[workload] for workload in workloads]


def _key(side: Side) -> _SideKey:
    return tuple((figure.role, figure.label, figure.params, figure.workload) for figure in side)


def _mean(side: Side) -> FloatArray:
    return weighted_geomean([figure.rounds_us for figure in side], [1.0] * len(side))


def _process(figures: Side) -> IntArray:
    """The process of each round: workloads that did not fit into memory together were measured by several."""
    by_workload: dict[Workload, IntArray] = {}
    for figure in figures:
        told = figure.processes.shape == figure.rounds_us.shape
        own = figure.processes if told else np.zeros_like(figure.rounds_us, int)
        by_workload[figure.workload] = np.maximum(by_workload.get(figure.workload, own), own)
    return joint_process(list(by_workload.values()))
