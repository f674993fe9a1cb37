"""Rates of right and wrong verdicts on kernels whose differences are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import scipy  # loads scipy.special when it is first used

from gdnbench.calibrate.plan import KERNEL, Chains, chain_of
from gdnbench.measuring.analyse import Analysis
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats.comparison import Verdict
from gdnbench.stats.interval import t_upper_tail
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.variance import Variance, add_variances, half_width_of
from gdnbench.store.calibration import EqualRates, PlantedRates

_LEAST_TAIL = 1e-300  # least p-value, of 37 standard errors


@dataclass(frozen=True)
class Compared:
    """A comparison of a run whose truth is known.

    Attributes:
        chain: number of planted additions; 0 for an equal kernel.
        target: the slowdown that they are for; 0 for an equal kernel.
        ratio: log(baseline / kernel), as the run judged it.
        high: upper end of the printed interval of baseline / kernel.
    """

    workload: Workload
    label: str
    chain: int
    target: float
    ratio: PairedLogRatio
    verdict: Verdict
    high: float


def comparisons_of(run: Analysis, chains: Chains) -> list[Compared]:
    """The comparisons of a run; cases without a time are left out."""
    return [
        Compared(
            workload=row.case.workload,
            label=row.case.label,
            chain=chain_of(row.case),
            target=chains[row.case.workload].get(chain_of(row.case), 0.0),
            ratio=run.ratios[row.case.id],
            verdict=Verdict(row.versus.verdict),
            high=row.versus.high,
        )
        for row in run.measurements
        if row.role is Role.KERNEL and row.case.variant.kernel == KERNEL and row.versus
    ]


def equal_rates(compared: Iterable[Compared], confidence: float) -> list[EqualRates]:
    """Rates for kernels that are equal, by workload."""
    found: dict[Workload, list[Compared]] = {}
    for each in compared:
        if not each.chain:
            found.setdefault(each.workload, []).append(each)
    return [
        EqualRates(
            workload=str(workload),
            names=len({each.label for each in equal}),
            comparisons=len(equal),
            claims=sum(each.verdict in {Verdict.FASTER, Verdict.SLOWER} for each in equal),
            covered=sum(not each.ratio.is_apart(confidence) for each in equal),
            rms_z=math.sqrt(sum(normal_deviate(each.ratio) ** 2 for each in equal) / len(equal)),
        )
        for workload, equal in found.items()
    ]


def planted_rates(compared: Iterable[Compared], confidence: float) -> list[PlantedRates]:
    """Rates for kernels that were slowed down, by workload and slowdown."""
    found: dict[tuple[Workload, int], list[Compared]] = {}
    for each in compared:
        if each.chain:
            found.setdefault((each.workload, each.chain), []).append(each)
    return [
        PlantedRates(
            workload=str(workload),
            target=alike[0].target,
            chain=chain,
            slowdown=math.exp(-_mean(alike)) - 1.0,
            comparisons=len(alike),
            found=sum(each.verdict is Verdict.SLOWER for each in alike),
            apart=sum(each.high < 1.0 for each in alike),
            covered=_covered(alike, confidence),
        )
        for (workload, chain), alike in found.items()
    ]


def normal_deviate(ratio: PairedLogRatio) -> float:
    """The distance of a log-ratio from 0, as the normal deviate with the same probability as its t.

    A t of few degrees of freedom is often large by chance; its normal deviate has a root mean square of 1.
    """
    variance = ratio.variance
    if math.isinf(variance.value):
        return 0.0
    t = abs(ratio.mean) / math.sqrt(variance.value) if variance.value > 0 else math.inf * (ratio.mean != 0)
    tail = 0.5 if math.isnan(t) else t_upper_tail(t, variance.df)
    return math.copysign(-float(scipy.special.ndtri(max(tail, _LEAST_TAIL))), ratio.mean)


def _covered(alike: Sequence[Compared], confidence: float) -> int | None:
    """Number of comparisons that agree with the mean of the others, the best known truth; None for a single one.

    The interval is of the difference, so that it includes the noise of the others' mean.
    """
    if len(alike) < 2:
        return None
    return sum(_agrees(each, [other for other in alike if other is not each], confidence) for each in alike)


def _agrees(one: Compared, others: Sequence[Compared], confidence: float) -> bool:
    count = len(others)
    theirs = [Variance(other.ratio.variance.value / count**2, other.ratio.variance.df) for other in others]
    difference = one.ratio.mean - _mean(others)
    return abs(difference) <= half_width_of(add_variances([one.ratio.variance, *theirs]), confidence)


def _mean(compared: Sequence[Compared]) -> float:
    return sum(each.ratio.mean for each in compared) / len(compared)
