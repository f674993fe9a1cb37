"""The deviation of a card's times from those of the other cards, over all cases, and the cards that stray."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import MAD_TO_SD

STRAYS_BY = 0.01
STRAYS_BY_ERRORS = 4.0
"""A card strays if its common deviation exceeds both: a share of its times, and so many standard errors."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """The relative deviation of a card's times from those of the mean card, over all cases.

    Attributes:
        share: of its times; above 0 the card is slower. NaN if the times do not determine it.
        error: standard error of `share` over cases.
    """

    share: float
    error: float


UNKNOWN_DEVIATION = Deviation(math.nan, math.nan)


def common_deviations(means_us: FloatArray, *, has_launch: bool) -> list[Deviation]:
    """The common relative deviation of each card.

    With a launch in the times, a card's times differ by `launch + share * time`: the share is the intercept of the
    relative differences over the inverse of the times, known only where the times of cases differ enough. `means_us`
    has the shape (cards, cases): the mean round time of each case on each card, microseconds.
    """
    time_us = means_us.mean(axis=0)
    relative = means_us / time_us - 1.0
    return [_intercept(1.0 / time_us, row) if has_launch else _mean(row) for row in relative]


def _mean(values: FloatArray) -> Deviation:
    if len(values) < 2:
        return UNKNOWN_DEVIATION
    return Deviation(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values)))


def _intercept(x: FloatArray, y: FloatArray) -> Deviation:
    """The intercept of the least-squares line, with its standard error."""
    count = len(x)
    if count < 4 or x.max() < 1.5 * x.min():
        return UNKNOWN_DEVIATION
    about = x - x.mean()
    slope = float(about @ y / (about @ about))
    share = float(y.mean() - slope * x.mean())
    variance = float(np.sum((y - share - slope * x) ** 2)) / (count - 2)
    return Deviation(share, math.sqrt(variance * (1.0 / count + float(x.mean() ** 2 / (about @ about)))))


@dataclass(frozen=True, slots=True)
class Stray:
    """A card that strays.

    Attributes:
        card: its number; of two cards the slower one, for it is unknown which of the two strays.
        share: how much longer its times are than the others', relative; below 0 it is faster.
    """

    card: int
    share: float


def find_strays(deviations: Sequence[Deviation]) -> list[Stray]:
    """The cards whose common deviation is significant and large enough to matter; of two cards at most the slower.

    The others' spread is 1.4826 times their median absolute deviation, which a second stray among them hardly moves.
    """
    known = [(number, each) for number, each in enumerate(deviations) if math.isfinite(each.share)]
    found = []
    for number, each in known:
        others = np.array([other.share for other_number, other in known if other_number != number])
        if not len(others):
            return []
        middle = float(np.median(others))
        spread = MAD_TO_SD * float(np.median(np.abs(others - middle)))
        apart = each.share - middle
        error = math.hypot(each.error, spread * math.sqrt(1.0 + 1.0 / len(others)))
        if abs(apart) > max(STRAYS_BY, STRAYS_BY_ERRORS * error):
            found.append(Stray(number, apart))
    return [each for each in found if each.share > 0] if len(known) == 2 else found
