"""How counts, intervals, lists and near misses are put into words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

_WIDEST = 9.0  # half of an interval that reaches ten times its value, which then is as good as unknown


def plural(count: int, noun: str, nouns: str = "") -> str:
    """`1 warp`, `8 warps`; `nouns` where it is not the noun with an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {nouns or f'{noun}s'}"


def half_interval(half: float, told: Callable[[float], str]) -> str:
    """Half of an interval: `±0.27%`; `±>900%` of one so wide that its digits tell nothing; empty if it has no end.

    Args:
        half: of the interval, relative to its value.
        told: how a share is written.
    """
    return f"±{told(half)}" if half <= _WIDEST else f"±>{_WIDEST:.0%}" if math.isfinite(half) else ""


def first_of(values: Sequence[str], most: int = 12) -> str:
    """The first few of many, `a, b and 7 more`."""
    shown = ", ".join(value or "''" for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")


def spans_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of neighbours among numbers in ascending order: (0, 7), (9, 9)."""
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield run[0], run[-1]


def spans_text(numbers: Iterable[int]) -> str:
    """The same in words: `0-7,9`."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans_of(numbers))


def nearest_names(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The known names that look like one that was typed, the likeliest first.

    Args:
        name: as typed.
        known: the names that there are.
        most: how many to give at most.
        cutoff: how alike they must be, from 0 to 1, as `difflib.SequenceMatcher.ratio` counts.
    """
    from difflib import get_close_matches  # on demand: only a wrong name needs it

    return get_close_matches(name, list(known), n=most, cutoff=cutoff)


def did_you_mean(name: str, known: Iterable[str], otherwise: str, *, most: int = 3, cutoff: float = 0.6) -> str:
    """`did you mean decode-v4 or decode-v4b?`, the hint for a wrong name; `otherwise` where no known name is near.

    Args:
        name: as typed.
        known: the names that there are.
        otherwise: the hint if none of them is near.
        most: how many to name at most.
        cutoff: as `nearest_names` takes it.
    """
    near = nearest_names(name, known, most=most, cutoff=cutoff)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
