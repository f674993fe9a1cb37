"""Several comparisons at once, with a bound on the chance of any false claim among them.

Families are corrected as in Holm, Scandinavian Journal of Statistics 6 (1979), which assumes nothing of how the
comparisons depend on one another; here all share one baseline. Comparisons with the best are the question of Hsu,
Annals of Statistics 12 (1984). Here the times of one round depend on one another, so they are paired and the level is
divided by their number (Bonferroni), which assumes nothing of that dependence.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from gdnbench.stats import FloatArray
from gdnbench.stats.interval import DEFAULT_MARGIN, Comparison, judge
from gdnbench.stats.paired import Effects, PairedLogRatio, UnpairedLogRatio, judge_paired

K = TypeVar("K", bound=Hashable)


def judge_family(
    ratios: Mapping[K, PairedLogRatio], *, margin: float = DEFAULT_MARGIN, confidence: float = 0.95
) -> dict[K, Comparison]:
    """Compares every kernel of a family with its baseline, given their log-ratios by any key.

    The chance that any kernel whose true difference is within the margin is called FASTER or SLOWER is at most
    `1 - confidence` for the whole family. Each interval has the level at which its verdict was taken, and so agrees
    with it. A pair with fewer than two paired rounds counts as a member.
    """
    levels = holm_levels([ratio.p_value(margin) for ratio in ratios.values()], 1.0 - confidence)
    return {
        key: judge_paired(ratio, margin, 1.0 - level)
        for (key, ratio), level in zip(ratios.items(), levels, strict=True)
    }


def compare_unpaired(
    ratios: Mapping[K, UnpairedLogRatio], *, margin: float = DEFAULT_MARGIN, confidence: float = 0.95
) -> dict[K, Comparison]:
    """Judges a family of comparisons between runs with Holm's correction, as `judge_family` does those of one run."""
    levels = holm_levels([ratio.p_value(margin) for ratio in ratios.values()], 1.0 - confidence)
    intervals = [ratio.speedup(1.0 - level) for ratio, level in zip(ratios.values(), levels, strict=True)]
    return {key: Comparison(interval, judge(interval, margin)) for key, interval in zip(ratios, intervals, strict=True)}


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """The level at which Holm's step-down procedure judges each p-value, in the order given.

    In ascending order the i-th of m is judged at alpha / (m - i + 1) while all before it were rejected; the first that
    is not rejected, and all after it, are judged at the level of that first one.
    """
    levels = [alpha] * len(p_values)
    standing = len(p_values)
    for index in sorted(range(len(p_values)), key=p_values.__getitem__):
        levels[index] = alpha / standing
        if p_values[index] <= levels[index]:
            standing -= 1
    return levels


@dataclass(frozen=True, slots=True)
class BestComparison(Generic[K]):
    """The fastest of several cases, and the leader's time over that of each other, a speedup of at most about 1."""

    leader: K
    others: dict[K, Comparison]


def compare_with_best(
    times_us: Mapping[K, FloatArray],
    *,
    margin: float = DEFAULT_MARGIN,
    confidence: float = 0.95,
    look: int = 1,
    effects: Effects[K] | None = None,
) -> BestComparison[K]:
    """Finds the fastest case, among those with the most rounds, and compares every other with it.

    A race tests sequentially: at each look at its rounds it drops the cases that are SLOWER. The i-th look takes the
    share `1 / (i * (i + 1))` of the error rate, and these shares sum to 1: the chance that the truly fastest case is
    dropped at any look, by any rival, is at most `1 - confidence`.

    `times_us` has the shape (rounds,) for each case, microseconds, NaN where the case was not measured. A case dropped
    earlier has fewer rounds than the others and cannot lead. `look` counts from 1. `effects` are of the processes or
    cards that measured the rounds. ValueError is raised if no case has a round.
    """
    if look < 1:
        raise ValueError(f"looks count from 1, not {look}")
    leader = _fastest(times_us)
    rivals = max(1, len(times_us) - 1)
    level = (1.0 - confidence) / (look * (look + 1) * rivals)
    others = {}
    for key, rounds in times_us.items():
        if key != leader:
            pair = rounds, times_us[leader]
            paired = PairedLogRatio.with_effects((key, leader), pair, effects) if effects else None
            others[key] = judge_paired(paired or PairedLogRatio.from_rounds(*pair), margin, 1.0 - level)
    return BestComparison(leader, others)


def _fastest(times_us: Mapping[K, FloatArray]) -> K:
    rounds = {key: np.isfinite(times) for key, times in times_us.items()}
    most = max((int(present.sum()) for present in rounds.values()), default=0)
    if most == 0:
        raise ValueError("no case has a round, so none is the fastest")
    means = {
        key: float(np.mean(np.log(times_us[key][present])))
        for key, present in rounds.items()
        if int(present.sum()) == most
    }
    return min(means, key=means.__getitem__)
