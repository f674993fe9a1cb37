"""JSON has no NaN and no infinity; what stands for them."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> Any:
    """The value with None for every number in it that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
