"""Two cases that shared no rounds: the difference of their mean log times, and everything that blurs it.

Welch, "The generalization of 'Student's' problem when several different population variances are involved",
Biometrika 34 (1947), with the degrees of freedom of Satterthwaite, "An approximate distribution of estimates of
variance components", Biometrics Bulletin 2 (1946), which take any number of independent parts: each side's rounds, and
how far one case strays from what all cases share (`Blur`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.special import stdtrit

from gdnbench.stats.comparison import Comparison, judge
from gdnbench.stats.holm import holm_levels
from gdnbench.stats.interval import Interval
from gdnbench.stats.margin import DEFAULT_MARGIN, log_margin
from gdnbench.stats.student import t_upper_tail
from gdnbench.stats.types import FloatArray

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Blur:
    """One independent part of a difference's uncertainty.

    Attributes:
        variance: of the log-ratio; infinity where nothing is known of it.
        df: degrees of freedom of that estimate, above 0.
    """

    variance: float
    df: float


@dataclass(frozen=True, slots=True)
class UnpairedLogRatio:
    """What separate rounds say of `log(baseline / kernel)`: above 0, the kernel is faster.

    The half-width at a confidence is `sqrt((t * se)^2 + noise^2) + bias`, with `se^2` the sum of the blurs' variances
    and t at Satterthwaite's `se^4 / sum(variance_i^2 / df_i)` degrees of freedom.

    Attributes:
        mean: the difference of the mean logarithms; NaN where a side has no round.
        blurs: what may have moved it by chance.
        noise: a further half-width that no number of rounds reduces, as of an A/A comparison; independent of the rest.
        bias: how far the mean may be off for a known reason, whichever way.
    """

    mean: float
    blurs: tuple[Blur, ...]
    noise: float = 0.0
    bias: float = 0.0

    @property
    def variance(self) -> float:
        """The sum of the blurs' variances."""
        return sum(blur.variance for blur in self.blurs)

    @property
    def df(self) -> float:
        """Satterthwaite's degrees of freedom; infinity where nothing varies."""
        spread = sum(blur.variance**2 / blur.df for blur in self.blurs)
        return self.variance**2 / spread if spread > 0 and math.isfinite(spread) else math.inf

    def half_width(self, confidence: float) -> float:
        """Half the interval's width on the scale of logarithms; infinity where a side has fewer than two rounds."""
        if not math.isfinite(self.variance):
            return math.inf
        t = float(stdtrit(self.df, 1.0 - (1.0 - confidence) / 2.0))
        return math.hypot(t * math.sqrt(self.variance), self.noise) + self.bias

    def speedup(self, confidence: float) -> Interval:
        """The ratio baseline time / kernel time, `exp(mean)`, with its interval.

        Raises:
            ValueError: if `confidence` is not between 0 and 1.
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
        half_width = self.half_width(confidence)
        if math.isnan(self.mean) or math.isinf(half_width):
            return Interval(math.exp(self.mean), 0.0, math.inf)
        with np.errstate(over="ignore"):
            low, middle, high = np.exp([self.mean - half_width, self.mean, self.mean + half_width])
        return Interval(float(middle), float(low), float(high))

    def p_value(self, margin: float) -> float:
        """Two-sided minimal-effect test, as `PairedLogRatio.p_value`: is the difference larger than the margin?

        It is below 1 - c exactly where the interval of confidence c lies wholly outside the margin: solving
        `hypot(t * se, noise) + bias = |mean| - log(1 + margin)` for t.

        Raises:
            ValueError: if the margin is negative or not finite.
        """
        excess = abs(self.mean) - log_margin(margin) - self.bias
        if not math.isfinite(self.variance) or not excess > self.noise:
            return 1.0
        if self.variance == 0:
            return 0.0
        beyond = math.sqrt((excess - self.noise) * (excess + self.noise) / self.variance)
        return min(1.0, 2.0 * t_upper_tail(beyond, self.df))


def unpaired_log_ratio(
    kernel_us: FloatArray, baseline_us: FloatArray, *, blurs: tuple[Blur, ...] = (), noise: float = 0.0
) -> UnpairedLogRatio:
    """The difference of mean logarithms of two sets of rounds, `log(baseline / kernel)`.

    Args:
        kernel_us: shape (rounds,), round times in microseconds, NaN where a round is missing.
        baseline_us: shape (other rounds,), the same of the baseline.
        blurs: what the rounds of either side do not show.
        noise: as in `UnpairedLogRatio`.

    Raises:
        ValueError: if a time is infinite, zero or negative.
    """
    sides = [_mean_log(baseline_us), _mean_log(kernel_us)]
    mean = sides[0][0] - sides[1][0]
    return UnpairedLogRatio(mean, (sides[0][1], sides[1][1], *blurs), noise)


def compare_unpaired(
    ratios: Mapping[K, UnpairedLogRatio], *, margin: float = DEFAULT_MARGIN, confidence: float = 0.95
) -> dict[K, Comparison]:
    """Judges a family of comparisons with Holm's correction, as `compare_family` does those of one run.

    An UNCLEAR one asks for no further rounds: what blurs it lies mostly between the runs.

    Args:
        ratios: in any order.
        margin: differences up to this ratio count as none.
        confidence: of the family as a whole, between 0 and 1, both excluded.

    Raises:
        ValueError: if `margin` or `confidence` is out of range.
    """
    levels = holm_levels([ratio.p_value(margin) for ratio in ratios.values()], 1.0 - confidence)
    intervals = [ratio.speedup(1.0 - level) for ratio, level in zip(ratios.values(), levels, strict=True)]
    return {key: Comparison(interval, judge(interval, margin)) for key, interval in zip(ratios, intervals, strict=True)}


def _mean_log(times_us: FloatArray) -> tuple[float, Blur]:
    """The mean logarithm of the rounds, and how well they tell it."""
    present = times_us[~np.isnan(times_us)]
    if (present <= 0).any() or np.isinf(present).any():
        raise ValueError("round times must be positive and finite")
    if present.size < 2:
        return (float(np.log(present[0])) if present.size else math.nan), Blur(math.inf, 1.0)
    logs = np.log(present)
    return float(np.mean(logs)), Blur(float(np.var(logs, ddof=1)) / logs.size, logs.size - 1)
