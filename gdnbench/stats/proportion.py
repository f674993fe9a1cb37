"""How often something happens, from how often it happened."""

from __future__ import annotations

from scipy.special import betaincinv

from gdnbench.stats.interval import Interval


def share_of(count: int, trials: int, confidence: float = 0.95) -> Interval:
    """The share of trials with an event, and the interval of Clopper and Pearson, Biometrika 26 (1934).

    It holds the true share with at least the confidence asked for, if the trials do not depend on one another.

    Args:
        count: trials with the event.
        trials: all of them.
        confidence: between 0 and 1, both excluded.

    Returns:
        Shares between 0 and 1; without trials the estimate is NaN and the interval all of them.

    Raises:
        ValueError: for a count that is not between 0 and `trials`, or a confidence out of range.
    """
    if not 0 <= count <= trials:
        raise ValueError(f"{count} of {trials} is no share")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if trials == 0:
        return Interval(float("nan"), 0.0, 1.0)
    tail = (1.0 - confidence) / 2.0
    low = float(betaincinv(count, trials - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, trials - count, 1.0 - tail)) if count < trials else 1.0
    return Interval(count / trials, low, high)
