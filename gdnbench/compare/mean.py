"""The geometric mean of a column's ratios, with an interval where every one of them has rounds.

Rounds are independent from case to case, and so is what a case strays by on its own: both shrink with the number of
cases. The error of the common shift is the same in every case and does not shrink; nor is it known that A/A noise does,
so its mean over the cases is taken whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gdnbench.compare.join import Row
from gdnbench.compare.keys import Entry
from gdnbench.compare.ratio import Ratio, Settings, ShiftOf, is_floor, same_run, timed_pair, unpaired
from gdnbench.compare.shift import Estimate
from gdnbench.stats import Interval, t_interval
from gdnbench.stats.unpaired import Blur, UnpairedLogRatio


def mean_ratio(
    rows: Sequence[Row], ratios: Sequence[Ratio | None], column: int, shift_of: ShiftOf, settings: Settings
) -> tuple[int, float, Interval | None] | None:
    """The number of cases, their geometric mean ratio, and its interval; floors are left out.

    Returns:
        None where no case has a ratio; the interval is None where a ratio has none.
    """
    pairs = [
        (pair, ratio)
        for row, ratio in zip(rows, ratios, strict=True)
        if ratio and (pair := timed_pair(row, column)) and not is_floor(pair[0])
    ]
    if not pairs:
        return None
    value = math.exp(float(np.mean([math.log(ratio.value) for _, ratio in pairs])))
    if any(ratio.comparison is None for _, ratio in pairs):
        return len(pairs), value, None
    return len(pairs), value, _interval([pair for pair, _ in pairs], shift_of, settings)


def _interval(pairs: Sequence[tuple[Entry, Entry]], shift_of: ShiftOf, settings: Settings) -> Interval | None:
    if all(same_run(left, right) for left, right in pairs):
        return _paired(pairs, settings.confidence)
    if any(same_run(left, right) for left, right in pairs):
        return None
    sources = {(left.source.name, right.source.name) for left, right in pairs}
    if len(sources) > 1:  # each pair of runs has a shift of its own, and they are not independent
        return None
    ratios = [unpaired(left, right, shift_of, settings) for left, right in pairs]
    count = len(ratios)
    rounds = [Blur(blur.variance / count**2, blur.df) for ratio in ratios for blur in ratio.blurs[:2]]
    shift = shift_of(pairs[0][0].source, pairs[0][1].source)
    drifts = (_drift([shift.estimate(right.figure.kernel) for _, right in pairs]),) if shift else ()
    mean, noise = np.mean([ratio.mean for ratio in ratios]), np.mean([ratio.noise for ratio in ratios])
    bias = max(ratio.bias for ratio in ratios)
    whole = UnpairedLogRatio(float(mean), (*rounds, *drifts), float(noise), bias)
    return whole.speedup(settings.confidence)


def _drift(estimates: Sequence[Estimate]) -> Blur:
    """What the mean may be off by for the shift; the cases' estimates hardly differ, and the worst stands for all."""
    own = max(estimate.own.variance for estimate in estimates) / len(estimates)
    shared = max(estimate.shared.variance for estimate in estimates)
    return Blur(own + shared, min(estimate.shared.df for estimate in estimates))


def _paired(pairs: Sequence[tuple[Entry, Entry]], confidence: float) -> Interval | None:
    """Over the rounds in which every case was measured, if the pairs are all of one run."""
    if len({(left.source.name, left.figure.rounds_us.shape) for left, _ in pairs}) > 1:
        return None
    ratios = np.mean([np.log(left.figure.rounds_us) - np.log(right.figure.rounds_us) for left, right in pairs], axis=0)
    present = ratios[np.isfinite(ratios)]
    if present.size < 2:
        return None
    logs = t_interval(present, confidence)
    return Interval(*(float(np.exp(end)) for end in (logs.estimate, logs.low, logs.high)))
