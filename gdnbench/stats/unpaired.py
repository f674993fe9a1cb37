"""Two cases that shared no rounds: the difference of their mean log times, and its components of variance.

Welch, "The generalization of 'Student's' problem when several different population variances are involved",
Biometrika 34 (1947), with the degrees of freedom of Satterthwaite, "An approximate distribution of estimates of
variance components", Biometrics Bulletin 2 (1946), which take any number of independent components: the rounds of each
side, and the random effect of a case or a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from gdnbench.stats import FloatArray
from gdnbench.stats.comparison import log_margin
from gdnbench.stats.interval import Interval, t_upper_tail


@dataclass(frozen=True, slots=True)
class VarianceComponent:
    """One independent component of the variance of a log-ratio.

    Attributes:
        variance: squared logarithms; infinity where nothing is known of it.
        df: degrees of freedom of that estimate, above 0.
    """

    variance: float
    df: float


@dataclass(frozen=True, slots=True)
class UnpairedLogRatio:
    """What separate rounds say of `log(baseline / kernel)`: above 0, the kernel is faster.

    The half-width at a confidence is `sqrt((t * se)^2 + noise^2) + bias`, with `se^2` the sum of the components'
    variances and t at Satterthwaite's `se^4 / sum(variance_i^2 / df_i)` degrees of freedom.

    Attributes:
        mean: the difference of the mean logarithms; NaN where a side has no round.
        components: the components of its variance.
        noise: a further half-width that no number of rounds reduces, as of an A/A comparison; independent of the rest.
        bias: how far the mean may be off for a known reason, whichever way.
    """

    mean: float
    components: tuple[VarianceComponent, ...]
    noise: float = 0.0
    bias: float = 0.0

    @property
    def variance(self) -> float:
        """The sum of the components' variances."""
        return sum(each.variance for each in self.components)

    @property
    def df(self) -> float:
        """Satterthwaite's degrees of freedom; infinity where nothing varies."""
        spread = sum(each.variance**2 / each.df for each in self.components)
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
    kernel_us: FloatArray,
    baseline_us: FloatArray,
    *,
    components: tuple[VarianceComponent, ...] = (),
    noise: float = 0.0,
) -> UnpairedLogRatio:
    """The difference of mean logarithms of two sets of rounds, `log(baseline / kernel)`.

    Args:
        kernel_us: shape (rounds,), round times in microseconds, NaN where a round is missing.
        baseline_us: shape (other rounds,), the same of the baseline.
        components: of what the rounds of either side do not show.
        noise: as in `UnpairedLogRatio`.

    Raises:
        ValueError: if a time is infinite, zero or negative.
    """
    sides = [_mean_log(baseline_us), _mean_log(kernel_us)]
    mean = sides[0][0] - sides[1][0]
    return UnpairedLogRatio(mean, (sides[0][1], sides[1][1], *components), noise)


def _mean_log(times_us: FloatArray) -> tuple[float, VarianceComponent]:
    """The mean logarithm of the rounds, and the variance of that mean."""
    present = times_us[~np.isnan(times_us)]
    if (present <= 0).any() or np.isinf(present).any():
        raise ValueError("round times must be positive and finite")
    if present.size < 2:
        return (float(np.log(present[0])) if present.size else math.nan), VarianceComponent(math.inf, 1.0)
    logs = np.log(present)
    return float(np.mean(logs)), VarianceComponent(float(np.var(logs, ddof=1)) / logs.size, logs.size - 1)
