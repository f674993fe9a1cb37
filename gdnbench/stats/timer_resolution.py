"""The resolution of a timer, inferred from its samples.

GPU event times are quantised: whole multiples of the timer's resolution, its tick (32 ns on an H200), stored as
float32. A decode kernel lasts a hundred ticks or so, so a plain median moves in steps of half a percent unless it is
interpolated within a tick.
"""

from __future__ import annotations

import numpy as np

from gdnbench.stats import FloatArray

MIN_REPEATED_VALUES = 6
"""The fewest distinct repeated values that are evidence of a grid."""

MIN_SHARE_ON_GRID = 0.99
"""The share of all samples that must lie on the grid."""

GRID_TOLERANCE = 0.1
"""How far from a multiple of the tick, in ticks, a sample on the grid may lie."""


def infer_resolution_us(samples_us: FloatArray) -> float | None:
    """Infers the timer's tick from samples in microseconds, of any shape; ignores NaN, infinite and non-positive ones.

    Returns the tick in microseconds, or None if the values are continuous or too few repeat.

    Only values that occur twice are evidence: a quantised timer repeats itself, a continuous one does not, and a single
    value off the grid seldom does. The tick is the approximate greatest common divisor of the gaps between neighbouring
    repeated values.

    Limits: where every repeated value happens to be a multiple of k ticks, the answer is k ticks. For values that fall
    on odd and even ticks at random the chance of that is 2**-6 at the fewest values accepted, and the harm is small, as
    such samples do lie on the coarser grid. Where samples are so few, or so spread, that values hardly repeat, no tick
    is found, and the spread hides it anyway. So pool the samples of a whole run.
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
    """Gaps between neighbours, without those of rounding and those of many ticks."""
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
    """Refines a tick that has the rounding error of one gap to the precision of a whole time."""
    # Errors cancel in a sum of neighbouring gaps. The mean gap then counts the ticks of the shortest time
    # exactly, and that time over its count is good to float32's own relative precision.
    tick = float(gaps.sum() / np.rint(gaps / tick).sum())
    return shortest / max(1.0, round(shortest / tick))


def _share_on_grid(samples: FloatArray, tick: float) -> float:
    """Share of samples within GRID_TOLERANCE ticks of a whole number of ticks."""
    ticks = samples / tick
    return float(np.mean(np.abs(ticks - np.rint(ticks)) <= GRID_TOLERANCE))
