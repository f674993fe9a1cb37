"""The NVTX ranges around profiled launches."""

from __future__ import annotations

import re

from gdnbench.errors import ShapeError
from gdnbench.model import Case, Shape

DOMAIN = "gdnbench"
PROFILED = "profiled"  # the start/end range that a profiler filters by

_NAME = re.compile(r"(\S+) (\S+) B=(\d+) qk(\d+)_v(\d+)(?: K=(\d+) V=(\d+))?")


def name_of(op: str, case: Case) -> str:
    """What a timeline calls a launch: op, kernel and shape."""
    return f"{op} {case.label} {case.shape}"


def parse_name(text: str) -> tuple[str, str, Shape] | None:
    """The inverse of `name_of`: op, kernel's label and shape; None for a range of another name."""
    match = _NAME.fullmatch(text.strip())
    if match is None:
        return None
    op, label, *sizes = match.groups()
    given = zip(("B", "HQ", "HV", "K", "V"), sizes, strict=True)
    try:
        return op, label, Shape(**{axis: int(size) for axis, size in given if size})
    except ShapeError:
        return None
