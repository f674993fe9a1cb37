"""ncu's units: a page that people read has prefixes, a program wants none."""

from __future__ import annotations

import re

_SECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PREFIXED = re.compile(r"([KMGT])(byte|hz)(/.+)?")


def to_base(value: float, unit: str) -> tuple[float, str]:
    """A value in ncu's base unit, as `--print-units base` gives it: nanoseconds, bytes and hertz, without prefixes.

    ncu counts a Kbyte as 1000 bytes: the reports say so, whose base values are 1000 times those of the page.
    """
    if unit in _SECONDS:
        return value * _SECONDS[unit], "ns"
    above, slash, below = unit.partition("/")
    if slash and below in _SECONDS:
        base, base_unit = to_base(value, above)
        return base * (1e9 / _SECONDS[below]), f"{base_unit}/s"
    if match := _PREFIXED.fullmatch(unit):
        return value * _PREFIXES[match.group(1)], f"{match.group(2)}{match.group(3) or ''}"
    return value, unit
