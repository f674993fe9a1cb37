"""What the processes of a run add to its times, and how uncertain that leaves a time and a ratio of two.

A round time is modelled as t = launch(process) + kernel(case) * (1 + effect(case, process)) + noise(round). The launch
is a constant in microseconds that all cases of a process share (on H200s its standard deviation is 0.05 to 0.06 µs, and
its correlation between batch sizes 0.99: docs/measuring.md); it is estimated from all of them and taken out. What is
left between processes is a random effect of each case. A run has few processes, too few for a variance of each case's
own: it is estimated from all cases of a workload together, by the method of moments, but for cases that stand out.

Variances of different kinds are added, and the degrees of freedom of the sum are Satterthwaite's: Biometrics Bulletin 2
(1946).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri, fdtrc, ndtri, stdtrit

from gdnbench.stats import FloatArray

K = TypeVar("K", bound=Hashable)
IntArray = npt.NDArray[np.int_]

STANDS_OUT = 1e-3
"""Chance that a case like the others is taken for one whose processes differ more than theirs."""

USUAL_LAUNCH_SD_US = 0.055
USUAL_LAUNCH_DF = 15
"""Over 16 processes on four H200 cards of one host, by NVBench."""


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of an estimate.

    Attributes:
        value: in the square of the estimate's unit.
        df: degrees of freedom that it was estimated with; infinite where it is known.
    """

    value: float = 0.0
    df: float = math.inf


NO_VARIANCE = Variance()


def add_variances(parts: Sequence[Variance]) -> Variance:
    """The variance of a sum of independent errors: `df = (sum v)^2 / sum(v^2 / df)` (Satterthwaite, 1946)."""
    value = sum(part.value for part in parts)
    spread = sum(part.value**2 / part.df for part in parts if part.value > 0)
    return Variance(value, value**2 / spread if spread > 0 else math.inf)


def half_width_of(variance: Variance, confidence: float) -> float:
    """Half-width of the two-sided t-interval of an estimate, in its unit; infinity where the variance is.

    Raises:
        ValueError: if `confidence` is not between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if math.isinf(variance.value):
        return math.inf
    level = 1.0 - (1.0 - confidence) / 2.0
    quantile = float(ndtri(level)) if math.isinf(variance.df) else float(stdtrit(variance.df, level))
    return quantile * math.sqrt(variance.value)


@dataclass(frozen=True)
class ProcessEffects(Generic[K]):
    """The effects of a run's processes on the cases of a workload.

    Attributes:
        process: shape (rounds,), the process of each round, numbered from 0.
        launch_us: shape (processes,), what each adds to every time, less their mean, microseconds.
        spread: standard deviation of a case's own effect, relative to its time.
        df: degrees of freedom of the spread.
        outliers: cases whose processes differ more than the others' do: each is judged by its own processes alone.
    """

    process: IntArray
    launch_us: FloatArray
    spread: float = 0.0
    df: float = math.inf
    outliers: frozenset[K] = frozenset()

    @property
    def count(self) -> int:
        """How many processes there are."""
        return len(self.launch_us)

    def without_launch(self, times_us: FloatArray) -> FloatArray:
        """Round times as if every process had added the mean of their launches; shape (rounds,), microseconds."""
        return times_us - self.launch_us[self.process]

    def of_time(self, key: K, times_us: FloatArray) -> Variance:
        """The variance of the mean logarithm of a case's round times that is between processes.

        Args:
            key: the case.
            times_us: its rounds, without the launch.
        """
        if self.count < 2:
            return NO_VARIANCE
        if key in self.outliers:
            return self._between(np.log(times_us))
        launch = self._launch_variance(1.0 / float(np.nanmean(times_us)))
        return add_variances([Variance(self.spread**2 / self.count, self.df), launch])

    def of_ratio(self, keys: tuple[K, K], times_us: tuple[FloatArray, FloatArray]) -> Variance:
        """The variance of the mean log-ratio of two cases that is between processes.

        The launch moves both: what is left of it in the ratio is the difference of its shares in the two times, which
        vanishes for equal ones.

        Args:
            keys: the two cases.
            times_us: their rounds, without the launch.
        """
        if self.count < 2:
            return NO_VARIANCE
        if self.outliers.intersection(keys):
            return self._between(np.log(times_us[0]) - np.log(times_us[1]))
        first, second = (1.0 / float(np.nanmean(times)) for times in times_us)
        own = Variance(2.0 * self.spread**2 / self.count, self.df)
        return add_variances([own, self._launch_variance(first - second)])

    def _launch_variance(self, per_us: float) -> Variance:
        """Of a mean over the processes, relative, where a microsecond of launch is worth `per_us`.

        Two or three processes tell little of how far launches spread: what is known of other runs is weighed in by its
        degrees of freedom, as in Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004).
        """
        df = USUAL_LAUNCH_DF + self.count - 1
        squares = USUAL_LAUNCH_DF * USUAL_LAUNCH_SD_US**2 + float(np.sum(self.launch_us**2))
        return Variance(per_us**2 * squares / df / self.count, df)

    def _between(self, logs: FloatArray) -> Variance:
        """Of the mean over the processes' own means."""
        means = process_means(logs, self.process, self.count)
        known = means[np.isfinite(means)]
        if len(known) < 2:
            return Variance(math.inf, 1)
        return Variance(float(np.var(known, ddof=1)) / len(known), len(known) - 1)


def estimate_effects(times_us: Mapping[K, FloatArray], process: IntArray) -> ProcessEffects[K]:
    """Estimates the effects of the processes from all cases of a workload.

    Args:
        times_us: shape (rounds,) of each case, microseconds, NaN where a round is missing.
        process: shape (rounds,), the process of each round, any numbers.

    Returns:
        No effects at all where there is one process: such a run does not tell them.

    Raises:
        ValueError: if the shapes differ.
    """
    if any(times.shape != process.shape for times in times_us.values()):
        raise ValueError(f"every case needs a time or NaN for each of {len(process)} rounds")
    numbers, index = np.unique(process, return_inverse=True)
    count = len(numbers)
    means_us = {key: process_means(times, index, count) for key, times in times_us.items()}
    means_us = {key: means for key, means in means_us.items() if np.isfinite(means).all()}
    if count < 2 or not means_us:
        return ProcessEffects(index, np.zeros(max(count, 1)))
    launch_us = _common_shift(list(means_us.values()))
    found = {key: _CaseSpread.of(times_us[key], means, launch_us, index) for key, means in means_us.items()}
    outliers = _find_outliers(found, count)
    usual = [each for key, each in found.items() if key not in outliers]
    variance = max(0.0, float(np.mean([each.between - each.within for each in usual])))
    df = max(1, (len(usual) - 1) * (count - 1))  # one less for each process, whose launch was taken out
    return ProcessEffects(index, launch_us, math.sqrt(variance), df, outliers)


def process_means(values: FloatArray, process: IntArray, count: int) -> FloatArray:
    """The mean of each process's rounds; NaN for one that has none. Shape (processes,)."""
    known = np.isfinite(values)
    sums = np.bincount(process[known], weights=values[known], minlength=count)
    counts = np.bincount(process[known], minlength=count)
    means: FloatArray = np.divide(sums, counts, out=np.full(count, np.nan), where=counts > 0)
    return means


def within_sd(values: FloatArray, process: IntArray, count: int) -> tuple[float, int]:
    """The standard deviation of rounds about the mean of their process, and its degrees of freedom."""
    known = np.isfinite(values)
    residuals = values[known] - process_means(values, process, count)[process[known]]
    df = len(residuals) - len(np.unique(process[known]))
    return (math.sqrt(float(np.sum(residuals**2)) / df) if df > 0 else math.nan), df


def _find_outliers(found: Mapping[K, _CaseSpread], count: int) -> frozenset[K]:
    """The cases whose processes differ more than the usual variance explains: never more than half of them.

    That is taken from the median over the cases, which a few that differ much do not move. The median of a variance
    with d degrees of freedom is the true one times that of chi-squared over d.
    """
    median = float(np.median([each.between for each in found.values()]))
    within = float(np.median([each.within for each in found.values()]))
    usual = max(0.0, median * (count - 1) / float(chdtri(count - 1, 0.5)) - within)
    return frozenset(key for key, each in found.items() if each.between > median and each.stands_out(usual))


def _common_shift(means_us: Sequence[FloatArray]) -> FloatArray:
    """By how much all cases move together between processes: the median over cases, with a mean of zero."""
    shifts = np.median([means - means.mean() for means in means_us], axis=0)
    centred: FloatArray = shifts - shifts.mean()
    return centred


@dataclass(frozen=True)
class _CaseSpread:
    """How far the processes of a case differ once the launch is out, relative to its time.

    Attributes:
        between: variance of the processes' means.
        within: the part of it that the rounds' noise explains.
        dfs: degrees of freedom of both.
    """

    between: float
    within: float
    dfs: tuple[int, int]

    @classmethod
    def of(cls, times_us: FloatArray, means_us: FloatArray, launch_us: FloatArray, process: IntArray) -> _CaseSpread:
        count = len(means_us)
        relative = (means_us - launch_us) / means_us.mean()
        sd_us, df = within_sd(times_us, process, count)
        rounds = np.bincount(process[np.isfinite(times_us)], minlength=count)
        within = (sd_us / means_us.mean()) ** 2 * float(np.mean(1.0 / rounds)) if df > 0 else 0.0
        return cls(float(np.var(relative, ddof=1)), within, (count - 1, df))

    def stands_out(self, variance: float) -> bool:
        """Whether the processes differ more than noise and the usual variance explain, by an F-test."""
        expected = self.within + variance
        if expected <= 0 or self.dfs[1] < 1:
            return False
        return bool(fdtrc(self.dfs[0], self.dfs[1], self.between / expected) < STANDS_OUT)
