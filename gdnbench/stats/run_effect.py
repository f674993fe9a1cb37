"""The random effect of a run: the change that all cases share from one run to another, and the stray of a single case.

A change of an unchanged case, from one run to another, is modelled as `whole + workload + stray + error of the rounds`.
`whole` is common to all cases (in stream times, the launch of a process on its host, in microseconds), `workload` to
all cases of one workload (clocks, cold translations), `stray` belongs to the case (its placements). The three are
random effects with mean 0. A kernel that may have changed is judged by its change less `whole + workload`, estimated
from its unchanged peers, with `stray` and the uncertainty of both in its interval.

- Spreads are unknown and peers are few, so each spread is an expected one, which the caller gives for each case, times
  a dispersion estimated from the peers and shrunk towards 1: the moderated variance of Smyth, SAGMB 3 (2004), `(d0 *
  prior + d * own) / (d0 + d)` with `d0 + d` degrees of freedom. A workload's own dispersion is shrunk towards that of
  all workloads.
- Peers are weighted by the inverse of their variance. The variance of a weighted mean carries the estimated dispersion,
  with Student's t (Hartung and Knapp, Statistics in Medicine 20, 2001).
- Means and dispersions are Huber's, with "Proposal 2" for the scale (Annals of Mathematical Statistics 35, 1964). A
  peer that did change is clipped to 1.5 standard deviations, and one further than 6 from the others is left out.
- The effect at a workload is the best linear unbiased prediction (Henderson, Biometrics 31, 1975): the mean of the
  workload's own peers, shrunk towards `whole` by its uncertainty.
- A further case takes the variance of a prediction, the spread and that of the mean (Higgins, Thompson and
  Spiegelhalter, JRSS A 172, 2009).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gdnbench.stats import FloatArray
from gdnbench.stats.interval import Variance

PRIOR_DF = 4.0  # the weight of the expected spreads in each of the three dispersions, in peers

_BOUND = 1.5  # Huber's, in standard deviations: 96 % efficient on normal values
_GROSS = 6.0  # standard deviations
_SCALE = 0.7785  # the mean of min(x^2, 1.5^2) of a normal x
_STEPS = 100
_SETTLED = 1e-5
_HALF = np.array([0.5 - 1e-9, 0.5 + 1e-9])  # of the weight, but for rounding


@dataclass(frozen=True, slots=True)
class Spread:
    """The expected standard deviations of a change, in its unit: of the case alone, and of its workload."""

    stray: float
    workload: float


@dataclass(frozen=True, slots=True)
class Peer:
    """A case that both runs measured and nobody changed.

    `change` is later run - earlier run, in any unit, `variance` the squared error of it from the rounds of both runs.
    """

    workload: Hashable
    change: float
    variance: float
    spread: Spread


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted change of an unchanged case, and its variance: the case's own, its workload's and its run's."""

    mean: float
    own: Variance
    of_workload: Variance
    of_run: Variance


@dataclass(frozen=True, slots=True)
class _Estimate:
    mean: float
    variance: float
    dispersion: float
    df: float


@dataclass(frozen=True, slots=True)
class RunEffect:
    """The estimated effect of one run against another, from so many `peers`.

    `whole` is the change of all cases with the dispersion of workloads about it, `strays` the dispersion of cases about
    their workloads, `workloads` the mean and the dispersion of cases at each workload.
    """

    peers: int
    whole: _Estimate
    strays: _Estimate
    workloads: Mapping[Hashable, _Estimate]

    def predict(self, workload: Hashable, spread: Spread) -> Prediction:
        """Predicts the change of an unchanged case; at a workload without peers the variance is larger."""
        between = self.whole.dispersion * spread.workload**2
        here = self.workloads.get(workload)
        if here is None:
            return Prediction(
                self.whole.mean,
                Variance(self.strays.dispersion * spread.stray**2, self.strays.df),
                Variance(between, self.whole.df),
                Variance(self.whole.variance, self.whole.df),
            )
        trust = between / (between + here.variance) if between > 0 else 0.0
        return Prediction(
            self.whole.mean + trust * (here.mean - self.whole.mean),
            Variance(here.dispersion * spread.stray**2, here.df),
            Variance(trust * here.variance, here.df),
            Variance((1.0 - trust) ** 2 * self.whole.variance, self.whole.df),
        )


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes of one group: values, known variances, and the variances that the dispersion multiplies."""

    values: FloatArray
    known: FloatArray
    expected: FloatArray


def estimate_run_effect(peers: Sequence[Peer], whole_sd: float) -> RunEffect:
    """Estimates the random effect of one run against another from the unchanged cases.

    Without peers the estimate is 0 with the expected spreads. `whole_sd` is the expected standard deviation of what all
    cases share, in the unit of the changes.
    """
    effect = _fit(peers, whole_sd)
    alike = [peer for peer in peers if _distance(peer, effect) <= _GROSS]
    return effect if len(alike) == len(peers) else _fit(alike, whole_sd)


def _distance(peer: Peer, effect: RunEffect) -> float:
    """The distance of a peer from the others of its workload, in standard deviations."""
    here = effect.workloads[peer.workload]
    variance = peer.variance + here.dispersion * peer.spread.stray**2
    return abs(peer.change - here.mean) / math.sqrt(variance) if variance > 0 else 0.0


def _fit(peers: Sequence[Peer], whole_sd: float) -> RunEffect:
    groups: dict[Hashable, list[Peer]] = {}
    for peer in peers:
        groups.setdefault(peer.workload, []).append(peer)
    changes = {
        workload: _Changes(
            np.array([peer.change for peer in members]),
            np.array([peer.variance for peer in members]),
            np.array([peer.spread.stray**2 for peer in members]),
        )
        for workload, members in groups.items()
    }
    overall, df = _dispersion(list(changes.values()), 1.0)
    workloads = {workload: _estimate(each, overall, math.inf) for workload, each in changes.items()}
    means = _Changes(
        np.array([each.mean for each in workloads.values()]),
        np.array([each.variance for each in workloads.values()]),
        np.array([np.median([peer.spread.workload for peer in members]) ** 2 for members in groups.values()]),
    )
    return RunEffect(
        len(peers), _estimate(means, 1.0, whole_sd**2), _Estimate(math.nan, math.nan, overall, df), workloads
    )


def _estimate(changes: _Changes, prior: float, prior_variance: float) -> _Estimate:
    """Mean and dispersion of a group; its dispersion is shrunk to `prior`, its mean towards 0 by `prior_variance`."""
    if not len(changes.values):
        return _Estimate(0.0, prior_variance, prior, PRIOR_DF)
    dispersion, df = _dispersion([changes], prior, prior_variance)
    mean, variance = _mean(changes, dispersion, prior_variance)
    return _Estimate(mean, variance, dispersion, df)


def _dispersion(groups: Sequence[_Changes], prior: float, prior_variance: float = math.inf) -> tuple[float, float]:
    """The common dispersion of groups, each about its own mean, and its degrees of freedom.

    Where the rounds' error is part of a deviation, the stray's share of it is the expectation given the deviation, as
    in the EM algorithm for a variance component.
    """
    freedom = sum(len(each.values) - 1 for each in groups)
    dispersion = prior
    for _ in range(_STEPS):
        squares = sum(_squares(each, dispersion, prior_variance) for each in groups)
        last, dispersion = dispersion, (PRIOR_DF * prior + squares) / (PRIOR_DF + freedom)
        if abs(dispersion - last) <= _SETTLED * last:
            break
    return dispersion, PRIOR_DF + freedom


def _squares(changes: _Changes, dispersion: float, prior_variance: float) -> float:
    """The sum of squared strays of a group, each in units of its expected variance, bounded as Huber does."""
    mean, _ = _mean(changes, dispersion, prior_variance)
    count, spread = len(changes.values), dispersion * changes.expected
    total = changes.known + spread
    known = total > 0
    share = np.divide(spread, total, out=np.ones(count), where=known)
    deviation = np.divide(changes.values - mean, np.sqrt(total), out=np.zeros(count), where=known)
    bounded = np.minimum(np.abs(deviation), _BOUND) ** 2 / _SCALE
    return float(dispersion * (share * bounded + (1.0 - share) * (count - 1) / count).sum())


def _mean(changes: _Changes, dispersion: float, prior_variance: float) -> tuple[float, float]:
    values, total = changes.values, np.maximum(changes.known + dispersion * changes.expected, 1e-30)
    deviation = np.sqrt(total)
    mean = _weighted_median(values, 1.0 / deviation)
    for _ in range(_STEPS):
        distance = np.abs(values - mean) / deviation
        weights = _BOUND / np.maximum(distance, _BOUND) / total
        precision = float(weights.sum()) + 1.0 / prior_variance
        last, mean = mean, float((weights * values).sum()) / precision
        if abs(mean - last) <= _SETTLED / math.sqrt(precision):
            break
    return mean, 1.0 / precision


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Half of the weight lies at or below it and half at or above; between two such values, their midpoint."""
    order = values.argsort()
    below = weights[order].cumsum() / weights.sum()
    low, high = below.searchsorted(_HALF)
    return float((values[order[low]] + values[order[min(high, len(values) - 1)]]) / 2.0)
