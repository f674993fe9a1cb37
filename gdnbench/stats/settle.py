"""How many more rounds would settle a comparison."""

from __future__ import annotations

from bisect import bisect_left

from gdnbench.stats.margin import log_margin
from gdnbench.stats.student import t_half_width

MAX_ROUNDS = 10_000
"""Beyond this many rounds in all, "measure more" is no advice: the difference sits on the margin."""


def more_rounds_to_settle(mean: float, sd: float, n: int, *, margin: float, confidence: float) -> int | None:
    """Rounds to add until the interval would lie wholly outside or wholly inside the margin.

    Takes the mean and the standard deviation seen so far as the ones more rounds would show, so it is an
    estimate with about the uncertainty of the mean itself.

    Args:
        mean: mean paired log-ratio so far.
        sd: its sample standard deviation over rounds.
        n: rounds so far.
        margin: a ratio, 0.005 is half a percent.
        confidence: between 0 and 1, both excluded.

    Returns:
        The fewest further rounds, at least 1; None where not even MAX_ROUNDS would do, and where fewer than
        two rounds leave the spread unknown.

    Raises:
        ValueError: if `margin` or `confidence` is out of range.
    """
    if n < 2:
        return None
    distance = abs(abs(mean) - log_margin(margin))

    def settles(rounds: int) -> bool:
        return t_half_width(sd, rounds, confidence) < distance

    # The half-width only falls as rounds are added, so the first that settles can be bisected for.
    candidates = range(n + 1, MAX_ROUNDS + 1)
    first = bisect_left(candidates, True, key=settles)
    return candidates[first] - n if first < len(candidates) else None
