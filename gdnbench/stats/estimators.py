"""Estimators of location: trimmed mean, median of quantised times, weighted geometric mean; and a timer's tick.

GPU event times are quantised: whole multiples of the timer's resolution, its tick (32 ns on an H200), stored as
float32. A decode kernel lasts a hundred ticks or so, so a plain median moves in steps of half a percent unless it is
interpolated within a tick, which `infer_resolution_us` infers from the samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from gdnbench.stats import FloatArray


def trimmed_mean(samples_us: FloatArray, trim: float) -> float:
    """The mean without the share `trim` of the samples at either end; a sample on the cut counts in part.

    Times of short kernels fall into a few narrow peaks, on an H200 0.16 to 0.22 µs apart, at places that differ from
    process to process. A slower kernel has more samples in the later peaks, so only a mean of nearly all samples moves
    in proportion: by the interquartile mean, additions that cost 1.4 % on average cost 0.9 % in one process and 2.0 %
    in another (docs/measuring.md). A median jumps from peak to peak. The timer's ticks average out where the noise
    spans at least one tick; below that the interpolated median is more accurate, by less than 0.1 % of 5 µs at ticks of
    32 ns.

    ValueError is raised for no or non-finite samples, or a `trim` outside 0 to a half.
    """
    count = len(samples_us)
    if not count or not np.isfinite(samples_us).all():
        raise ValueError("a trimmed mean needs samples, and all of them finite")
    weights = _weights_between_cuts(count, trim)
    return float((np.sort(samples_us) * weights).sum() / weights.sum())


@cache
def _weights_between_cuts(count: int, trim: float) -> FloatArray:
    """Weights of sorted samples: what of the ranks i to i + 1 of sample i lies between the cuts."""
    if not 0 <= trim < 0.5:
        raise ValueError(f"a share of {trim} cannot be left out at either end")
    ranks = np.arange(count)
    between = np.minimum(ranks + 1, (1.0 - trim) * count) - np.maximum(ranks, trim * count)
    weights: FloatArray = np.clip(between, 0.0, None)
    weights.flags.writeable = False
    return weights


def interpolated_median(samples_us: FloatArray, resolution_us: float | None) -> float:
    """Median of quantised samples, interpolated inside its tick `resolution_us`; the plain median if that is None.

    The grouped-data median, `tick * (m - 1/2 + (n/2 - F) / f)`: m the median tick, F the samples below it, f the
    samples in it, which are taken as spread evenly over m - 1/2 to m + 1/2 (Yule, "An Introduction to the Theory of
    Statistics", 1911; `statistics.median_grouped` is the same where n is odd). Where n is even and the two middle
    samples lie in different ticks, it is the mean of the formula at both. The result is within half a tick of the plain
    median. ValueError is raised for no or non-finite samples, or a tick that is not positive.
    """
    if samples_us.size == 0:
        raise ValueError("no samples to take the median of")
    if not np.isfinite(samples_us).all():
        raise ValueError("samples must be finite: drop missing ones before taking the median")
    if resolution_us is None:
        return float(np.median(samples_us))
    if not (math.isfinite(resolution_us) and resolution_us > 0):
        raise ValueError(f"the resolution must be a positive number of microseconds, not {resolution_us}")
    return resolution_us * _grouped_median(np.rint(samples_us / resolution_us))


def _grouped_median(ticks: FloatArray) -> float:
    lower, upper = (ticks.size - 1) // 2, ticks.size // 2
    middle = np.partition(ticks, (lower, upper))
    low, high = float(middle[lower]), float(middle[upper])
    if low == high:
        return _interpolate(ticks, low)
    return (_interpolate(ticks, low) + _interpolate(ticks, high)) / 2.0


def _interpolate(ticks: FloatArray, median: float) -> float:
    below = np.count_nonzero(ticks < median)
    inside = np.count_nonzero(ticks == median)
    return median - 0.5 + (ticks.size / 2.0 - below) / inside


def weighted_geomean(times_us: Sequence[FloatArray], weights: Sequence[float]) -> FloatArray:
    """The weighted geometric mean over workloads, round by round: exp(sum(w_i log t_i) / sum(w_i)).

    The ratio of two such means is the weighted geometric mean of the workloads' ratios, and stays paired by round. Each
    element of `times_us` and the result have the shape (rounds,), microseconds, NaN where a round is missing.
    ValueError is raised if there is no workload, a weight is missing or not positive, or the numbers of rounds differ.
    """
    if not times_us or len(times_us) != len(weights) or min(weights) <= 0:
        raise ValueError(f"{len(times_us)} workloads need a positive weight each, not {list(weights)}")
    if len({each.shape for each in times_us}) != 1:
        raise ValueError(f"workloads need the same rounds: shapes are {[each.shape for each in times_us]}")
    mean: FloatArray = np.exp(np.average(np.log(np.stack(list(times_us))), axis=0, weights=list(weights)))
    return mean


def median_known(values: Sequence[float] | FloatArray) -> float:
    """The median of the finite values, or NaN if there is none."""
    known = [value for value in values if math.isfinite(value)]
    return float(np.median(known)) if known else math.nan


MAD_TO_SD = 1.4826  # the standard deviation of normal values over their median absolute deviation, 1 / Phi^-1(3/4)

MIN_REPEATED_VALUES = 6  # the fewest distinct repeated values that are evidence of a grid
MIN_SHARE_ON_GRID = 0.99  # of all samples
GRID_TOLERANCE = 0.1  # how far from a multiple of the tick, in ticks, a sample on the grid may lie


def infer_resolution_us(samples_us: FloatArray) -> float | None:
    """Infers the timer's tick from samples in microseconds, of any shape; ignores NaN, infinite and non-positive ones.

    Returns the tick in microseconds, or None if the values are continuous or too few repeat.

    Only values that occur twice are evidence: a quantised timer repeats itself, a continuous one does not, and a single
    value off the grid seldom does. The tick is the approximate greatest common divisor of the gaps between neighbouring
    repeated values.

    Where every repeated value happens to be a multiple of k ticks, the answer is k ticks: for values on odd and even
    ticks at random a chance of 2**-6 at the fewest values accepted, with little harm. Where values hardly repeat, no
    tick is found. So pool the samples of a whole run.
    """
    samples = np.ravel(samples_us)
    samples = samples[np.isfinite(samples) & (samples > 0)]
    repeated = _repeated_values(samples)
    if repeated.size < MIN_REPEATED_VALUES:
        return None
    # Twice float32's spacing in microseconds, for the timer rounds in seconds, where it may be that.
    rounding = 2.0 * float(np.spacing(np.float32(repeated[-1])))
    gaps = _near_gaps(repeated, rounding)
    if gaps.size == 0:
        return None
    tick = _refine(_common_divisor(gaps, rounding), gaps, shortest=float(repeated[0]))
    return tick if _share_on_grid(samples, tick) >= MIN_SHARE_ON_GRID else None


def _repeated_values(samples: FloatArray) -> FloatArray:
    # Compared as float32: a tick count that took two routes to float64 is still one value.
    values, counts = np.unique(samples.astype(np.float32), return_counts=True)
    repeated: FloatArray = values[counts > 1].astype(np.float64)
    return repeated


def _near_gaps(values: FloatArray, rounding: float) -> FloatArray:
    gaps = np.diff(values)
    gaps = gaps[gaps > 2.0 * rounding]
    # Across a gap of many ticks the divisor's own error adds up until the count of ticks is a guess.
    near: FloatArray = gaps[gaps < 16.0 * gaps.min(initial=np.inf)]
    return near


def _common_divisor(gaps: FloatArray, rounding: float) -> float:
    """Euclid's algorithm on numbers each wrong by up to `rounding`.

    The divisor always exceeds that error, so it cannot be the grid of float32 itself: on continuous times the result is
    a divisor that most samples are not multiples of.
    """
    divisor = float(gaps.min())
    while True:
        counts = np.rint(gaps / divisor)
        remainders = np.abs(gaps - counts * divisor)
        # The divisor is itself wrong by up to `rounding`, and its multiple by so many times that.
        allowed = np.maximum(GRID_TOLERANCE * divisor, rounding * (counts + 1.0))
        off_grid = remainders[remainders > allowed]
        if off_grid.size == 0:
            return divisor
        divisor = float(off_grid.min())


def _refine(tick: float, gaps: FloatArray, shortest: float) -> float:
    # Errors cancel in a sum of neighbouring gaps. The mean gap then counts the ticks of the shortest time
    # exactly, and that time over its count is good to float32's own relative precision.
    tick = float(gaps.sum() / np.rint(gaps / tick).sum())
    return shortest / max(1.0, round(shortest / tick))


def _share_on_grid(samples: FloatArray, tick: float) -> float:
    ticks = samples / tick
    return float(np.mean(np.abs(ticks - np.rint(ticks)) <= GRID_TOLERANCE))
