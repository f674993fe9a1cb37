"""Estimates of variance and of a proportion, their sums, and the half-widths of their intervals.

The degrees of freedom of a sum of independent components are those of Satterthwaite, "An approximate distribution of
estimates of variance components", Biometrics Bulletin 2 (1946).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.interval import Interval


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of an estimate, in its unit squared, and its degrees of freedom, infinite if it is known."""

    value: float = 0.0
    df: float = math.inf


NO_VARIANCE = Variance()
UNKNOWN_VARIANCE = Variance(math.inf, 1.0)


def add_variances(parts: Sequence[Variance]) -> Variance:
    """The variance of a sum of independent errors: `df = (sum v)^2 / sum(v^2 / df)` (Satterthwaite, 1946)."""
    value = spread = 0.0
    for part in parts:
        value += part.value
        if part.value > 0:
            spread += part.value**2 / part.df
    return Variance(value, value**2 / spread if 0 < spread < math.inf else math.inf)


def half_width_of(variance: Variance, confidence: float) -> float:
    """Half-width of the two-sided t-interval of an estimate, in its unit; infinity where the variance is.

    ValueError is raised if `confidence` is not between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if math.isinf(variance.value):
        return math.inf
    level = 1.0 - (1.0 - confidence) / 2.0
    normal = math.isinf(variance.df)
    quantile = scipy.special.ndtri(level) if normal else scipy.special.stdtrit(variance.df, level)
    return float(quantile) * math.sqrt(variance.value)


def squares_within(values: FloatArray, process: IntArray) -> tuple[float, int]:
    """The sum of squared distances of rounds from the mean of their process, and its degrees of freedom.

    `values` and `process` have the shape (rounds,), and no value is missing.
    """
    groups = [values[process == number] for number in np.unique(process)]
    squares = sum(float(np.sum((group - np.mean(group)) ** 2)) for group in groups)
    return squares, len(values) - len(groups)


def share_of(count: int, trials: int, confidence: float = 0.95, *, design_effect: float = 1.0) -> Interval:
    """The share of trials with an event, from 0 to 1, and the interval of Clopper and Pearson, Biometrika 26 (1934).

    The interval covers the true share with at least the confidence asked for. Dependent trials count as fewer, by
    `design_effect`: Korn and Graubard, Survey Methodology 24 (1998). Without trials the estimate is NaN and the
    interval (0, 1). ValueError is raised if `count` is not between 0 and `trials`, or `confidence` is not between 0 and
    1.
    """
    if not 0 <= count <= trials:
        raise ValueError(f"{count} of {trials} is no share")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if trials == 0:
        return Interval(float("nan"), 0.0, 1.0)
    tail = (1.0 - confidence) / 2.0
    events, others = count / design_effect, (trials - count) / design_effect
    low = float(scipy.special.betaincinv(events, others + 1.0, tail)) if count else 0.0
    high = float(scipy.special.betaincinv(events + 1.0, others, 1.0 - tail)) if count < trials else 1.0
    return Interval(count / trials, low, high)


def sharing_design_effect(alike: int) -> float:
    """The design effect of `alike` comparisons with one shared value.

    Differences from one value correlate by a half, and whether they are large correlates by at most that: `alike` of
    them are worth alike / (1 + (alike - 1) / 2) independent comparisons (Kish, Survey Sampling, 1965).
    """
    return 1.0 + max(0, alike - 1) / 2.0
