"""Kernels of one run that share no rounds: what was timed beside each of them stands between.

A kernel with Python of its own is timed in other processes than what is compiled, by turns, and the baseline in both
(docs/threats.md). Its ratio to a compiled kernel is then that of two ratios, each paired by round.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gdnbench.stats import FloatArray

Rounds = npt.NDArray[np.bool_]
"""Shape (rounds,): which of a run's rounds."""


def move_rounds(times_us: FloatArray, bridge_us: FloatArray, rounds: Rounds) -> FloatArray:
    """The rounds of a case as other rounds of the run would have shown them, by what was timed in both.

    The n-th round there stands beside the n-th here, so that a ratio to what was timed here has the noise of both of
    its parts, and processes stand beside processes.

    Args:
        times_us: shape (rounds,), of the case, microseconds; NaN where it was not timed.
        bridge_us: of what was timed beside it, and in the other rounds.
        rounds: where the case is wanted.

    Returns:
        Shape (rounds,); NaN in every other round, and where the case has fewer than are wanted.
    """
    there = np.flatnonzero(np.isfinite(times_us) & np.isfinite(bridge_us))
    here = np.flatnonzero(rounds & np.isfinite(bridge_us))
    count = min(len(there), len(here))
    there, here = there[:count], here[:count]
    moved = np.full_like(times_us, np.nan)
    moved[here] = times_us[there] * bridge_us[here] / bridge_us[there]
    return moved


def side_by_side(times_us: Mapping[str, FloatArray], bridge: str) -> dict[str, FloatArray]:
    """The cases of a workload in rounds that they share: those in which most of them were timed.

    Args:
        times_us: shape (rounds,) of each, microseconds, NaN where a round is missing.
        bridge: the one of them that was timed beside all.

    Returns:
        The same where all share rounds. A case that shares none with the bridge stays as it is.
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
