"""Instructions that take the time."""

from __future__ import annotations

import math

from gdnbench.diagnose import experiment
from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.facts import noted
from gdnbench.diagnose.finding import Finding

SATURATED_PCT = 80.0
"""From here on an SM's pipes are saturated: the same rule, "greater than 80.0%"."""


def compute(evidence: Evidence) -> Finding | None:
    """The SMs' pipes or issue slots are saturated: instructions are the time."""
    percent = evidence.counter("sm_pct")
    if not percent >= SATURATED_PCT:
        return None
    pipes = {key: evidence.counter(key) for key in ("fma_pct", "alu_pct", "xu_pct", "lsu_pct")}
    pipe = max(pipes, key=lambda key: -1.0 if math.isnan(pipes[key]) else pipes[key])
    facts = (
        *noted(evidence, "sm_pct"),
        *noted(evidence, pipe, "the busiest pipe"),
        *noted(evidence, "issue_active_pct"),
        *noted(evidence, "instructions"),
        *noted(evidence, "dram_pct", "the memory waits for the SMs"),
    )
    meaning = (
        "A decode step moves some bytes for each operation, so arithmetic should hide behind its loads. Here it does "
        "not: find what is computed more than once."
    )
    tried = experiment.fewer_instructions(evidence)
    return Finding("compute", "instructions: the SMs are busy", percent / 100, "counters", facts, meaning, tried)
