"""The margin: how large a difference must be to be called one.

A margin of 0.005 calls two times the same whose ratio lies between 1 / 1.005 and 1.005. The lower edge is not
0.995, so that a kernel and its baseline can change places.
"""

from __future__ import annotations

import math

DEFAULT_MARGIN = 0.005
"""Half a percent."""


def log_margin(margin: float) -> float:
    """The margin on the scale of log-ratios, `log(1 + margin)`.

    Raises:
        ValueError: if the margin is negative or not finite.
    """
    _check(margin)
    return math.log1p(margin)


def margin_edges(margin: float) -> tuple[float, float]:
    """The least and the greatest ratio called the same: `1 / (1 + margin)` and `1 + margin`.

    Raises:
        ValueError: if the margin is negative or not finite.
    """
    _check(margin)
    return 1.0 / (1.0 + margin), 1.0 + margin


def _check(margin: float) -> None:
    if not (math.isfinite(margin) and margin >= 0):
        raise ValueError(f"the margin must be zero or a positive ratio, not {margin}")
