"""How often something happens, from how often it happened."""

from __future__ import annotations

import scipy  # loads scipy.special when it is first used

from gdnbench.stats.interval import Interval


def share_of(count: int, trials: int, confidence: float = 0.95, *, design_effect: float = 1.0) -> Interval:
    """The share of trials with an event, and the interval of Clopper and Pearson, Biometrika 26 (1934).

    It holds the true share with at least the confidence asked for. Trials that depend on one another count as fewer:
    Korn and Graubard, Survey Methodology 24 (1998).

    Args:
        count: trials with the event.
        trials: all of them.
        confidence: between 0 and 1, both excluded.
        design_effect: how many trials tell as much as one that depends on no other.

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
    events, others = count / design_effect, (trials - count) / design_effect
    low = float(scipy.special.betaincinv(events, others + 1.0, tail)) if count else 0.0
    high = float(scipy.special.betaincinv(events + 1.0, others, 1.0 - tail)) if count < trials else 1.0
    return Interval(count / trials, low, high)


def sharing_design_effect(alike: int) -> float:
    """The design effect of comparisons in groups that share what they are compared with.

    Differences from one value correlate by a half, and whether they are large by no more than that: so many of them
    tell as much as alike / (1 + (alike - 1) / 2) that share nothing (Kish, Survey Sampling, 1965).

    Args:
        alike: comparisons of a group.
    """
    return 1.0 + max(0, alike - 1) / 2.0
