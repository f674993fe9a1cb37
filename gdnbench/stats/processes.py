"""What the processes of a run add to its times, and how uncertain that leaves a time and a ratio of two.

A round time is modelled as t = launch(process) + kernel(case) * (1 + effect(case, process) + noise(case, round)). The
launch, which only NVBench's times have in them, is a constant in microseconds that all cases of a process share (on
H200s its standard deviation is 0.05 to 0.06 µs, and its correlation between B=1 and B=8 0.98: docs/measuring.md); it is
estimated from all of them and taken out. What is left between processes is a random effect of each case. A run has few
processes, too few to tell it for each case: all cases of a workload together tell by how much the means of processes
vary more than their rounds explain, and by that factor every variance over rounds is inflated (Wedderburn, Biometrika
61, 1974: quasi-likelihood). A case that stands out is judged by its own processes alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
import scipy  # loads scipy.special when it is first used: a fifth of a second

from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.variance import NO_VARIANCE, UNKNOWN_VARIANCE, Variance, add_variances, squares_within

K = TypeVar("K", bound=Hashable)

STANDS_OUT = 1e-3
"""Chance that a case like the others is taken for one whose processes differ more than theirs."""

USUAL_LAUNCH_SD_US = 0.06
"""Of launches of processes on one card, by NVBench: 0.05 to 0.064 µs in four sets of runs on H200s."""
USUAL_LAUNCH_DF = 15


@dataclass(frozen=True, slots=True)
class Between:
    """What processes add to the variance of a mean over rounds.

    Attributes:
        inflation: the factor by which processes vary more than their rounds explain, at least 1.
        df: degrees of freedom of that factor.
        variance: of what rounds do not tell at all.
    """

    inflation: float = 1.0
    df: float = math.inf
    variance: Variance = NO_VARIANCE

    def add(self, more: Variance) -> Between:
        """The same with a further variance."""
        return replace(self, variance=add_variances([self.variance, more]))


NOTHING_BETWEEN = Between()


@dataclass(frozen=True)
class ProcessEffects(Generic[K]):
    """The effects of a run's processes on the cases of a workload.

    Attributes:
        process: shape (rounds,), the process of each round, numbered from 0.
        launch_us: shape (processes,), what each adds to every time, less their mean, microseconds.
        inflation: variance between the processes' means of a case over that which its rounds explain, at least 1.
        df: degrees of freedom of the inflation.
        outliers: cases whose processes differ more than the others' do: each is judged by its own processes alone.
        usual_sd_us: how far launches of processes spread in other runs, microseconds; 0 where that is not known.
        own_sds: what else a process adds to the time of each case in other runs, relative, as a standard deviation: a
            single process does not show it. A pair of which one is not named, as a control, differs by its rounds.
    """

    process: IntArray
    launch_us: FloatArray
    inflation: float = 1.0
    df: float = math.inf
    outliers: frozenset[K] = frozenset()
    usual_sd_us: float = 0.0
    own_sds: Mapping[K, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many processes there are."""
        return len(self.launch_us)

    def without_launch(self, times_us: FloatArray) -> FloatArray:
        """Round times as if every process had added the mean of their launches; shape (rounds,), microseconds."""
        return times_us - self.launch_us[self.process]

    def of_time(self, key: K, times_us: FloatArray) -> Between:
        """What is between processes in the mean logarithm of a case's round times.

        Args:
            key: the case.
            times_us: its rounds, without the launch.
        """
        if self.count < 2:
            return self._as_usual(1.0 / float(np.nanmean(times_us)), key)
        if key in self.outliers:
            return self._own_processes(np.log(times_us))
        return Between(self.inflation, self.df, self._launch_variance(1.0 / float(np.nanmean(times_us))))

    def of_ratio(self, keys: tuple[K, K], times_us: tuple[FloatArray, FloatArray]) -> Between:
        """What is between processes in the mean log-ratio of two cases.

        The launch moves both: what is left of it in the ratio is the difference of its shares in the two times, which
        vanishes for equal ones.

        Args:
            keys: the two cases.
            times_us: their rounds, without the launch.
        """
        first, second = (1.0 / float(np.nanmean(times)) for times in times_us)
        if self.count < 2:
            return self._as_usual(first - second, *keys)
        if self.outliers.intersection(keys):
            return self._own_processes(np.log(times_us[0]) - np.log(times_us[1]))
        return Between(self.inflation, self.df, self._launch_variance(first - second))

    def _as_usual(self, per_us: float, *keys: K) -> Between:
        """With one process, takes the variance between processes from other runs, as far as that is known."""
        if not self.own_sds:
            return NOTHING_BETWEEN
        launch = self._launch_variance(per_us) if self.usual_sd_us else NO_VARIANCE
        if not self.own_sds.keys() >= set(keys):
            return Between(variance=launch)
        own = sum(self.own_sds[key] ** 2 for key in keys)
        return Between(variance=launch).add(Variance(own, USUAL_LAUNCH_DF))

    def _launch_variance(self, per_us: float) -> Variance:
        """Of a mean over the processes, relative, where a microsecond of launch is worth `per_us`."""
        of_mean = mean_launch_variance(self.launch_us, self.usual_sd_us**2)
        return Variance(per_us**2 * of_mean.value, of_mean.df)

    def _own_processes(self, logs: FloatArray) -> Between:
        """The variance of the mean over the processes' own means."""
        means = process_means(logs, self.process, self.count)
        known = means[np.isfinite(means)]
        if len(known) < 2:
            return Between(variance=UNKNOWN_VARIANCE)
        return Between(variance=Variance(float(np.var(known, ddof=1)) / len(known), len(known) - 1))


def estimate_effects(
    times_us: Mapping[K, FloatArray],
    process: IntArray,
    *,
    left_out: Collection[K] = (),
    has_launch: bool = True,
    usual_sd_us: float = 0.0,
    own_sds: Mapping[K, float] | None = None,
) -> ProcessEffects[K]:
    """Estimates the effects of the processes from all cases of a workload.

    What processes add to all cases is read from those that were measured in each of them; how far a case's processes
    differ, from every case that has several.

    Args:
        times_us: shape (rounds,) of each case, microseconds, NaN where a round is missing.
        process: shape (rounds,), the process of each round, any numbers.
        left_out: cases that are no evidence on the others, such as a kernel that does nothing, whose time is a few
            ticks of the timer and moves by whole ones.
        has_launch: whether the times have a launch in them. A kernel's own time has none: by CUPTI all cases of a
            process moved together by 0.001 µs, where by NVBench they moved by 0.05 (nine runs on H200s).
        usual_sd_us: see the attribute; times without a launch have none.
        own_sds: see the attribute.

    Returns:
        No effects where there is one process, unless it is told what is usual: such a run does not tell them.

    Raises:
        ValueError: if the shapes differ.
    """
    if any(times.shape != process.shape for times in times_us.values()):
        raise ValueError(f"every case needs a time or NaN for each of {len(process)} rounds")
    usual_sd_us = usual_sd_us if has_launch else 0.0
    known = np.any([np.isfinite(times) for times in times_us.values()], axis=0) if times_us else np.ones(0, bool)
    if known.any():  # a round that no case has is of no process
        process = np.where(known, process, process[known][0])
    numbers, index = np.unique(process, return_inverse=True)
    count = len(numbers)
    means_us = {key: process_means(times, index, count) for key, times in times_us.items()}
    own_sds = own_sds or {}
    evidence = {key: times for key, times in times_us.items() if key not in left_out}
    whole = {key: times for key, times in evidence.items() if np.isfinite(means_us[key]).all()}
    if count < 2 or not whole:
        return ProcessEffects(index, np.zeros(max(count, 1)), usual_sd_us=usual_sd_us, own_sds=own_sds)
    launch_us = _launches(np.array([means_us[key] for key in whole]), usual_sd_us) if has_launch else np.zeros(count)
    several = {key: times for key, times in evidence.items() if np.isfinite(means_us[key]).sum() > 1}
    found = _spreads(several, _common_shift(np.array(list(whole.values()))) if has_launch else 0.0, index, count)
    outliers = _find_outliers(found)
    usual = [each for key, each in found.items() if key not in outliers]
    outliers |= times_us.keys() & set(left_out)
    fitted = count - 1 if has_launch else 0  # a launch for each process, which takes the place of a case
    df = sum(each.dfs[0] for each in usual) - fitted
    if df < 1:
        return ProcessEffects(index, launch_us, outliers=outliers | set(several), usual_sd_us=usual_sd_us)
    inflation = sum(each.inflation * each.dfs[0] for each in usual) / df
    df_known = df if inflation > 1 else math.inf
    return ProcessEffects(index, launch_us, max(1.0, inflation), df_known, outliers, usual_sd_us)


def _launches(means_us: FloatArray, usual_sd_us: float) -> FloatArray:
    """What each process adds to every time, less their mean; shape (processes,), microseconds.

    It is what all cases move by together, less the share of that which is their own noise: of two normal distributions,
    the usual launches' and the estimate's about its launch, Bayes's rule leaves the first variance over the sum.

    Args:
        means_us: shape (cases, processes).
        usual_sd_us: how far launches usually spread; 0 where that is not known, and all is taken for launch.
    """
    cases, processes = means_us.shape
    shift_us = _common_shift(means_us)
    own_us = means_us - means_us.mean(axis=1, keepdims=True) - shift_us
    shift_us -= shift_us.mean()
    if cases < 2:
        return np.zeros(processes)  # nothing tells a launch from what is the case's own
    if not usual_sd_us:
        return shift_us
    weights, df = _weights(means_us), processes - 1
    relative_variances = weights * np.sum(own_us**2, axis=1) / df * cases / (cases - 1)
    usual_variance = _weighted_median(relative_variances, weights) * _mean_over_median(df)
    noise_variance = usual_variance / float(np.sum(weights))
    shift_us *= usual_sd_us**2 / (usual_sd_us**2 + noise_variance)
    return shift_us


def mean_launch_variance(launch_us: FloatArray, usual_variance: float) -> Variance:
    """Of the mean of a few launches, in square microseconds.

    Two or three of them tell little of how far launches spread: what is known of other runs is weighed in by its
    degrees of freedom, as in Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004).

    Args:
        launch_us: each less their mean, microseconds; at least two, or a usual variance.
        usual_variance: of launches in other runs, square microseconds; 0 where that is not known.
    """
    known = USUAL_LAUNCH_DF if usual_variance else 0
    df = known + len(launch_us) - 1
    squares = known * usual_variance + float(np.sum(launch_us**2))
    return Variance(squares / df / len(launch_us), df)


def joint_process(processes: Sequence[IntArray]) -> IntArray:
    """The process of each round in which several workloads were measured, perhaps by one process each.

    Args:
        processes: shape (rounds,), of each workload.

    Returns:
        Shape (rounds,), numbered from 0: rounds of the same processes have the same number.
    """
    joint: IntArray = np.unique(np.stack(processes), axis=1, return_inverse=True)[1].ravel()
    return joint


def process_means(values: FloatArray, process: IntArray, count: int) -> FloatArray:
    """The mean of each process's rounds; NaN for one that has none. Shape (processes,)."""
    known = np.isfinite(values)
    sums = np.bincount(process[known], weights=values[known], minlength=count)
    counts = np.bincount(process[known], minlength=count)
    means: FloatArray = np.divide(sums, counts, out=np.full(count, np.nan), where=counts > 0)
    return means


def within_sd(values: FloatArray, process: IntArray) -> tuple[float, int]:
    """The standard deviation of rounds about the mean of their process, and its degrees of freedom."""
    known = np.isfinite(values)
    squares, df = squares_within(values[known], process[known])
    return (math.sqrt(squares / df) if df > 0 else math.nan), df


def _common_shift(times_us: FloatArray) -> FloatArray:
    """By how much all cases move together: their weighted median, shape (columns,), microseconds.

    Noise is a share of a time, so a case weighs as the inverse square of its time: the microseconds by which a slow
    kernel moves say nothing of a launch.

    Args:
        times_us: shape (cases, columns), microseconds, NaN where one is missing.
    """
    shifts, weights = times_us - np.nanmean(times_us, axis=1, keepdims=True), _weights(times_us)
    return np.array([_weighted_median(column, weights) for column in shifts.T])


def _weights(times_us: FloatArray) -> FloatArray:
    """What a case weighs in what all have in common; shape (cases,)."""
    weights: FloatArray = np.nanmean(times_us, axis=1) ** -2.0
    return weights


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Where half of the weight lies below, each value's weight about itself; the median for equal weights."""
    known = np.isfinite(values)
    order = np.argsort(values[known])
    values, weights = values[known][order], weights[known][order]
    below = np.cumsum(weights) - weights / 2.0
    return float(np.interp(weights.sum() / 2.0, below, values)) if len(values) else math.nan


@dataclass(frozen=True)
class _CaseSpread:
    """How far the processes of a case differ, once the launch that all cases share in each round is out.

    Attributes:
        between: variance of the processes' means.
        within: the part of it that the rounds' noise explains.
        dfs: degrees of freedom of both.
    """

    between: float
    within: float
    dfs: tuple[int, int]

    @property
    def inflation(self) -> float:
        """The first over the second."""
        return self.between / self.within if self.within > 0 else 1.0

    def stands_out(self, usual: float) -> bool:
        """Whether the inflation is larger than chance makes of the usual one, by an F-test."""
        return self.dfs[1] > 0 and bool(scipy.special.fdtrc(*self.dfs, self.inflation / usual) < STANDS_OUT)


def _spreads(
    times_us: Mapping[K, FloatArray], shared: FloatArray | float, process: IntArray, count: int
) -> dict[K, _CaseSpread]:
    """How far the processes of each case differ, in those processes that measured it.

    Args:
        times_us: of the cases that have several.
        shared: shape (rounds,), what all cases moved by; 0 where that is nothing.
        process: of each round.
        count: of processes.
    """
    found = {}
    for key, times in times_us.items():
        residuals = times - shared
        known = np.isfinite(residuals)
        rounds = np.bincount(process[known], minlength=count)
        means = process_means(residuals, process, count)[rounds > 0]
        sd_us, df = within_sd(residuals, process)
        within = sd_us**2 * float(np.mean(1.0 / rounds[rounds > 0])) if df > 0 else 0.0
        found[key] = _CaseSpread(float(np.var(means, ddof=1)), within, (len(means) - 1, df))
    return found


def _find_outliers(found: Mapping[K, _CaseSpread]) -> frozenset[K]:
    """The cases whose processes differ more than the usual inflation explains: never more than half of them.

    That is taken from the median over the cases, which a few that differ much do not move.
    """
    df = max(each.dfs[0] for each in found.values())
    median = float(np.median([each.inflation for each in found.values()]))
    usual = max(1.0, median * _mean_over_median(df))
    return frozenset(key for key, each in found.items() if each.inflation > median and each.stands_out(usual))


def _mean_over_median(df: int) -> float:
    """Of variances with so many degrees of freedom, which are distributed as chi-squared over that."""
    return df / float(scipy.special.chdtri(df, 0.5))
