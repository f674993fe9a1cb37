"""The verdict on a speedup's interval, given a margin.

The margin is the smallest difference that counts. A margin of 0.005 calls two times the same whose ratio lies between
`1 / 1.005` and 1.005; the lower edge is `1 / 1.005`, not 0.995, so that a kernel and its baseline can change places.
Calling two times the same where the interval lies within the margin is an equivalence test: Schuirmann, Journal of
Pharmacokinetics and Biopharmaceutics 15 (1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from gdnbench.stats.interval import Interval

DEFAULT_MARGIN = 0.005
"""Half a percent."""


def log_margin(margin: float) -> float:
    """The margin on the scale of log-ratios, `log(1 + margin)`; ValueError if it is negative or not finite."""
    _check(margin)
    return math.log1p(margin)


def margin_edges(margin: float) -> tuple[float, float]:
    """The least and the greatest ratio called the same; ValueError if the margin is negative or not finite."""
    _check(margin)
    return 1.0 / (1.0 + margin), 1.0 + margin


def _check(margin: float) -> None:
    if not (math.isfinite(margin) and margin >= 0):
        raise ValueError(f"the margin must be zero or a positive ratio, not {margin}")


class Verdict(StrEnum):
    """What a speedup's interval says against a margin."""

    FASTER = "faster"
    """The whole interval lies above 1 + margin."""
    SLOWER = "slower"
    """The whole interval lies below 1 / (1 + margin)."""
    SAME = "same"
    """The whole interval lies between these edges: any difference is smaller than the margin."""
    UNCLEAR = "unclear"
    """The interval contains an edge of the margin: more rounds are needed to tell."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A kernel against its baseline.

    Attributes:
        speedup: baseline time / kernel time, a ratio; above 1 the kernel is faster.
        more_rounds: where UNCLEAR, the further rounds that would decide it; None where no number would. Any other
            verdict has None, or ValueError is raised.
    """

    speedup: Interval
    verdict: Verdict
    more_rounds: int | None = None

    def __post_init__(self) -> None:
        if self.more_rounds is not None and self.verdict is not Verdict.UNCLEAR:
            raise ValueError(f"a comparison that is {self.verdict} needs no more rounds")


def judge(speedup: Interval, margin: float) -> Verdict:
    """The verdict on the interval of a speedup, baseline time / kernel time."""
    below, above = margin_edges(margin)
    if speedup.low > above:
        return Verdict.FASTER
    if speedup.high < below:
        return Verdict.SLOWER
    return Verdict.SAME if below <= speedup.low and speedup.high <= above else Verdict.UNCLEAR
