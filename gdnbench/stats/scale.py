"""A standard deviation that up to half of the values cannot spoil.

Rousseeuw and Croux, "Alternatives to the median absolute deviation", Journal of the American Statistical Association 88
(1993): Q_n, with the small-sample factors that they give in "Time-efficient algorithms for two highly robust estimators
of scale" (1992).
"""

from __future__ import annotations

import math

import numpy as np

from gdnbench.stats.types import FloatArray

MAD_TO_SD = 1.4826
"""The standard deviation of normal values over their median absolute deviation, 1 / Phi^-1(3/4)."""

EFFICIENCY = 0.82
"""Of Q_n on normal values: it tells as much as the standard deviation of this share of them."""

_CONSISTENT = 2.2219
_SMALL = {2: 0.399, 3: 0.994, 4: 0.512, 5: 0.844, 6: 0.611, 7: 0.857, 8: 0.669, 9: 0.872}


def robust_scale(values: FloatArray) -> float:
    """The standard deviation of the greater part of the values, in their unit.

    It is 2.2219 times the k-th smallest of all distances between two of n values, k = C(n // 2 + 1, 2), times a factor
    that makes it right on average for few normal values.

    Args:
        values: shape (n,), at least two, finite.

    Raises:
        ValueError: if there are fewer than two, or one is not finite.
    """
    count = len(values)
    if count < 2 or not np.isfinite(values).all():
        raise ValueError("a scale needs two values, and all of them finite")
    distances = np.abs(values[:, None] - values[None, :])[np.triu_indices(count, 1)]
    nearest = math.comb(count // 2 + 1, 2) - 1
    factor = _SMALL.get(count) or count / (count + (1.4 if count % 2 else 3.8))
    return _CONSISTENT * factor * float(np.partition(distances, nearest)[nearest])
