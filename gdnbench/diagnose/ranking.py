"""Holds every rule against the evidence, and ranks what they find."""

from __future__ import annotations

from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.finding import Finding
from gdnbench.diagnose.rules import RULES
from gdnbench.diagnose.rules.launches import many_launches

LEAST_SHARE = 0.05
"""What explains less of the time is not told: ncu's counters differ by some per cent from launch to launch."""

MOST_FINDINGS = 3
"""A fourth cause is not the next thing to try."""


def rank(evidence: Evidence) -> tuple[Finding, ...]:
    """The causes that explain most of the kernel's time, most first; empty if no rule finds any."""
    alone = many_launches(evidence)
    if alone and alone.share >= LEAST_SHARE:  # the counters are of one of its launches, and explain no other
        return (alone,)
    found = [finding for rule in RULES if (finding := rule(evidence)) and finding.share >= LEAST_SHARE]
    return tuple(sorted(found, key=lambda finding: -finding.share)[:MOST_FINDINGS])
