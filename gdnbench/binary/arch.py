"""Names of compilation targets."""

from __future__ import annotations

import re

from gdnbench.errors import UsageError

_NAME = re.compile(r"sm_(\d{2,3})[af]?")


def capability(arch: str) -> int:
    """The compute capability of a target, without a dot: 90 for `sm_90` and for `sm_90a`.

    Raises:
        UsageError: if the name is not of that form.
    """
    match = _NAME.fullmatch(arch)
    if match is None:
        raise UsageError(f"{arch} is not an architecture", "write it as in sm_90 or sm_100")
    return int(match[1])
