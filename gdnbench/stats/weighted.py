"""Several workloads as one number a round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdnbench.stats.types import FloatArray


def weighted_geomean(times_us: Sequence[FloatArray], weights: Sequence[float]) -> FloatArray:
    """The weighted geometric mean over workloads, round by round: exp(sum(w_i log t_i) / sum(w_i)).

    The ratio of two of them is the weighted geometric mean of the workloads' ratios, and stays paired by round.

    Args:
        times_us: by workload, shape (rounds,), microseconds, NaN where the round is missing.
        weights: by workload, positive.

    Returns:
        Shape (rounds,), microseconds; NaN where a workload's round is missing.

    Raises:
        ValueError: if there is no workload, a weight for each is lacking or not positive, or numbers of rounds differ.
    """
    if not times_us or len(times_us) != len(weights) or min(weights) <= 0:
        raise ValueError(f"{len(times_us)} workloads need a positive weight each, not {list(weights)}")
    if len({each.shape for each in times_us}) != 1:
        raise ValueError(f"workloads need the same rounds: shapes are {[each.shape for each in times_us]}")
    mean: FloatArray = np.exp(np.average(np.log(np.stack(list(times_us))), axis=0, weights=list(weights)))
    return mean
