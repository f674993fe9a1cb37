"""The probability of an event and its interval, from a count of trials."""

from __future__ import annotations

import scipy  # loads scipy.special when it is first used

from gdnbench.stats.interval import Interval


def share_of(count: int, trials: int, confidence: float = 0.95, *, design_effect: float = 1.0) -> Interval:
    """The share of trials with an event, from 0 to 1, and the interval of Clopper and Pearson, Biometrika 26 (1934).

    The interval covers the true share with at least the confidence asked for. Dependent trials count as fewer, by
    `design_effect`: Korn and Graubard, Survey Methodology 24 (1998). Without trials the estimate is NaN and the
    interval (0, 1). ValueError is raised if `count` is not between 0 and `trials`, or `confidence` is not between 0 and
    1.
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
    """The design effect of `alike` comparisons with one shared value.

    Differences from one value correlate by a half, and whether they are large correlates by at most that: `alike` of
    them are worth alike / (1 + (alike - 1) / 2) independent comparisons (Kish, Survey Sampling, 1965).
    """
    return 1.0 + max(0, alike - 1) / 2.0
