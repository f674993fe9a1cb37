"""Compares kernels of one run that share no rounds, through a case that was timed in the rounds of both.

A kernel with Python of its own is timed in other processes than compiled kernels, in turns, and the baseline in both
(docs/threats.md). Its ratio to a compiled kernel is then the quotient of two ratios, each paired by round.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gdnbench.stats import FloatArray

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
