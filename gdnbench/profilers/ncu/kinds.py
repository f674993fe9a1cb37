"""A launch by kind: bytes between levels of memory, use of each pipe, instructions by what they access.

Covers every kind in a report, while the table of `gdnbench ncu` has rows for the common ones.
See "Metrics Reference" in Nsight Compute's Profiling Guide.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from gdnbench.profilers.ncu.profile import LaunchProfile

_TRAFFIC = {
    "L2 to L1": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "L1 to L2": "l1tex__m_l1tex2xbar_write_bytes.sum",
    "DRAM read": "dram__bytes_read.sum",
    "DRAM written": "dram__bytes_write.sum",
}
_PIPE = re.compile(r"sm__inst_executed_pipe_(\w+)\.avg\.pct_of_peak_sustained_active")
_TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
_ACCESS = re.compile(r"smsp__(?:sass_)?inst_executed_op_(\w+)\.sum")
_TOTALS = frozenset({"shared", "global", "local", "generic"})  # sums of other metrics in the report


def traffic_bytes(profile: LaunchProfile) -> dict[str, float]:
    """Returns bytes moved between memory levels, the largest first; those between L1 and L2 are of all SMs."""
    return _largest_first((title, profile.number(name)) for title, name in _TRAFFIC.items())


def pipes_pct(profile: LaunchProfile) -> dict[str, float]:
    """Returns each pipe's issue rate in % of its peak while SMs are active, the largest first.

    A tensor core works on one instruction for many cycles, so that its issue rate says little: `tensor` is the share of
    cycles in which tensor cores are active.
    """
    found = [
        (match[1], profile.number(name)) for name in profile.metrics if (match := _PIPE.fullmatch(name)) is not None
    ]
    issued = [(name, value) for name, value in found if not name.startswith("tensor")]
    return _largest_first([("tensor", profile.number(_TENSOR)), *issued])


def accesses(profile: LaunchProfile) -> dict[str, float]:
    """Returns warp instructions by what they access (`global_ld`), and branches, the largest first."""
    found: dict[str, float | None] = {}
    for name in profile.metrics:
        match = _ACCESS.fullmatch(name)
        if match and match[1] not in _TOTALS:
            found.setdefault(match[1], profile.number(name))
    return _largest_first(found.items())


def _largest_first(found: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Drops values that are missing, NaN or 0."""
    known = [(name, value) for name, value in found if value and not math.isnan(value)]
    return dict(sorted(known, key=lambda pair: -pair[1]))
