"""The causes that `gdnbench explain` knows: one function each, which reads the evidence and returns a finding or None.

A finding's share is the share of the kernel's time that the cause explains, so that findings of all rules can be
ranked. With counters it is a part of the launch's cycles as `CycleBreakdown` divides them. Without, it is a difference
of measured times, or a bound that follows from the code, and the finding's basis says which. Unknown values are NaN,
which fails every comparison.
"""

from __future__ import annotations

from collections.abc import Callable

from gdnbench.diagnose.evidence import Cause, Evidence
from gdnbench.diagnose.rules.latency import (
    barriers,
    idle_sms,
    latency,
    launch_bound,
    limited_occupancy,
    many_launches,
    too_few_warps,
    uneven_sms,
)
from gdnbench.diagnose.rules.throughput import (
    bandwidth,
    bank_conflicts,
    compute,
    lowered_clock,
    narrow_loads,
    spilling,
    uncoalesced,
)

CauseRule = Callable[[Evidence], Cause | None]

LEAST_SHARE = 0.05
"""Smaller shares of the time are not reported: ncu's counters differ by some per cent from launch to launch."""

MOST_FINDINGS = 3
"""A fourth cause is rarely the next thing to try."""

RULES: tuple[CauseRule, ...] = (
    too_few_warps,
    many_launches,
    latency,
    idle_sms,
    uneven_sms,
    limited_occupancy,
    bandwidth,
    compute,
    launch_bound,
    spilling,
    uncoalesced,
    bank_conflicts,
    barriers,
    narrow_loads,
    lowered_clock,
)
"""Every rule; on a tie of shares, the earlier one ranks first."""


def rank(evidence: Evidence) -> tuple[Cause, ...]:
    """Returns the causes that explain most of the kernel's time, the largest first."""
    alone = many_launches(evidence)
    if alone and alone.share >= LEAST_SHARE:  # the counters are of one launch only
        return (alone,)
    found = [finding for rule in RULES if (finding := rule(evidence)) and finding.share >= LEAST_SHARE]
    return tuple(sorted(found, key=lambda finding: -finding.share)[:MOST_FINDINGS])
