"""How a count is said."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str = "") -> str:
    """`1 warp`, `8 warps`; `nouns` where it is not the noun with an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {nouns or f'{noun}s'}"
