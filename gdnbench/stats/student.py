"""Student's t: the critical half-width of a mean and the upper tail, without importing scipy.stats.

Student, "The probable error of a mean", Biometrika 6 (1908). `scipy.special` holds the same functions as
`scipy.stats.t` and imports ten times faster.
"""

from __future__ import annotations

import math

from scipy.special import stdtr, stdtrit


def t_half_width(sd: float, n: int, confidence: float) -> float:
    """Half-width of the two-sided t-interval of a mean: `t_{n-1, 1-(1-confidence)/2} * sd / sqrt(n)`.

    Args:
        sd: sample standard deviation (n - 1 in the denominator), any unit; ignored where n < 2.
        n: number of independent values.
        confidence: between 0 and 1, both excluded.

    Returns:
        The half-width in the unit of `sd`; infinity where n < 2, for one value says nothing of its spread.

    Raises:
        ValueError: if `confidence` is not between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if n < 2:
        return math.inf
    return float(stdtrit(n - 1, 1.0 - (1.0 - confidence) / 2.0)) * sd / math.sqrt(n)


def t_upper_tail(t: float, df: float) -> float:
    """P(T >= t) for Student's t with `df` degrees of freedom.

    Taken as the lower tail at -t: `1 - stdtr(df, t)` loses every digit of a small probability.
    """
    return float(stdtr(df, -t))
