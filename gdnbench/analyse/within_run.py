"""The ratio of two sides of one run over their common rounds, or through a case that was timed beside both.

As in the run's own table, launches of processes are subtracted, and the interval includes what else processes add and
the noise of a baseline that differs significantly from itself. Sides that share no rounds are compared through a case
that was timed beside both (`compare.bridge`).

Compares kernels of one run that share no rounds, through a case that was timed in the rounds of both.

A kernel with Python of its own is timed in other processes than compiled kernels, in turns, and the baseline in both
(docs/threats.md). Its ratio to a compiled kernel is then the quotient of two ratios, each paired by round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gdnbench.analyse.analysis import ALARM
from gdnbench.analyse.figure import Figure, FigureSource
from gdnbench.analyse.run_change import is_empty, own_sd
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import CPU
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.estimators import weighted_geomean
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, estimate_effects, joint_process

Rounds = npt.NDArray[np.bool_]
"""Mask of a run's rounds, shape (rounds,)."""


def move_rounds(times_us: FloatArray, bridge_us: FloatArray, rounds: Rounds) -> FloatArray:
    """Converts the rounds of a case to other rounds of the run, by the bridge that was timed in both.

    The n-th common round of case and bridge is paired with the n-th of the wanted rounds, so that a ratio to what was
    timed there has the noise of both of its parts, and processes are paired with processes. All arrays have the shape
    (rounds,), times in microseconds, NaN where there is none; the result is NaN outside the wanted rounds, and where
    the case has fewer.
    """
    there = np.flatnonzero(np.isfinite(times_us) & np.isfinite(bridge_us))
    here = np.flatnonzero(rounds & np.isfinite(bridge_us))
    count = min(len(there), len(here))
    there, here = there[:count], here[:count]
    moved = np.full_like(times_us, np.nan)
    moved[here] = times_us[there] * bridge_us[here] / bridge_us[there]
    return moved


def side_by_side(times_us: Mapping[str, FloatArray], bridge: str) -> dict[str, FloatArray]:
    """Moves the cases of a workload to the rounds in which most of them were timed, through `bridge`, timed beside all.

    `times_us` has the shape (rounds,) by case, microseconds, NaN where a round is missing. Cases that already share
    rounds stay as they are, as does a case that shares none with the bridge.
    """
    known = {name: np.isfinite(times) for name, times in times_us.items() if name != bridge}
    if bridge not in times_us or not known:
        return dict(times_us)
    beside = {name: [other for other in known if (known[other] & mask).any()] for name, mask in known.items()}
    most = max(beside.values(), key=len)
    if len(most) == len(known):
        return dict(times_us)
    rounds = np.logical_or.reduce([known[name] for name in most])
    moved = {
        name: times if name in most else move_rounds(times, times_us[bridge], rounds)
        for name, times in times_us.items()
        if name != bridge
    }
    return {**times_us, **moved, bridge: np.where(rounds, times_us[bridge], np.nan)}


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
