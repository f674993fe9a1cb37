"""Log-ratios of two cases, measured in the same rounds or in none that they share, and the verdict on them.

For cases that share no rounds: Welch, "The generalization of 'Student's' problem when several different population
variances are involved", Biometrika 34 (1947), with the degrees of freedom of Satterthwaite (see `interval`) for any
number of independent components: the rounds of each side, and the random effect of a case or a run.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.interval import (
    UNKNOWN_VARIANCE,
    Comparison,
    Interval,
    Variance,
    Verdict,
    add_variances,
    half_width_of,
    judge,
    log_margin,
    squares_within,
    t_upper_tail,
)
from gdnbench.stats.processes import NOTHING_BETWEEN, Between, within_sd

MAX_ROUNDS = 10_000  # further rounds are advised only up to this many in all; beyond, the difference equals the margin

_LARGEST_LOG = math.log(sys.float_info.max)


K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Effects(Protocol[K_contra]):
    """What processes, or cards, add to the times of cases: `ProcessEffects` and `CardEffects`."""

    @property
    def process(self) -> IntArray:
        """The process, or card, of each round."""

    def without_launch(self, times_us: FloatArray) -> FloatArray:
        """Round times as if all launches were the same."""

    def of_ratio(self, keys: tuple[K_contra, K_contra], times_us: tuple[FloatArray, FloatArray]) -> Between:
        """The variance between processes, or cards, of the mean log-ratio of two cases."""


@dataclass(frozen=True, slots=True)
class PairedLogRatio:
    """The estimate of `log(baseline / kernel)` from paired rounds: above 0, the kernel is faster.

    Pairing within the round cancels what both cases share in it: clock, temperature, drift. With logarithms the kernel
    and the baseline change places by a change of sign.
    """

    mean: float  # mean over rounds; NaN where n is 0
    sd: float  # standard deviation of a round about the mean of its process; NaN if unknown
    n: int  # rounds in which both were measured
    processes: int = 1  # the number of processes that measured these rounds
    between: Between = NOTHING_BETWEEN  # what processes add, which more rounds in them do not reduce

    @classmethod
    def from_rounds(
        cls,
        kernel_us: FloatArray,
        baseline_us: FloatArray,
        process: IntArray | None = None,
        between: Between = NOTHING_BETWEEN,
    ) -> PairedLogRatio:
        """Pairs two cases round by round; a round missing on either side is dropped.

        Times have the shape (rounds,), microseconds, NaN where a round is missing; `process` is that of each round,
        numbered from 0, None for one. ValueError is raised if shapes differ, or a time is infinite, zero or negative.
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
        """Pairs a kernel and its baseline, of these keys in `effects`, without launches, with what processes add."""
        kernel, baseline = (effects.without_launch(times) for times in times_us)
        return cls.from_rounds(kernel, baseline, effects.process, effects.of_ratio(keys, (kernel, baseline)))

    @property
    def variance(self) -> Variance:
        """The variance of the mean, from rounds and processes; infinite where no process has two rounds."""
        return self.variance_of(self.n)

    def variance_of(self, rounds: int) -> Variance:
        """The variance that so many rounds of these processes would give, as noisy as those so far."""
        if self.n - self.processes < 1:
            return UNKNOWN_VARIANCE
        own, df = self.sd**2 / rounds, rounds - self.processes
        beyond = (self.between.inflation - 1.0) * self.sd**2 / self.n
        return add_variances([Variance(own + beyond, min(df, self.between.df)), self.between.variance])

    def speedup(self, confidence: float) -> Interval:
        """The ratio baseline time / kernel time and its t-interval, (0, infinity) below two rounds; NaN without any."""
        if self.n == 0:
            return Interval(math.nan, 0.0, math.inf)
        half_width = half_width_of(self.variance, confidence)
        return Interval(_exp(self.mean), _exp(self.mean - half_width), _exp(self.mean + half_width))

    def widened_by(self, control: PairedLogRatio | None, confidence: float) -> PairedLogRatio:
        """Adds the noise that the baseline's ratio to itself (`control`) shows beyond its interval, if it was measured.

        Where the two measurements of the baseline differ significantly, the run has noise that no interval of it holds:
        the excess of the squared difference over its variance is added to the variance.
        """
        if control is None or not control.is_apart(confidence):
            return self
        excess = Variance(control.mean**2 - control.variance.value, control.variance.df)
        return replace(self, between=self.between.add(excess))

    def is_apart(self, confidence: float) -> bool:
        """Whether the interval excludes a ratio of 1."""
        return abs(self.mean) > half_width_of(self.variance, confidence)

    def p_value(self, margin: float) -> float:
        """Two-sided minimal-effect test: is the difference larger than the margin, a ratio such as 0.005?

        `2 * P(T_df >= (|mean| - log(1 + margin)) / standard error)`, at most 1 (Murphy and Myors, Journal of Applied
        Psychology 84, 1999). It is below 1 - c exactly where the interval of confidence c lies wholly outside the
        margin, and 1 below two rounds.
        """
        excess = abs(self.mean) - log_margin(margin)
        variance = self.variance
        if not excess > 0 or math.isinf(variance.value):
            return 1.0
        if variance.value == 0:
            return 0.0
        return min(1.0, 2.0 * t_upper_tail(excess / math.sqrt(variance.value), variance.df))


def judge_paired(ratio: PairedLogRatio, margin: float, confidence: float) -> Comparison:
    """Judges a paired log-ratio by itself, at one level of confidence; fewer than two rounds are UNCLEAR."""
    speedup = ratio.speedup(confidence)
    verdict = judge(speedup, margin)
    if verdict is not Verdict.UNCLEAR:
        return Comparison(speedup, verdict)
    return Comparison(speedup, verdict, more_rounds_to_decide(ratio, margin=margin, confidence=confidence))


def more_rounds_to_decide(ratio: PairedLogRatio, *, margin: float, confidence: float) -> int | None:
    """The fewest further rounds that would bring the interval wholly outside or wholly inside the margin, at least 1.

    Assumes that further rounds have the mean and the standard deviation of those so far, so the estimate is about as
    uncertain as the mean itself; the variance between processes does not shrink with rounds. None where even MAX_ROUNDS
    rounds in all would not decide, or too few rounds leave the spread unknown.
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


@dataclass(frozen=True, slots=True)
class UnpairedLogRatio:
    """The estimate of `log(baseline / kernel)` from separate rounds: above 0, the kernel is faster.

    The half-width at a confidence is `sqrt((t * se)^2 + noise^2)`, with `se^2` the sum of the components' variances and
    t at Satterthwaite's `se^4 / sum(variance_i^2 / df_i)` degrees of freedom. `noise` is a half-width that more rounds
    do not reduce, as of an A/A comparison. The mean is NaN where a side has no round.
    """

    mean: float
    components: tuple[Variance, ...]
    noise: float = 0.0

    @property
    def variance(self) -> Variance:
        """The variance of the mean, the sum of its components."""
        return add_variances(self.components)

    def half_width(self, confidence: float) -> float:
        """Half the interval's width on the scale of logarithms; infinity where a side has fewer than two rounds."""
        return math.hypot(half_width_of(self.variance, confidence), self.noise)

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
        `hypot(t * se, noise) = |mean| - log(1 + margin)` for t.
        """
        excess = abs(self.mean) - log_margin(margin)
        variance = self.variance
        if not math.isfinite(variance.value) or not excess > self.noise:
            return 1.0
        if variance.value == 0:
            return 0.0
        beyond = math.sqrt((excess - self.noise) * (excess + self.noise) / variance.value)
        return min(1.0, 2.0 * t_upper_tail(beyond, variance.df))


@dataclass(frozen=True, slots=True)
class MeanTime:
    """The mean of a case's rounds, NaN without one, and its variance within the processes of its run; microseconds."""

    mean_us: float
    error: Variance


def mean_time(times_us: FloatArray, processes: IntArray | None = None) -> MeanTime:
    """The mean of a case's rounds; the variance between processes, which the cases of a run share, is not in its error.

    `times_us` has the shape (rounds,), microseconds, NaN where a round is missing; `processes` is that of each round,
    None or of shape (0,) for one. The error is infinite where no process has two rounds.
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
) -> UnpairedLogRatio:
    """`log(baseline / kernel)` of two mean times, both corrected to the mean of the two launches.

    Half of the difference of the launches, `launch_us` (kernel's run - baseline's run), is subtracted from the kernel's
    time and added to the baseline's, so that the two can change places by a change of sign. The components are the
    rounds of the baseline and of the kernel. The mean is NaN where a side has no round, or no time is left.
    """
    before, after = baseline.mean_us + launch_us / 2.0, kernel.mean_us - launch_us / 2.0
    if not (before > 0 and after > 0):
        return UnpairedLogRatio(math.nan, (UNKNOWN_VARIANCE,) * 2)
    rounds = tuple(
        Variance(side.error.value / time**2, side.error.df) for side, time in ((baseline, before), (kernel, after))
    )
    return UnpairedLogRatio(math.log(before / after), rounds)
