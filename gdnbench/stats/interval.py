"""Confidence intervals, the variances behind them, and the verdict on a speedup's interval, given a margin.

Student, "The probable error of a mean", Biometrika 6 (1908). The degrees of freedom of a sum of independent components
are those of Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bulletin 2
(1946).

The margin is the smallest difference that counts. A margin of 0.005 calls two times the same whose ratio lies between
`1 / 1.005` and 1.005; the lower edge is `1 / 1.005`, not 0.995, so that a kernel and its baseline can change places.
Calling two times the same where the interval lies within the margin is an equivalence test: Schuirmann, Journal of
Pharmacokinetics and Biopharmaceutics 15 (1987).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import scipy

from gdnbench.stats import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its interval, in one unit; infinite and NaN where nothing was measured, else ValueError."""

    estimate: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"an interval needs low <= high, not [{self.low}, {self.high}]")
        if self.estimate < self.low or self.estimate > self.high:
            raise ValueError(f"estimate {self.estimate} lies outside [{self.low}, {self.high}]")

    @property
    def half_width(self) -> float:
        """Half the distance between the ends, in the interval's unit; infinity where one end is."""
        return (self.high - self.low) / 2.0

    @property
    def relative_half_width(self) -> float:
        """Half-width over the size of the estimate: 0.01 is 1 %; infinity where the estimate is 0 or NaN."""
        if self.estimate == 0 or math.isnan(self.estimate):
            return math.inf
        return self.half_width / abs(self.estimate)


def t_interval(values: FloatArray, confidence: float = 0.95) -> Interval:
    """Mean of independent finite values and its two-sided Student t-interval; infinite for one value."""
    if values.size == 0:
        raise ValueError("no values to take the interval of")
    if not np.isfinite(values).all():
        raise ValueError("values must be finite: drop missing ones before taking the interval")
    mean = float(np.mean(values))
    count = values.size
    variance = Variance(float(np.var(values, ddof=1)) / count, count - 1) if count > 1 else UNKNOWN_VARIANCE
    half_width = half_width_of(variance, confidence)
    return Interval(mean, mean - half_width, mean + half_width)


def t_upper_tail(t: float, df: float) -> float:
    """P(T >= t) for Student's t with `df` degrees of freedom.

    It is the lower tail at -t, because `1 - stdtr(df, t)` loses every digit of a small probability.
    """
    return float(scipy.special.ndtr(-t) if math.isinf(df) else scipy.special.stdtr(df, -t))


DEFAULT_MARGIN = 0.005  # half a percent


def log_margin(margin: float) -> float:
    """The margin on the scale of log-ratios, `log(1 + margin)`; ValueError if it is negative or not finite."""
    margin_edges(margin)  # refuses what is no margin
    return math.log1p(margin)


def margin_edges(margin: float) -> tuple[float, float]:
    """The least and the greatest ratio called the same; ValueError if the margin is negative or not finite."""
    if not (math.isfinite(margin) and margin >= 0):
        raise ValueError(f"the margin must be zero or a positive ratio, not {margin}")
    return 1.0 / (1.0 + margin), 1.0 + margin


class Verdict(StrEnum):
    """What a speedup's interval says against a margin."""

    FASTER = "faster"  # the whole interval lies above 1 + margin
    SLOWER = "slower"  # the whole interval lies below 1 / (1 + margin)
    SAME = "same"  # the whole interval lies between these edges: any difference is smaller than the margin
    UNCLEAR = "unclear"  # the interval contains an edge of the margin: more rounds are needed to tell


@dataclass(frozen=True, slots=True)
class Comparison:
    """A kernel against its baseline: `speedup` is baseline time / kernel time; more rounds decide an UNCLEAR one."""

    speedup: Interval
    verdict: Verdict
    more_rounds: int | None = None

    def __post_init__(self) -> None:
        if self.more_rounds is not None and self.verdict is not Verdict.UNCLEAR:
            raise ValueError(f"a comparison that is {self.verdict} needs no more rounds")


def judge(speedup: Interval, margin: float) -> Verdict:
    """The verdict on the interval of a speedup, baseline time / kernel time."""
    below, above = margin_edges(margin)
    if speedup.low > above:
        return Verdict.FASTER
    if speedup.high < below:
        return Verdict.SLOWER
    return Verdict.SAME if below <= speedup.low and speedup.high <= above else Verdict.UNCLEAR


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
    """Half-width of the two-sided t-interval of an estimate, in its unit; infinity where the variance is."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if math.isinf(variance.value):
        return math.inf
    level = 1.0 - (1.0 - confidence) / 2.0
    normal = math.isinf(variance.df)
    quantile = scipy.special.ndtri(level) if normal else scipy.special.stdtrit(variance.df, level)
    return float(quantile) * math.sqrt(variance.value)


def squares_within(values: FloatArray, process: IntArray) -> tuple[float, int]:
    """The sum of squared distances of rounds from the mean of their process, and its degrees of freedom."""
    groups = [values[process == number] for number in np.unique(process)]
    squares = sum(float(np.sum((group - np.mean(group)) ** 2)) for group in groups)
    return squares, len(values) - len(groups)


def share_of(count: int, trials: int, confidence: float = 0.95, *, design_effect: float = 1.0) -> Interval:
    """The share of trials with an event, from 0 to 1, and the interval of Clopper and Pearson, Biometrika 26 (1934).

    The interval covers the true share with at least the requested confidence. Dependent trials count as fewer, by
    `design_effect`: Korn and Graubard, Survey Methodology 24 (1998). Without trials the estimate is NaN and the
    interval (0, 1).
    """
    if not 0 <= count <= trials:
        raise ValueError(f"{count} of {trials} is not a share")
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
