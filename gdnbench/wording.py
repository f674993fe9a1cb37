"""Formats counts, intervals, lists and near misses as text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

_WIDEST = 9.0  # relative half width of an interval that reaches ten times its value, and so tells nothing


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Returns `1 warp` or `8 warps`; `nouns` is the plural if it is not the noun with an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {nouns or f'{noun}s'}"


def half_interval(half: float, text_of: Callable[[float], str]) -> str:
    """Formats a relative half width by `text_of`: `±0.27%`, `±>900%` above the widest, empty if infinite."""
    return f"±{text_of(half)}" if half <= _WIDEST else f"±>{_WIDEST:.0%}" if math.isfinite(half) else ""


def first_of(values: Sequence[str], most: int = 12) -> str:
    """Lists the first `most` values: `a, b and 7 more`."""
    shown = ", ".join(value or "''" for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Returns the key of a name in natural order, in which v9 comes before v10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)], name


def first_line(text: str) -> str:
    """Returns the first line of a text, such as a compiler's message, without blank lines before it."""
    return text.strip().partition("\n")[0].rstrip("\r")


def spans_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields first and last of each run of consecutive numbers among ascending ones: (0, 7), (9, 9)."""
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield run[0], run[-1]


def spans_text(numbers: Iterable[int]) -> str:
    """Formats the runs of `spans_of`: `0-7,9`."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans_of(numbers))


def nearest_names(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Returns the known names most like a typed one, best first; `cutoff` is the least `SequenceMatcher.ratio`, 0-1."""
    from difflib import get_close_matches  # imported here: only a wrong name needs it

    return get_close_matches(name, list(known), n=most, cutoff=cutoff)


def did_you_mean(name: str, known: Iterable[str], otherwise: str, *, most: int = 3, cutoff: float = 0.6) -> str:
    """Returns the hint for a wrong name, `did you mean decode-v4 or decode-v4b?`, or `otherwise` if none is near."""
    near = nearest_names(name, known, most=most, cutoff=cutoff)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
