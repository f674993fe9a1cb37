"""A case's place in a field, as a sweep stores it."""

from __future__ import annotations

from gdnbench.model import Case, Place, Point
from gdnbench.stats import Comparison, Verdict

_PLACES = {Verdict.SAME: Place.TIED, Verdict.SLOWER: Place.SLOWER}


def place_of(comparison: Comparison) -> Place:
    """Where a comparison with the best puts a case."""
    return _PLACES.get(comparison.verdict, Place.UNCLEAR)


def make_point(case: Case, place: Place, comparison: Comparison | None, rounds: int) -> Point:
    """A case as a point.

    Args:
        case: what was measured.
        place: where it came in.
        comparison: with the best; None for the best itself.
        rounds: in how many rounds it was measured.
    """
    speedup = comparison.speedup if comparison else None
    return Point(
        kernel=case.variant.kernel,
        label=case.label,
        params=case.variant.params,
        shape=case.shape,
        place=place,
        slower_by=1.0 / speedup.estimate - 1.0 if speedup else 0.0,
        slower_lo=1.0 / speedup.high - 1.0 if speedup else 0.0,
        slower_hi=(1.0 / speedup.low - 1.0 if speedup.low > 0 else float("inf")) if speedup else 0.0,
        rounds=rounds,
    )
