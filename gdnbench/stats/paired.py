"""Two cases measured in the same rounds: the mean of one log-ratio a round, and the verdict on it."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from gdnbench.stats import FloatArray
from gdnbench.stats.comparison import DEFAULT_MARGIN, Comparison, Verdict, judge, log_margin
from gdnbench.stats.interval import Interval, t_half_width, t_upper_tail

MAX_ROUNDS = 10_000
"""Where this many rounds in all would not decide, more rounds are no advice: the difference equals the margin."""


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


def compare_rounds(
    kernel_us: FloatArray,
    baseline_us: FloatArray,
    *,
    margin: float = DEFAULT_MARGIN,
    confidence: float = 0.95,
) -> Comparison:
    """Compare a kernel with its baseline by the rounds in which both were measured.

    The mean paired log-ratio with its Student t-interval over rounds, judged against the margin. Fewer than
    two paired rounds are UNCLEAR, with the interval (0, infinity). To compare several kernels at once use
    `compare_family`, which keeps the chance of one false verdict where this puts that of each.

    Args:
        kernel_us: shape (rounds,), round medians in microseconds, NaN where the round is missing.
        baseline_us: shape (rounds,), the same rounds of the baseline.
        margin: differences up to this ratio count as none.
        confidence: of the interval, between 0 and 1, both excluded.

    Raises:
        ValueError: if the shapes differ, a time is infinite, zero or negative, or `margin` or `confidence`
            is out of range.
    """
    return judge_paired(PairedLogRatio.from_rounds(kernel_us, baseline_us), margin, confidence)


def judge_paired(ratio: PairedLogRatio, margin: float, confidence: float) -> Comparison:
    """Judge a paired log-ratio at one level of confidence.

    Args:
        ratio: what the rounds say of log(baseline / kernel).
        margin: differences up to this ratio count as none.
        confidence: of the interval, between 0 and 1, both excluded.

    Raises:
        ValueError: if `margin` or `confidence` is out of range.
    """
    speedup = ratio.speedup(confidence)
    verdict = judge(speedup, margin)
    if verdict is not Verdict.UNCLEAR:
        return Comparison(speedup, verdict)
    more = more_rounds_to_decide(ratio.mean, ratio.sd, ratio.n, margin=margin, confidence=confidence)
    return Comparison(speedup, verdict, more)


def more_rounds_to_decide(mean: float, sd: float, n: int, *, margin: float, confidence: float) -> int | None:
    """The sample size at which the interval would lie wholly outside or wholly inside the margin, less `n`.

    Assumes that further rounds have the mean and the standard deviation of those so far, so it is an estimate with
    about the uncertainty of the mean itself.

    Args:
        mean: mean paired log-ratio so far.
        sd: its sample standard deviation over rounds.
        n: rounds so far.
        margin: a ratio, 0.005 is half a percent.
        confidence: between 0 and 1, both excluded.

    Returns:
        The fewest further rounds, at least 1; None where not even MAX_ROUNDS would do, and where fewer than
        two rounds leave the spread unknown.

    Raises:
        ValueError: if `margin` or `confidence` is out of range.
    """
    if n < 2:
        return None
    distance = abs(abs(mean) - log_margin(margin))

    def decides(rounds: int) -> bool:
        return t_half_width(sd, rounds, confidence) < distance

    # The half-width only falls as rounds are added, so the first that decides is found by bisection.
    candidates = range(n + 1, MAX_ROUNDS + 1)
    first = bisect_left(candidates, True, key=decides)
    return candidates[first] - n if first < len(candidates) else None


def _check_times(times_us: FloatArray, side: str) -> None:
    bad = times_us[(times_us <= 0) | np.isinf(times_us)]
    if bad.size > 0:
        raise ValueError(f"{side} times must be positive and finite, not {bad[0]} us")


def _exp(x: float) -> float:
    """`exp` that gives infinity where `math.exp` raises, as for the interval of two rounds that differ widely."""
    with np.errstate(over="ignore"):
        return float(np.exp(x))
