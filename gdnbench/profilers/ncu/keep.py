"""Which of ncu's metrics are worth keeping: `--set full` gives two thousand, and half of them say the same twice."""

from __future__ import annotations

import re

GPU_NAME = "device__attribute_display_name"
_NOISE = re.compile(
    r"device__attribute_(?!display_name$)"  # what the driver says of the GPU
    r"|(\w+\.)?TriageCompute\."  # samples of the GPU as a whole, too coarse for a launch of microseconds
    r"|breakdown:|group:"  # lists of other metrics' names
    r"|derived_tempMetric|profiler__"  # ncu's own book-keeping
    r"|.*\.(min|max|sum)\.(pct_of|peak_sustained|per_cycle)"  # the same ratio as of the average, or constants
    r"|.*\.(min|max)\.per_second"
    r"|.*\.peak_sustained_elapsed"
)


def is_kept(name: str) -> bool:
    """Whether a metric of this name is read and stored."""
    return not _NOISE.match(name)
