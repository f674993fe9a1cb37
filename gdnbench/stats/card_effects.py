"""The random effect of the card on the times of several runs, and the cards whose times lie apart from the others'.

A round time is modelled as in `gdnbench.stats.processes`, with a card above the process:

    t = launch(process) + kernel(case) * (1 + common(card) + effect(case, card) + effect(case, process) + noise(round))

The card is a random effect: the intervals hold for cards of the GPU model, not only for those measured. The launch is
subtracted process by process. `common`, such as the card's clock, cancels in a ratio and stays in a time; it is
estimated as a launch is, from times over their case's mean. The remaining variance between cards is estimated from all
cases of a workload, as one factor on the variance over rounds, and is at least the factor between the processes of one
card, which is estimated on each card by itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.estimators import MAD_TO_SD
from gdnbench.stats.interval import NO_VARIANCE, Variance
from gdnbench.stats.processes import Between, ProcessEffects, estimate_effects, mean_launch_variance, process_means

K = TypeVar("K", bound=Hashable)

HOSTS_DIFFER = 3.0
"""Cards whose mean launches differ by more than so many usual standard deviations count as cards of different hosts."""


@dataclass(frozen=True)
class CardEffects(Generic[K]):
    """The effects of cards, and of processes on them, on the cases of a workload; implements `Effects`."""

    process: IntArray  # shape (rounds,), the card of each round, numbered from 0: the cluster that intervals are over
    launches: ProcessEffects[K]
    shares: ProcessEffects[K]  # the effects of cards on times over their case's mean; its "launch" is `common(card)`
    within: Between  # the inflation between the processes of a card
    cards_launch_us: FloatArray  # shape (cards,), the mean launch of each card's processes, less that of all

    @property
    def count(self) -> int:
        """The number of cards."""
        return self.shares.count

    @property
    def outliers(self) -> frozenset[K]:
        """Cases whose cards differ more than the others' do: each is judged by its own cards alone."""
        return self.shares.outliers

    @property
    def launches_apart_us(self) -> float:
        """The range of the cards' mean launches, microseconds; 0 where one host explains it."""
        apart = float(np.ptp(self.cards_launch_us))
        return apart if apart > HOSTS_DIFFER * self.launches.usual_sd_us else 0.0

    def without_launch(self, times_us: FloatArray) -> FloatArray:
        """Round times as if every process had added the mean of all launches; shape (rounds,), microseconds."""
        return self.launches.without_launch(times_us)

    def of_time(self, key: K, times_us: FloatArray) -> Between:
        """The variance between cards of the mean logarithm of a case's round times; see `ProcessEffects.of_time`."""
        mean_us = float(np.nanmean(times_us))
        between = self._between(self.shares.of_time(key, times_us / mean_us), (key,))
        return between.add(self._launch_variance(1.0 / mean_us))

    def of_ratio(self, keys: tuple[K, K], times_us: tuple[FloatArray, FloatArray]) -> Between:
        """The variance between cards of the mean log-ratio of two cases; see `ProcessEffects.of_ratio`.

        Where the cards' hosts differ in their launches, the ratio is the one at the mean of these launches.
        """
        first, second = (float(np.nanmean(times)) for times in times_us)
        shares = (times_us[0] / first, times_us[1] / second)
        between = self._between(self.shares.of_ratio(keys, shares), keys)
        if self.launches_apart_us:
            return between
        return between.add(self._launch_variance(1.0 / first - 1.0 / second))

    def _between(self, shares: Between, keys: Collection[K]) -> Between:
        """Weighs each card by its rounds, and takes at least the inflation between the processes of a card."""
        uneven, variance = self._uneven, shares.variance
        variance = Variance(variance.value * uneven, variance.df)
        if self.outliers.intersection(keys):
            return Between(variance=variance)
        counts = np.bincount(self.process)
        inflation = 1.0 + (shares.inflation - 1.0) * uneven * float(counts.mean() * np.mean(1.0 / counts))
        if inflation >= self.within.inflation:
            return Between(inflation, shares.df, variance)
        return Between(self.within.inflation, self.within.df, variance)

    @property
    def _uneven(self) -> float:
        """The number of cards times the sum of their squared weights: 1 where all cards have as many rounds."""
        weights = np.bincount(self.process) / len(self.process)
        return float(self.count * np.sum(weights**2))

    def _launch_variance(self, per_us: float) -> Variance:
        """The relative variance of a mean over cards that is due to launches; 1 µs of launch is worth `per_us`."""
        usual_sd_us = self.launches.usual_sd_us
        if not usual_sd_us:
            return NO_VARIANCE
        usual_variance = usual_sd_us**2 * self.count / self.launches.count  # of the mean of a card's processes
        of_mean = mean_launch_variance(self.cards_launch_us, usual_variance)
        return Variance(per_us**2 * of_mean.value * self._uneven, of_mean.df)


def estimate_card_effects(
    times_us: Mapping[K, FloatArray],
    process: IntArray,
    card: IntArray,
    *,
    left_out: Collection[K] = (),
    twins: Collection[K] = (),
    has_launch: bool = True,
    usual_sd_us: float = 0.0,
) -> CardEffects[K]:
    """Estimates the effects of cards and processes from all cases of a workload; arguments as of `estimate_effects`.

    `card` is the card of each round, shape (rounds,), at least two; two cards share no number in `process`. `twins` are
    cases that run the code of another case: a card has the same effect on both, so they count once.
    """
    numbers, index = np.unique(card, return_inverse=True)
    launches = estimate_effects(times_us, process, left_out=left_out, has_launch=has_launch, usual_sd_us=usual_sd_us)
    own = [
        estimate_effects(
            {key: times[index == each] for key, times in times_us.items()},
            process[index == each],
            left_out=left_out,
            has_launch=has_launch,
            usual_sd_us=usual_sd_us,
        )
        for each in range(len(numbers))
    ]
    alone = {key: launches.without_launch(times) for key, times in times_us.items()}
    shares = estimate_effects(
        {key: times / np.nanmean(times) for key, times in alone.items()}, index, left_out={*left_out, *twins}
    )
    cards_launch_us = process_means(launches.launch_us[launches.process], index, len(numbers))
    return CardEffects(index, launches, shares, _pooled(own), cards_launch_us - cards_launch_us.mean())


def within_cards(effects: CardEffects[K]) -> ProcessEffects[K]:
    """The effects between processes alone, for two measurements of one code: a card has the same effect on both."""
    launches, within = effects.launches, effects.within
    return ProcessEffects(
        launches.process, launches.launch_us, within.inflation, within.df, frozenset(), launches.usual_sd_us
    )


def _pooled(own: Sequence[ProcessEffects[K]]) -> Between:
    """The mean inflation over the cards; its degrees of freedom are infinite where each card's inflation is 1."""
    df = sum(each.df for each in own if math.isfinite(each.df))
    return Between(float(np.mean([each.inflation for each in own])), df or math.inf)


STRAYS_BY = 0.01
STRAYS_BY_ERRORS = 4.0
"""A card strays if its common deviation exceeds both: a share of its times, and so many standard errors."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """The relative deviation of a card's times from the mean card's, with its standard error over cases.

    Above 0 the card is slower; NaN if the times do not determine it.
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
    """A card that strays, by its number: its times are longer than the others' by a share, shorter below 0.

    Of two cards it is the slower one, for it is unknown which of the two strays.
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
