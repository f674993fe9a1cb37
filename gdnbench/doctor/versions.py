"""Versions as numbers."""

from __future__ import annotations

import re


def as_numbers(version: str) -> tuple[int, int]:
    """The major and minor number, to compare: `13.0.88` gives (13, 0); (0, 0) where there are none."""
    found = re.match(r"(\d+)(?:\.(\d+))?", version)
    return (int(found.group(1)), int(found.group(2) or 0)) if found else (0, 0)
