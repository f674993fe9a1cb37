"""Several comparisons at once, with one bound on the chance of any false claim of a difference.

Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
It asks nothing of how the comparisons depend on one another, and here they do: all share one baseline.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from gdnbench.stats.comparison import Comparison, assess
from gdnbench.stats.margin import DEFAULT_MARGIN
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.stats.types import FloatArray

K = TypeVar("K", bound=Hashable)


def compare_family(
    pairs: Mapping[K, tuple[FloatArray, FloatArray]],
    *,
    margin: float = DEFAULT_MARGIN,
    confidence: float = 0.95,
) -> dict[K, Comparison]:
    """Compare every kernel of a family with its baseline.

    The chance that any kernel whose true difference is within the margin is called FASTER or SLOWER is at
    most 1 - confidence for the whole family. Each interval is the one at the level that its verdict was
    taken at, so it is wider than that of `compare_rounds` and the verdict can be read off it. A pair with
    fewer than two paired rounds still counts as a member; leave it out to spare the others its cost.

    Args:
        pairs: for each key, (kernel, baseline): two arrays of shape (rounds,), round medians in microseconds,
            NaN where a round is missing.
        margin: differences up to this ratio count as none.
        confidence: of the family as a whole, between 0 and 1, both excluded.

    Returns:
        A comparison for each key, in the order given. For one pair it equals `compare_rounds`.

    Raises:
        ValueError: as `compare_rounds`.
    """
    ratios = [PairedLogRatio.from_rounds(kernel, baseline) for kernel, baseline in pairs.values()]
    levels = holm_levels([ratio.p_value(margin) for ratio in ratios], 1.0 - confidence)
    return {key: assess(ratio, margin, 1.0 - level) for key, ratio, level in zip(pairs, ratios, levels, strict=True)}


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """The level at which Holm's step-down procedure judges each p-value.

    In ascending order the i-th of m is judged at alpha / (m - i + 1) for as long as all before it were
    rejected; the first that is not, and all after it, are judged at the level of that first one.

    Args:
        p_values: in any order.
        alpha: bound on the chance of any false rejection.

    Returns:
        One level for each p-value, in the order given.
    """
    levels = [alpha] * len(p_values)
    standing = len(p_values)
    for index in sorted(range(len(p_values)), key=p_values.__getitem__):
        levels[index] = alpha / standing
        if p_values[index] <= levels[index]:
            standing -= 1
    return levels
