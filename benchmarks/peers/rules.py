"""How a tool's users decide between two times, and what their decision is worth: pure functions.

A verdict is on kernel B against kernel A: SLOWER says that B is slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from gdnbench.stats.interval import Verdict

COMMON_MARGIN = 0.01
"""What people who compare two numbers by eye take for a real difference."""


class Outcome(StrEnum):
    """What a verdict is worth, given the truth."""

    RIGHT = "right"
    WRONG = "wrong"
    UNDECIDED = "undecided"
    FAILED = "failed"
    """The tool raised or gave no time: there is no verdict."""


@dataclass(frozen=True)
class Judgement:
    """What a tool says of B against A.

    Attributes:
        verdict: what it says.
        margin: the difference, relative, below which the tool calls two kernels the same, as it states it.
    """

    verdict: Verdict
    margin: float = 0.0


def judge_outcome(judgement: Judgement, slowdown: float | None) -> Outcome:
    """What a judgement is worth.

    Args:
        judgement: the tool's.
        slowdown: what was planted in B, relative; None where B is A under another name.

    Raises:
        ValueError: for a slowdown that is negative or no number, which is never planted.
    """
    if slowdown is not None and not slowdown >= 0:
        raise ValueError(f"a slowdown of {slowdown} is not planted")
    verdict = judgement.verdict
    if verdict is Verdict.UNCLEAR:
        return Outcome.UNDECIDED
    if slowdown is None:
        return Outcome.RIGHT if verdict is Verdict.SAME else Outcome.WRONG
    if verdict is Verdict.SAME:
        return Outcome.WRONG if slowdown > judgement.margin else Outcome.UNDECIDED
    return Outcome.RIGHT if verdict is Verdict.SLOWER else Outcome.WRONG


def smaller_wins(a_us: float, b_us: float) -> Judgement:
    """The smaller number wins; only times that are equal to the last digit are the same.

    Raises:
        ValueError: for a time that is none.
    """
    _check(a_us, b_us)
    if a_us == b_us:
        return Judgement(Verdict.SAME)
    return Judgement(Verdict.SLOWER if b_us > a_us else Verdict.FASTER)


def one_percent(a_us: float, b_us: float) -> Judgement:
    """Differences of at least 1 % of A's time are real, smaller ones are none.

    Raises:
        ValueError: for a time that is none.
    """
    _check(a_us, b_us)
    if abs(b_us - a_us) < COMMON_MARGIN * a_us:
        return Judgement(Verdict.SAME, COMMON_MARGIN)
    return Judgement(Verdict.SLOWER if b_us > a_us else Verdict.FASTER, COMMON_MARGIN)


def within_noise(a_us: float, b_us: float, a_noise: float | None, b_noise: float | None) -> Judgement:
    """The rule of `nvbench-compare-legacy` (cuda-bench 0.3.0): a difference within the smaller noise is none.

    Args:
        a_us: mean of A's samples.
        b_us: mean of B's.
        a_noise: relative standard deviation of A's samples; None where NVBench gives none.
        b_noise: of B's.

    Returns:
        Its SAME, FAST, SLOW and "????" as verdicts; the margin is the noise that it prints.

    Raises:
        ValueError: for a time that is none.
    """
    _check(a_us, b_us)
    known = [noise for noise in (a_noise, b_noise) if noise]
    noise = min(known, default=0.0)
    if not noise:
        return Judgement(Verdict.UNCLEAR)
    if abs(b_us - a_us) / a_us <= noise:
        return Judgement(Verdict.SAME, noise)
    return Judgement(Verdict.SLOWER if b_us > a_us else Verdict.FASTER, noise)


STATUSES = {
    "FAST": Verdict.FASTER,
    "SLOW": Verdict.SLOWER,
    "SAME": Verdict.SAME,
    "AMBG": Verdict.UNCLEAR,
    "????": Verdict.UNCLEAR,
}
"""What NVBench's compare scripts print, of the second file against the first."""


def _check(*times_us: float) -> None:
    for time_us in times_us:
        if not (math.isfinite(time_us) and time_us > 0):
            raise ValueError(f"{time_us} µs is no time")
