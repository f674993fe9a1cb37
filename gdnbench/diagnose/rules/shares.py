"""What several rules share: where latency begins, which warps wait for it, and what a share rests on."""

from __future__ import annotations

from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.finding import Basis

LATENCY_PCT = 60.0
"""Below this share of its peak no unit is saturated: ncu's rule `SOLBottleneck`, "below 60.0% of peak typically
indicate latency issues". Memory is taken as saturated from here on: a copy of the state at batch 256 reaches 83 % of
the DRAM's peak on an H200, at batch 64 two thirds."""

DEPENDENCY_STALLS = (
    "long_scoreboard",
    "short_scoreboard",
    "wait",
    "imc_miss",
    "no_instruction",
    "branch_resolving",
    "dispatch_stall",
)


def basis_of(evidence: Evidence) -> Basis:
    """What the share of a rule rests on that reads the counters, or the code where there are none."""
    return "counters" if evidence.account else "code"


def bounded(evidence: Evidence, share: float) -> float:
    """What follows from the code alone, but no more than there is to gain; counters speak for themselves."""
    gain = evidence.own_times.gain if evidence.own_times else None
    return share if evidence.account or gain is None else min(share, gain)
