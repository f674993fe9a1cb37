"""The NVTX ranges around profiled launches."""

from __future__ import annotations

import re
from typing import NamedTuple

from gdnbench.errors import ShapeError
from gdnbench.model import Case, Shape

DOMAIN = "gdnbench"
PROFILED = "profiled"  # the start/end range that a profiler filters by

_NAME = re.compile(
    r"(\S+) (\S+) B=(\d{1,9}) qk(\d{1,9})_v(\d{1,9})(?: K=(\d{1,9}) V=(\d{1,9}))?(?: source=([0-9a-f]{16}))?"
)


class Launched(NamedTuple):
    """What a range says of the launch in it; nothing, of a launch that gdnbench did not make.

    Attributes:
        op: the op.
        label: the kernel's label.
        shape: the workload.
        source: hash of the kernel's sources; empty in reports of before there was one.
    """

    op: str = ""
    label: str = ""
    shape: Shape | None = None
    source: str = ""


def name_of(op: str, case: Case, source: str = "") -> str:
    """What a timeline calls a launch: op, kernel, shape, and the hash of the kernel's sources if it is known."""
    return f"{op} {case.label} {case.shape}" + (f" source={source}" if source else "")


def parse_name(text: str) -> Launched | None:
    """The inverse of `name_of`; None for a range of another name."""
    match = _NAME.fullmatch(text.strip())
    if match is None:
        return None
    op, label, *sizes, source = match.groups()
    given = zip(("B", "HQ", "HV", "K", "V"), sizes, strict=True)
    try:
        return Launched(op, label, Shape(**{axis: int(size) for axis, size in given if size}), source or "")
    except ShapeError:
        return None
