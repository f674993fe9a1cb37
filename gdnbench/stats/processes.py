"""The random effect of the processes of a run, and the variance it adds to a time and to a ratio.

A round time is modelled as t = launch(process) + kernel(case) * (1 + effect(case, process) + noise(case, round)). The
launch, which only NVBench's times include, is a constant in microseconds that all cases of a process share (on H200s
its standard deviation is 0.05 to 0.06 µs, and its correlation between B=1 and B=8 0.98: docs/measuring.md); it is
estimated from all cases and subtracted. The remaining variance between processes is a random effect of each case. A run
has too few processes to estimate it for each case, so all cases of a workload together give the factor by which the
means of processes vary more than their rounds explain, and every variance over rounds is inflated by that factor
(Wedderburn, Biometrika 61, 1974: quasi-likelihood). A case that stands out is judged by its own processes alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
import scipy  # loads scipy.special when it is first used: a fifth of a second

from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.interval import NO_VARIANCE, UNKNOWN_VARIANCE, Variance, add_variances, squares_within

K = TypeVar("K", bound=Hashable)

STANDS_OUT = 1e-3
"""The chance that a case like the others is taken for an outlier, whose processes differ more than theirs."""

USUAL_LAUNCH_SD_US = 0.06
"""Standard deviation of NVBench's launches between a card's processes: 0.05 to 0.064 µs, four sets of runs on H200s."""
USUAL_LAUNCH_DF = 15


@dataclass(frozen=True, slots=True)
class Between:
    """What processes add to the variance of a mean over rounds.

    `inflation` is the factor, at least 1 and of `df` degrees of freedom, by which processes vary more than their rounds
    explain; `variance` is the part that rounds do not show.
    """

    inflation: float = 1.0
    df: float = math.inf
    variance: Variance = NO_VARIANCE

    def add(self, more: Variance) -> Between:
        """Returns a copy with a further variance."""
        return replace(self, variance=add_variances([self.variance, more]))


NOTHING_BETWEEN = Between()


@dataclass(frozen=True)
class ProcessEffects(Generic[K]):
    """The effects of a run's processes on the cases of a workload.

    `inflation` is the variance between the processes' means of a case over that which its rounds explain. `outliers`
    are cases whose processes differ more than the others' do: each is judged by its own alone. `usual_sd_us` is the
    standard deviation of launches between processes in other runs, 0 if unknown; `own_sds` that of each case, relative,
    launch aside, for a run of one process and for the cases `single` that one process of several measured. A case not
    named there, such as a control, has the variance of its rounds and launch.
    """

    process: IntArray  # shape (rounds,), numbered from 0
    launch_us: FloatArray  # shape (processes,), what each adds to every time, less their mean, microseconds
    inflation: float = 1.0
    df: float = math.inf
    outliers: frozenset[K] = frozenset()
    usual_sd_us: float = 0.0
    own_sds: Mapping[K, float] = field(default_factory=dict)
    single: frozenset[K] = frozenset()

    @property
    def count(self) -> int:
        """The number of processes."""
        return len(self.launch_us)

    def without_launch(self, times_us: FloatArray) -> FloatArray:
        """Round times as if every process had added the mean of their launches; shape (rounds,), microseconds."""
        return times_us - self.launch_us[self.process]

    def of_time(self, key: K, times_us: FloatArray) -> Between:
        """The variance between processes of the mean logarithm of a case's round times, launch subtracted."""
        if self.count < 2 or key in self.single:
            return self._as_usual(1.0 / float(np.nanmean(times_us)), key)
        if key in self.outliers:
            return self._own_processes(np.log(times_us))
        return Between(self.inflation, self.df, self._launch_variance(1.0 / float(np.nanmean(times_us))))

    def of_ratio(self, keys: tuple[K, K], times_us: tuple[FloatArray, FloatArray]) -> Between:
        """The variance between processes of the mean log-ratio of two cases' round times, launch subtracted.

        The launch is part of both times: its relative effect on the ratio is the difference of its shares in the two,
        which vanishes for equal times.
        """
        first, second = (1.0 / float(np.nanmean(times)) for times in times_us)
        if self.count < 2 or self.single.intersection(keys):
            return self._as_usual(first - second, *keys)
        if self.outliers.intersection(keys):
            return self._own_processes(np.log(times_us[0]) - np.log(times_us[1]))
        return Between(self.inflation, self.df, self._launch_variance(first - second))

    def _as_usual(self, per_us: float, *keys: K) -> Between:
        """With one process, takes the variance between processes from other runs, where known."""
        if not self.own_sds:
            return NOTHING_BETWEEN
        launch = self._launch_variance(per_us) if self.usual_sd_us else NO_VARIANCE
        if not self.own_sds.keys() >= set(keys):
            return Between(variance=launch)
        own = sum(self.own_sds[key] ** 2 for key in keys)
        return Between(variance=launch).add(Variance(own, USUAL_LAUNCH_DF))

    def _launch_variance(self, per_us: float) -> Variance:
        """The relative variance of a mean over processes that is due to launches; 1 µs of launch is worth `per_us`."""
        of_mean = mean_launch_variance(self.launch_us, self.usual_sd_us**2)
        return Variance(per_us**2 * of_mean.value, of_mean.df)

    def _own_processes(self, logs: FloatArray) -> Between:
        """The variance of the mean, from the means of the case's own processes."""
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

    The launches are estimated from the cases measured in every process, the variance between processes from every case
    with several. With one process there are no effects but the usual ones given. Times of each case and `process`, any
    numbers, have the shape (rounds,), microseconds, NaN where a round is missing.

    Args:
        left_out: cases from which nothing is estimated for the others, such as an empty kernel, whose time is a few
            ticks of the timer and moves by whole ticks.
        has_launch: whether the times include a launch. A kernel's own time has none: by CUPTI all cases of a process
            moved together by 0.001 µs, where by NVBench they moved by 0.05 (nine runs on H200s).
        usual_sd_us: ignored for times without a launch.
    """
    if any(times.shape != process.shape for times in times_us.values()):
        raise ValueError(f"every case needs a time or NaN for each of {len(process)} rounds")
    usual_sd_us = usual_sd_us if has_launch else 0.0
    known = np.any([np.isfinite(times) for times in times_us.values()], axis=0) if times_us else np.ones(0, bool)
    if known.any():  # a round without times counts for the first process
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
    single = frozenset(own_sds.keys() & times_us.keys() - several.keys() - set(left_out))
    own_sds = own_sds if single else {}
    found = _spreads(several, _common_shift(np.array(list(whole.values()))) if has_launch else 0.0, index, count)
    outliers = _find_outliers(found)
    usual = [each for key, each in found.items() if key not in outliers]
    outliers |= times_us.keys() & set(left_out)
    fitted = count - 1 if has_launch else 0  # the launches cost as many degrees of freedom as one case has
    df = sum(each.dfs[0] for each in usual) - fitted
    if df < 1:
        found_outliers = outliers | set(several)
        return ProcessEffects(
            index, launch_us, outliers=found_outliers, usual_sd_us=usual_sd_us, own_sds=own_sds, single=single
        )
    inflation = sum(each.inflation * each.dfs[0] for each in usual) / df
    df_known = df if inflation > 1 else math.inf
    return ProcessEffects(
        index, launch_us, max(1.0, inflation), df_known, outliers, usual_sd_us, own_sds=own_sds, single=single
    )


def _launches(means_us: FloatArray, usual_sd_us: float) -> FloatArray:
    """What each process adds to every time, less their mean; shape (processes,), microseconds.

    It is the common shift of all cases, shrunk by the share of it that is their own noise: with a normal prior (the
    usual launches) and a normal error, Bayes's rule multiplies it by the prior variance over the sum of both.
    `means_us` has the shape (cases, processes); a `usual_sd_us` of 0 is unknown, and the whole shift counts as launch.
    """
    cases, processes = means_us.shape
    shift_us = _common_shift(means_us)
    own_us = means_us - means_us.mean(axis=1, keepdims=True) - shift_us
    shift_us -= shift_us.mean()
    if cases < 2:
        return np.zeros(processes)  # a single case cannot separate the launch from its own effect
    if not usual_sd_us:
        return shift_us
    weights, df = _weights(means_us), processes - 1
    relative_variances = weights * np.sum(own_us**2, axis=1) / df * cases / (cases - 1)
    usual_variance = _weighted_median(relative_variances, weights) * _mean_over_median(df)
    noise_variance = usual_variance / float(np.sum(weights))
    shift_us *= usual_sd_us**2 / (usual_sd_us**2 + noise_variance)
    return shift_us


def mean_launch_variance(launch_us: FloatArray, usual_variance: float) -> Variance:
    """The variance of the mean of a few launches, in square microseconds.

    Two or three launches say little of their spread, so the variance in other runs, 0 if unknown, is weighed in by its
    degrees of freedom, as in Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004). `launch_us`
    are the launches less their mean; without a usual variance there are at least two.
    """
    known = USUAL_LAUNCH_DF if usual_variance else 0
    df = known + len(launch_us) - 1
    squares = known * usual_variance + float(np.sum(launch_us**2))
    return Variance(squares / df / len(launch_us), df)


def joint_process(processes: Sequence[IntArray]) -> IntArray:
    """Numbers the combinations of processes in which several workloads were measured, from 0; shape (rounds,)."""
    joint: IntArray = np.unique(np.stack(processes), axis=1, return_inverse=True)[1].ravel()
    return joint


def process_means(values: FloatArray, process: IntArray, count: int) -> FloatArray:
    """The mean of each process's rounds, shape (processes,); NaN for a process without rounds."""
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
    """The common shift of all cases, their weighted median; shape (columns,), microseconds.

    Noise is proportional to a time, so a case weighs as the inverse square of its time: the shift in microseconds of a
    slow kernel says little of a launch. `times_us` has the shape (cases, columns), with NaN where a time is missing.
    """
    shifts, weights = times_us - np.nanmean(times_us, axis=1, keepdims=True), _weights(times_us)
    return np.array([_weighted_median(column, weights) for column in shifts.T])


def _weights(times_us: FloatArray) -> FloatArray:
    weights: FloatArray = np.nanmean(times_us, axis=1) ** -2.0
    return weights


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """The point with half of the weight below, each weight centred on its value; the median for equal weights."""
    known = np.isfinite(values)
    order = np.argsort(values[known])
    values, weights = values[known][order], weights[known][order]
    below = np.cumsum(weights) - weights / 2.0
    return float(np.interp(weights.sum() / 2.0, below, values)) if len(values) else math.nan


@dataclass(frozen=True)
class _CaseSpread:
    """The variance between the processes of a case, without the launch that all cases share in each round.

    `within` is the part of `between` that the rounds' noise explains; `dfs` are the degrees of freedom of both.
    """

    between: float
    within: float
    dfs: tuple[int, int]

    @property
    def inflation(self) -> float:
        return self.between / self.within if self.within > 0 else 1.0

    def stands_out(self, usual: float) -> bool:
        """Whether an F-test finds the inflation larger than the usual one."""
        return self.dfs[1] > 0 and bool(scipy.special.fdtrc(*self.dfs, self.inflation / usual) < STANDS_OUT)


def _spreads(
    times_us: Mapping[K, FloatArray], shared: FloatArray | float, process: IntArray, count: int
) -> dict[K, _CaseSpread]:
    """The spread of each case over the processes that measured it; `shared`, shape (rounds,), is the common shift."""
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
    """The cases whose processes differ more than the usual inflation, by the median, explains; at most half of them."""
    df = max(each.dfs[0] for each in found.values())
    median = float(np.median([each.inflation for each in found.values()]))
    usual = max(1.0, median * _mean_over_median(df))
    return frozenset(key for key, each in found.items() if each.inflation > median and each.stands_out(usual))


def _mean_over_median(df: int) -> float:
    """The ratio of mean and median of variances with `df` degrees of freedom, chi-squared over `df`."""
    return df / float(scipy.special.chdtri(df, 0.5))
