"""Two cases that shared no rounds: the logarithm of the ratio of their times, and its components of variance.

Welch, "The generalization of 'Student's' problem when several different population variances are involved", Biometrika
34 (1947), with the degrees of freedom of Satterthwaite, "An approximate distribution of estimates of variance
components", Biometrics Bulletin 2 (1946), for any number of independent components: the rounds of each side, and the
random effect of a case or a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.comparison import log_margin
from gdnbench.stats.interval import Interval, t_upper_tail
from gdnbench.stats.variance import UNKNOWN_VARIANCE, Variance, add_variances, half_width_of, squares_within


@dataclass(frozen=True, slots=True)
class UnpairedLogRatio:
    """The estimate of `log(baseline / kernel)` from separate rounds: above 0, the kernel is faster.

    The half-width at a confidence is `sqrt((t * se)^2 + noise^2) + bias`, with `se^2` the sum of the components'
    variances and t at Satterthwaite's `se^4 / sum(variance_i^2 / df_i)` degrees of freedom.

    Attributes:
        mean: the logarithm of the ratio; NaN where a side has no round.
        components: the components of its variance.
        noise: a further half-width that more rounds do not reduce, as of an A/A comparison; independent of the rest.
        bias: how far the mean may be off for a known reason, in either direction.
    """

    mean: float
    components: tuple[Variance, ...]
    noise: float = 0.0
    bias: float = 0.0

    @property
    def variance(self) -> Variance:
        """The variance of the mean, the sum of its components."""
        return add_variances(self.components)

    def half_width(self, confidence: float) -> float:
        """Half the interval's width on the scale of logarithms; infinity where a side has fewer than two rounds."""
        return math.hypot(half_width_of(self.variance, confidence), self.noise) + self.bias

    def speedup(self, confidence: float) -> Interval:
        """The ratio baseline time / kernel time, `exp(mean)`, with its interval."""
        half_width = self.half_width(confidence)
        if math.isnan(self.mean) or math.isinf(half_width):
            return Interval(math.exp(self.mean), 0.0, math.inf)
        with np.errstate(over="ignore"):
            low, middle, high = np.exp([self.mean - half_width, self.mean, self.mean + half_width])
        return Interval(float(middle), float(low), float(high))

    def p_value(self, margin: float) -> float:
        """Two-sided minimal-effect test, as `PairedLogRatio.p_value`: is the difference larger than the margin?

        It is below 1 - c exactly where the interval of confidence c lies wholly outside the margin: solves
        `hypot(t * se, noise) + bias = |mean| - log(1 + margin)` for t.
        """
        excess = abs(self.mean) - log_margin(margin) - self.bias
        variance = self.variance
        if not math.isfinite(variance.value) or not excess > self.noise:
            return 1.0
        if variance.value == 0:
            return 0.0
        beyond = math.sqrt((excess - self.noise) * (excess + self.noise) / variance.value)
        return min(1.0, 2.0 * t_upper_tail(beyond, variance.df))


@dataclass(frozen=True, slots=True)
class MeanTime:
    """The mean of a case's rounds, microseconds, NaN without a round.

    `error` is the variance of that mean within the processes of its run, square microseconds.
    """

    mean_us: float
    error: Variance


def mean_time(times_us: FloatArray, processes: IntArray | None = None) -> MeanTime:
    """The mean of a case's rounds; the variance between processes, which the cases of a run share, is not in its error.

    `times_us` has the shape (rounds,), microseconds, with NaN where a round is missing; `processes` is the process of
    each round, None or of shape (0,) for one process. The error is infinite where no process has two rounds. ValueError
    is raised if a time is infinite, zero or negative.
    """
    there = ~np.isnan(times_us)
    present = times_us[there]
    if (present <= 0).any() or np.isinf(present).any():
        raise ValueError("round times must be positive and finite")
    if not present.size:
        return MeanTime(math.nan, UNKNOWN_VARIANCE)
    numbers = np.zeros(present.size, dtype=int) if processes is None or not processes.size else processes[there]
    squares, df = squares_within(present, numbers)
    error = Variance(squares / df / present.size, df) if df > 0 else UNKNOWN_VARIANCE
    return MeanTime(float(np.mean(present)), error)


def unpaired_log_ratio(
    kernel: MeanTime,
    baseline: MeanTime,
    *,
    launch_us: float = 0.0,
    components: tuple[Variance, ...] = (),
    noise: float = 0.0,
) -> UnpairedLogRatio:
    """`log(baseline / kernel)` of two mean times, both corrected to the mean of the two launches.

    Half of the difference of the launches, `launch_us` (kernel's run - baseline's run), is subtracted from the kernel's
    time and added to the baseline's, so that the two can change places by a change of sign. The first two components
    are the rounds of the baseline and of the kernel; `components` follow. The mean is NaN where a side has no round, or
    no time is left without its launch.
    """
    before, after = baseline.mean_us + launch_us / 2.0, kernel.mean_us - launch_us / 2.0
    if not (before > 0 and after > 0):
        return UnpairedLogRatio(math.nan, (UNKNOWN_VARIANCE,) * 2 + components, noise)
    rounds = tuple(
        Variance(side.error.value / time**2, side.error.df) for side, time in ((baseline, before), (kernel, after))
    )
    return UnpairedLogRatio(math.log(before / after), rounds + components, noise)
