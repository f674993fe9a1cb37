"""Two cases measured in the same rounds: the mean of one log-ratio a round, and the verdict on it."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.comparison import Comparison, Verdict, judge, log_margin
from gdnbench.stats.interval import Interval, t_upper_tail
from gdnbench.stats.processes import NOTHING_BETWEEN, Between, within_sd
from gdnbench.stats.variance import UNKNOWN_VARIANCE, Variance, add_variances, half_width_of

MAX_ROUNDS = 10_000
"""Where this many rounds in all would not decide, more rounds are no advice: the difference equals the margin."""

_LARGEST_LOG = math.log(sys.float_info.max)


K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Effects(Protocol[K_contra]):
    """What processes, or cards, add to the times of cases: `ProcessEffects` and `CardEffects`."""

    @property
    def process(self) -> IntArray:
        """The process, or card, of each round."""

    def without_launch(self, times_us: FloatArray) -> FloatArray:
        """Round times without what differs between launches."""

    def of_ratio(self, keys: tuple[K_contra, K_contra], times_us: tuple[FloatArray, FloatArray]) -> Between:
        """What is left between processes in the mean log-ratio of two cases."""


@dataclass(frozen=True, slots=True)
class PairedLogRatio:
    """What the rounds say of `log(baseline / kernel)`: above 0, the kernel is faster.

    Pairing within the round cancels whatever both shared in it: the clock, the temperature, the drift.
    Logarithms make the kernel and the baseline change places by a change of sign.

    Attributes:
        mean: mean over rounds; NaN where n is 0.
        sd: standard deviation of a round, about the mean of its process; NaN where it is not known.
        n: rounds in which both were measured.
        processes: in how many processes.
        between: what the processes add to the variance of the mean, that more rounds of them would not lessen.
    """

    mean: float
    sd: float
    n: int
    processes: int = 1
    between: Between = NOTHING_BETWEEN

    @classmethod
    def from_rounds(
        cls,
        kernel_us: FloatArray,
        baseline_us: FloatArray,
        process: IntArray | None = None,
        between: Between = NOTHING_BETWEEN,
    ) -> PairedLogRatio:
        """Pair two cases round by round.

        Args:
            kernel_us: shape (rounds,), round times in microseconds, NaN where the round is missing.
            baseline_us: the same rounds of the baseline. A round missing on either side is dropped.
            process: shape (rounds,), the process of each round, numbered from 0; None for one process.
            between: see the attribute.

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
        if process is None:
            return cls(mean, float(np.std(log_ratios, ddof=1)) if n > 1 else math.nan, n, 1, between)
        sd, df = within_sd(log_ratios, process[paired])
        return cls(mean, sd, n, n - df if n > 0 else 1, between)

    @classmethod
    def with_effects(
        cls, keys: tuple[K_contra, K_contra], times_us: tuple[FloatArray, FloatArray], effects: Effects[K_contra]
    ) -> PairedLogRatio:
        """Pairs two cases without launches, and with what else processes add.

        Args:
            keys: the kernel's and the baseline's among the effects' cases.
            times_us: their rounds, as measured; shape (rounds,) both, microseconds.
            effects: of the processes, or cards.

        Raises:
            ValueError: as `from_rounds`.
        """
        kernel, baseline = (effects.without_launch(times) for times in times_us)
        return cls.from_rounds(kernel, baseline, effects.process, effects.of_ratio(keys, (kernel, baseline)))

    @property
    def variance(self) -> Variance:
        """Of the mean: the rounds' part and the processes'; infinite where the rounds do not tell theirs."""
        return self.variance_of(self.n)

    def variance_of(self, rounds: int) -> Variance:
        """What the variance would be with so many rounds of these processes, as noisy as those so far."""
        if self.n - self.processes < 1:
            return UNKNOWN_VARIANCE
        own, df = self.sd**2 / rounds, rounds - self.processes
        beyond = (self.between.inflation - 1.0) * self.sd**2 / self.n
        return add_variances([Variance(own + beyond, min(df, self.between.df)), self.between.variance])

    def speedup(self, confidence: float) -> Interval:
        """The ratio baseline time / kernel time, `exp(mean)`, and its t-interval.

        Below two rounds the interval is (0, infinity); with none the estimate is NaN.
        """
        if self.n == 0:
            return Interval(math.nan, 0.0, math.inf)
        half_width = half_width_of(self.variance, confidence)
        return Interval(_exp(self.mean), _exp(self.mean - half_width), _exp(self.mean + half_width))

    def widened_by(self, control: PairedLogRatio | None, confidence: float) -> PairedLogRatio:
        """This ratio with the noise that a baseline's ratio to itself shows beyond its interval.

        A baseline that its own rounds tell apart from itself proves that there is noise which no interval of the run
        holds. Then the excess of the square of that difference over its variance is added to the variance.

        Args:
            control: of the baseline against itself; None where it was not measured.
            confidence: at which the two are told apart.
        """
        if control is None or not control.is_apart(confidence):
            return self
        excess = Variance(control.mean**2 - control.variance.value, control.variance.df)
        return replace(self, between=self.between.add(excess))

    def is_apart(self, confidence: float) -> bool:
        """Whether the interval leaves out a ratio of 1."""
        return abs(self.mean) > half_width_of(self.variance, confidence)

    def p_value(self, margin: float) -> float:
        """Two-sided minimal-effect test: is the difference larger than the margin?

        `2 * P(T_df >= (|mean| - log(1 + margin)) / standard error)`, at most 1 (Murphy and Myors, Journal of
        Applied Psychology 84, 1999). It is below 1 - c exactly where the interval of confidence c lies wholly
        outside the margin.

        Args:
            margin: a ratio, 0.005 is half a percent.

        Returns:
            The p-value; 1 below two rounds.

        Raises:
            ValueError: if the margin is negative or not finite.
        """
        excess = abs(self.mean) - log_margin(margin)
        variance = self.variance
        if not excess > 0 or math.isinf(variance.value):
            return 1.0
        if variance.value == 0:
            return 0.0
        return min(1.0, 2.0 * t_upper_tail(excess / math.sqrt(variance.value), variance.df))


def judge_paired(ratio: PairedLogRatio, margin: float, confidence: float) -> Comparison:
    """Judge a paired log-ratio at one level of confidence. Fewer than two paired rounds are UNCLEAR.

    To judge several kernels at once use `judge_family`, which keeps the chance of any false verdict where this puts
    that of each.

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
    return Comparison(speedup, verdict, more_rounds_to_decide(ratio, margin=margin, confidence=confidence))


def more_rounds_to_decide(ratio: PairedLogRatio, *, margin: float, confidence: float) -> int | None:
    """How many more rounds would bring the interval wholly outside or wholly inside the margin.

    Assumes that further rounds have the mean and the standard deviation of those so far, so it is an estimate with
    about the uncertainty of the mean itself. What lies between processes does not shrink with rounds.

    Args:
        ratio: what the rounds say so far.
        margin: a ratio, 0.005 is half a percent.
        confidence: between 0 and 1, both excluded.

    Returns:
        The fewest further rounds, at least 1; None where not even MAX_ROUNDS would do, and where too few rounds leave
        the spread unknown.

    Raises:
        ValueError: if `margin` or `confidence` is out of range.
    """
    if math.isinf(ratio.variance.value):
        return None
    distance = abs(abs(ratio.mean) - log_margin(margin))

    def decides(rounds: int) -> bool:
        return half_width_of(ratio.variance_of(rounds), confidence) < distance

    # The half-width only falls as rounds are added, so the first that decides is found by bisection.
    candidates = range(ratio.n + 1, MAX_ROUNDS + 1)
    first = bisect_left(candidates, True, key=decides)
    return candidates[first] - ratio.n if first < len(candidates) else None


def _check_times(times_us: FloatArray, side: str) -> None:
    bad = times_us[(times_us <= 0) | np.isinf(times_us)]
    if bad.size > 0:
        raise ValueError(f"{side} times must be positive and finite, not {bad[0]} us")


def _exp(x: float) -> float:
    """`exp` that gives infinity where `math.exp` raises, as for the interval of two rounds that differ widely."""
    return math.inf if x > _LARGEST_LOG else float(np.exp(x))
