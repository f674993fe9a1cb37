"""The result of a rule: a cause, its evidence line by line, and the next experiment; and helpers that rules share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.diagnose.evidence import Basis, Evidence
from gdnbench.diagnose.launch import CycleBreakdown
from gdnbench.diagnose.run_times import RunTimes
from gdnbench.profilers.ncu.quantities import BY_KEY, STALL_MEANINGS

LATENCY_PCT = 60.0
"""Below this share of its peak, in %, no unit is saturated; from here on memory counts as saturated.

Source: ncu's rule `SOLBottleneck`, "below 60.0% of peak typically indicate latency issues". A copy of the state reaches
83 % of the DRAM's peak at batch 256 on an H200, two thirds at batch 64.
"""

HALF_OCCUPANCY_PCT = 50.0
"""At up to half of an SM's warps, as many again would fit if a block needed less."""

DEPENDENCY_STALLS = (
    "long_scoreboard",
    "short_scoreboard",
    "wait",
    "imc_miss",
    "no_instruction",
    "branch_resolving",
    "dispatch_stall",
)

_UNITS = ("dram_pct", "l2_pct", "l1_pct", "sm_pct")


@dataclass(frozen=True)
class EvidenceLine:
    """One line of evidence: a key of `gdnbench ncu` or `gdnbench inspect`, or a counter of ncu, and its value.

    `unit` is `%` or `µs`, empty for a count; `note` says what the value means for this kernel.
    """

    counter: str
    title: str
    value: int | float
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """The next experiment: a runnable command, word by word, and why: what it will show, or what to change first."""

    command: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Cause:
    """A cause of the kernel's time, from the rule of the name `rule`.

    `share`, of the kernel's time that the cause explains, is 0 to 1; findings are ranked by it.
    """

    rule: str
    title: str
    share: float
    basis: Basis
    facts: tuple[EvidenceLine, ...]
    meaning: str
    experiment: Experiment


def evidence_line(counter: str, value: int | float, unit: str = "", note: str = "") -> EvidenceLine:
    """Returns a line on a counter under its title in `gdnbench ncu`, or on a stall reason under ncu's name."""
    quantity = BY_KEY.get(counter)
    return EvidenceLine(counter, quantity.title if quantity else counter.replace("_", ": ", 1), value, unit, note)


def counter_line(evidence: Evidence, counter: str, note: str = "") -> tuple[EvidenceLine, ...]:
    """Returns a line on a counter of the profile; none if the report lacks it."""
    value = evidence.counter(counter)
    return () if math.isnan(value) else (evidence_line(counter, value, BY_KEY[counter].unit, note),)


def derived_line(counter: str, title: str, value: float, note: str) -> tuple[EvidenceLine, ...]:
    """Returns a line on a value derived from a counter; none if the value is NaN."""
    return () if math.isnan(value) else (EvidenceLine(counter, title, value, "", note),)


def busiest_unit_pct(evidence: Evidence) -> float:
    """Returns the use of the busiest of DRAM, L2, L1 and the SMs' pipes, in % of its peak; NaN if one is unknown."""
    values = [evidence.counter(key) for key in _UNITS]
    return math.nan if any(map(math.isnan, values)) else max(values)


def dram_time_at_peak(evidence: Evidence) -> str:
    """Describes the time of the kernel's DRAM traffic at the DRAM's peak, by the same counters; empty if unknown."""
    percent, duration = evidence.counter("dram_pct"), evidence.counter("duration_us")
    if math.isnan(percent + duration):
        return ""
    return f"at its peak the traffic takes {duration * percent / 100:.2g} of {duration:.3g} µs"


def dependent_loads_line(evidence: Evidence) -> tuple[EvidenceLine, ...]:
    """Returns a line on dependent loads; none if no load is known to depend on another."""
    if not evidence.milestones or evidence.dependent_loads <= 1:
        return ()
    late, early = len(evidence.milestones.late_loads), len(evidence.milestones.early_loads)
    note = f"{late} of {late + early} loads start when others have arrived"
    return (EvidenceLine("trips", "trips to memory in a row", evidence.dependent_loads, "", note),)


def stall_lines(cycles: CycleBreakdown, reasons: Sequence[str]) -> tuple[EvidenceLine, ...]:
    """Returns a line on each stall reason's share of the waiting."""
    shares = {name: 100 * cycles.reasons.get(name, 0.0) for name in reasons}
    return tuple(evidence_line(f"stall_{name}", share, "%", STALL_MEANINGS[name]) for name, share in shares.items())


def share_of_peak(measured: RunTimes) -> str:
    """Describes the copy floor's bandwidth as a share of the maker's peak."""
    return f"{measured.copy}: {measured.copy_peak_share or math.nan:.0%} of the DRAM's peak"


def basis_of(evidence: Evidence) -> Basis:
    """Returns the basis of a rule's share: the counters, or the code if there are none."""
    return "counters" if evidence.cycles else "code"


def bound_by_gain(evidence: Evidence, share: float) -> float:
    """Limits a share that follows from the code alone to the possible gain; shares from counters stay."""
    gain = evidence.bounding_times.gain if evidence.bounding_times else None
    return share if evidence.cycles or gain is None else min(share, gain)


def missing_room(evidence: Evidence) -> float:
    """Returns the share of an SM's warps for which queued blocks find no room; 0 if half of the warps or more fit."""
    launch, percent = evidence.launch, evidence.occupancy_limit_pct
    if launch is None or launch.waves <= 1:
        return 0.0
    return 1 - percent / 100 if percent <= HALF_OCCUPANCY_PCT else 0.0
