"""The median of times that come in ticks."""

from __future__ import annotations

import math

import numpy as np

from gdnbench.stats.types import FloatArray


def interpolated_median(samples_us: FloatArray, tick_us: float | None) -> float:
    """Median of ticked samples, interpolated inside the tick it falls in.

    The grouped-data median, `tick * (m - 1/2 + (n/2 - F) / f)`: m the median tick, F the samples below it, f
    those in it, which are taken as spread evenly over m - 1/2 to m + 1/2 (Yule, "An Introduction to the
    Theory of Statistics", 1911; `statistics.median_grouped` is the same where n is odd). Where n is even and
    the two middle samples lie in different ticks it is the mean of the formula at both: their midpoint.

    Args:
        samples_us: shape (n,), microseconds, in any order.
        tick_us: the timer's tick in microseconds; None gives the plain median.

    Returns:
        The median in microseconds, within half a tick of the plain median where samples lie on the grid.

    Raises:
        ValueError: if there are no samples, one is not finite, or the tick is not positive.
    """
    if samples_us.size == 0:
        raise ValueError("no samples to take the median of")
    if not np.isfinite(samples_us).all():
        raise ValueError("samples must be finite: drop missing ones before taking the median")
    if tick_us is None:
        return float(np.median(samples_us))
    if not (math.isfinite(tick_us) and tick_us > 0):
        raise ValueError(f"the tick must be a positive number of microseconds, not {tick_us}")
    return tick_us * _grouped_median(np.rint(samples_us / tick_us))


def _grouped_median(ticks: FloatArray) -> float:
    """Grouped-data median of whole numbers, in the same unit."""
    lower, upper = (ticks.size - 1) // 2, ticks.size // 2
    middle = np.partition(ticks, (lower, upper))
    low, high = float(middle[lower]), float(middle[upper])
    if low == high:
        return _interpolate(ticks, low)
    return (_interpolate(ticks, low) + _interpolate(ticks, high)) / 2.0


def _interpolate(ticks: FloatArray, median: float) -> float:
    """Where inside the tick `median` half of the samples lie below."""
    below = np.count_nonzero(ticks < median)
    inside = np.count_nonzero(ticks == median)
    return median - 0.5 + (ticks.size / 2.0 - below) / inside
