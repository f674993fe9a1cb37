"""Two cases measured in the same rounds, as one log-ratio a round."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gdnbench.stats.interval import Interval
from gdnbench.stats.margin import log_margin
from gdnbench.stats.student import t_half_width, t_upper_tail
from gdnbench.stats.types import FloatArray


@dataclass(frozen=True, slots=True)
class PairedLogRatio:
    """What the rounds say of `log(baseline / kernel)`: above 0, the kernel is faster.

    Pairing within the round cancels whatever both shared in it: the clock, the temperature, the drift.
    Logarithms make the kernel and the baseline change places by a change of sign.

    Attributes:
        mean: mean over rounds; NaN where n is 0.
        sd: sample standard deviation over rounds; NaN where n < 2.
        n: rounds in which both were measured.
    """

    mean: float
    sd: float
    n: int

    @classmethod
    def from_rounds(cls, kernel_us: FloatArray, baseline_us: FloatArray) -> PairedLogRatio:
        """Pair two cases round by round.

        Args:
            kernel_us: shape (rounds,), round medians in microseconds, NaN where the round is missing.
            baseline_us: the same rounds of the baseline. A round missing on either side is dropped.

        Raises:
            ValueError: if the shapes differ, or a time is infinite, zero or negative.
        """
        if kernel_us.shape != baseline_us.shape or kernel_us.ndim != 1:
            raise ValueError(
                "kernel and baseline need one median for each round of the same run: "
                f"shapes are {kernel_us.shape} and {baseline_us.shape}"
            )
        _check_times(kernel_us, "kernel")
        _check_times(baseline_us, "baseline")
        paired = ~(np.isnan(kernel_us) | np.isnan(baseline_us))
        log_ratios = np.log(baseline_us[paired]) - np.log(kernel_us[paired])
        n = log_ratios.size
        mean = float(np.mean(log_ratios)) if n > 0 else math.nan
        sd = float(np.std(log_ratios, ddof=1)) if n > 1 else math.nan
        return cls(mean, sd, n)

    def speedup(self, confidence: float) -> Interval:
        """The ratio baseline time / kernel time, `exp(mean)`, and its t-interval over rounds.

        Below two rounds the interval is (0, infinity); with none the estimate is NaN.
        """
        if self.n == 0:
            return Interval(math.nan, 0.0, math.inf)
        half_width = t_half_width(self.sd, self.n, confidence)
        return Interval(_exp(self.mean), _exp(self.mean - half_width), _exp(self.mean + half_width))

    def p_value(self, margin: float) -> float:
        """Two-sided minimal-effect test: is the difference larger than the margin?

        `2 * P(T_{n-1} >= (|mean| - log(1 + margin)) / (sd / sqrt(n)))`, at most 1 (Murphy and Myors, Journal
        of Applied Psychology 84, 1999). It is below 1 - c exactly where the interval of confidence c lies
        wholly outside the margin.

        Args:
            margin: a ratio, 0.005 is half a percent.

        Returns:
            The p-value; 1 below two rounds.

        Raises:
            ValueError: if the margin is negative or not finite.
        """
        excess = abs(self.mean) - log_margin(margin)
        if self.n < 2 or excess <= 0:
            return 1.0
        if self.sd == 0:
            return 0.0
        return min(1.0, 2.0 * t_upper_tail(excess / (self.sd / math.sqrt(self.n)), self.n - 1))


def _check_times(times_us: FloatArray, side: str) -> None:
    bad = times_us[(times_us <= 0) | np.isinf(times_us)]
    if bad.size > 0:
        raise ValueError(f"{side} times must be positive and finite, not {bad[0]} us")


def _exp(x: float) -> float:
    """`exp` that gives infinity where `math.exp` raises: two wild rounds can make an interval that wide."""
    with np.errstate(over="ignore"):
        return float(np.exp(x))
