"""The best of many, and which of the others may yet be it.

Hsu, "Constrained simultaneous confidence intervals for multiple comparisons with the best", Annals of Statistics 12
(1984), asks the same question; here the times of one round depend on one another, so the comparisons are paired and the
level is divided by their number (Bonferroni), which asks nothing of that dependence.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from gdnbench.stats.comparison import Comparison, assess
from gdnbench.stats.margin import DEFAULT_MARGIN
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.types import FloatArray

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Field(Generic[K]):
    """The fastest of several cases, and the others against it.

    Attributes:
        leader: the fastest.
        others: its time over theirs, a speedup of at most about 1, in the order given. SLOWER is out of the race, SAME
            ties with the leader, UNCLEAR may be either.
    """

    leader: K
    others: dict[K, Comparison]


def compare_with_best(
    times_us: Mapping[K, FloatArray],
    *,
    margin: float = DEFAULT_MARGIN,
    confidence: float = 0.95,
    look: int = 1,
) -> Field[K]:
    """Finds the fastest case, among those with the most rounds, and compares every other with it.

    A race looks at its rounds again and again, and drops at each look what is SLOWER. The i-th look takes the share
    1 / (i * (i + 1)) of the chance of an error, and the shares of all looks sum to 1: the chance that the truly fastest
    case is dropped at any look, by any rival, is at most 1 - confidence.

    Args:
        times_us: shape (rounds,) for each case, round times in microseconds, NaN where the case was not measured. One
            that was dropped has fewer rounds than the others and cannot lead.
        margin: differences up to this ratio count as none.
        confidence: of the race as a whole, between 0 and 1, both excluded.
        look: 1 for the first look at these cases, 2 for the second.

    Raises:
        ValueError: if there are no cases, none has a round, `look` is below 1, or as `compare_rounds`.
    """
    if look < 1:
        raise ValueError(f"looks count from 1, not {look}")
    leader = _fastest(times_us)
    rivals = max(1, len(times_us) - 1)
    level = (1.0 - confidence) / (look * (look + 1) * rivals)
    others = {
        key: assess(PairedLogRatio.from_rounds(rounds, times_us[leader]), margin, 1.0 - level)
        for key, rounds in times_us.items()
        if key != leader
    }
    return Field(leader, others)


def _fastest(times_us: Mapping[K, FloatArray]) -> K:
    """By the mean logarithm, which is what the comparisons compare."""
    rounds = {key: np.isfinite(times) for key, times in times_us.items()}
    most = max((int(present.sum()) for present in rounds.values()), default=0)
    if most == 0:
        raise ValueError("no case has a round, so none is the fastest")
    means = {
        key: float(np.mean(np.log(times_us[key][present])))
        for key, present in rounds.items()
        if int(present.sum()) == most
    }
    return min(means, key=means.__getitem__)
