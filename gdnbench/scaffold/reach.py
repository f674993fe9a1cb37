"""Finds where a kernel's files reach outside their folder: elsewhere, what they reach for may be missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_REACH = re.compile(rb'\b__file__\b|#\s*include\s*"\.\./')


def reaches(files: Mapping[Path, bytes]) -> list[str]:
    """The places, `kernel.py:27`."""
    return [
        f"{name}:{number}"
        for name, data in files.items()
        for number, line in enumerate(data.split(b"\n"), start=1)
        if _REACH.search(line)
    ]
