"""What a rule finds: a cause, its evidence line by line, and what to try next; and what several rules share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.diagnose.evidence import Basis, Evidence
from gdnbench.diagnose.launch import CycleBreakdown
from gdnbench.diagnose.run_times import RunTimes
from gdnbench.profilers.ncu.quantities import BY_KEY, STALL_MEANINGS

LATENCY_PCT = 60.0
"""Below this share of its peak no unit is saturated: ncu's rule `SOLBottleneck`, "below 60.0% of peak typically
indicate latency issues". Memory is taken as saturated from here on: a copy of the state at batch 256 reaches 83 % of
the DRAM's peak on an H200, at batch 64 two thirds."""

HALF_OCCUPANCY_PCT = 50.0
"""Up to half of an SM's warps, as many again would fit if a block needed less."""

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
    """One line of evidence.

    Attributes:
        counter: where the value stands: a key of `gdnbench ncu` or `gdnbench inspect`, or a counter of ncu's.
        title: what a table calls it.
        value: the value.
        unit: `%`, `µs`; empty for a count.
        note: what it says of this kernel, in a few words.
    """

    counter: str
    title: str
    value: int | float
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """What to try next.

    Attributes:
        command: a line that runs as it stands, word by word.
        why: what it will tell, or what to change before it is run again.
    """

    command: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Finding:
    """A cause of the kernel's time.

    Attributes:
        rule: the rule's name, that of its function.
        title: the cause, in a few words.
        share: the share of the kernel's time that it explains, 0 to 1; findings are ranked by it.
        basis: what the share rests on.
        facts: the evidence.
        meaning: what it means for this kernel.
        experiment: what to try.
    """

    rule: str
    title: str
    share: float
    basis: Basis
    facts: tuple[EvidenceLine, ...]
    meaning: str
    experiment: Experiment


def evidence_line(counter: str, value: int | float, unit: str = "", note: str = "") -> EvidenceLine:
    """A line on a counter under the title that `gdnbench ncu` has for it, or on a stall reason under ncu's name."""
    quantity = BY_KEY.get(counter)
    return EvidenceLine(counter, quantity.title if quantity else counter.replace("_", ": ", 1), value, unit, note)


def counter_line(evidence: Evidence, counter: str, note: str = "") -> tuple[EvidenceLine, ...]:
    """A line on a counter of the profile; none where the report lacks it."""
    value = evidence.counter(counter)
    return () if math.isnan(value) else (evidence_line(counter, value, BY_KEY[counter].unit, note),)


def derived_line(counter: str, title: str, value: float, note: str) -> tuple[EvidenceLine, ...]:
    """A line on what was made of a counter; none where that was not known."""
    return () if math.isnan(value) else (EvidenceLine(counter, title, value, "", note),)


def busiest_unit_pct(evidence: Evidence) -> float:
    """How busy the busiest of DRAM, L2, L1 and the SMs' pipes is, in % of its peak; NaN where one is not known."""
    values = [evidence.counter(key) for key in _UNITS]
    return math.nan if any(map(math.isnan, values)) else max(values)


def dram_time_at_peak(evidence: Evidence) -> str:
    """How long the kernel's DRAM traffic would take at the DRAM's peak, by the same counters; empty if unknown."""
    percent, duration = evidence.counter("dram_pct"), evidence.counter("duration_us")
    if math.isnan(percent + duration):
        return ""
    return f"at its peak the traffic takes {duration * percent / 100:.2g} of {duration:.3g} µs"


def dependent_loads_line(evidence: Evidence) -> tuple[EvidenceLine, ...]:
    """A line on trips to memory in a row; none where all loads go out first, as far as is known."""
    if not evidence.milestones or evidence.dependent_loads <= 1:
        return ()
    late, early = len(evidence.milestones.late_loads), len(evidence.milestones.early_loads)
    note = f"{late} of {late + early} loads start when others have arrived"
    return (EvidenceLine("trips", "trips to memory in a row", evidence.dependent_loads, "", note),)


def stall_lines(cycles: CycleBreakdown, reasons: Sequence[str]) -> tuple[EvidenceLine, ...]:
    """Lines on what waiting warps wait for."""
    shares = {name: 100 * cycles.reasons.get(name, 0.0) for name in reasons}
    return tuple(evidence_line(f"stall_{name}", share, "%", STALL_MEANINGS[name]) for name, share in shares.items())


def share_of_peak(measured: RunTimes) -> str:
    """Which floor copies, and how near that comes to the bandwidth that the GPU's maker gives."""
    return f"{measured.copy}: {measured.copy_peak_share or math.nan:.0%} of the DRAM's peak"


def basis_of(evidence: Evidence) -> Basis:
    """What the share of a rule rests on that reads the counters, or the code where there are none."""
    return "counters" if evidence.cycles else "code"


def bound_by_gain(evidence: Evidence, share: float) -> float:
    """What follows from the code alone, but no more than there is to gain; counters speak for themselves."""
    gain = evidence.bounding_times.gain if evidence.bounding_times else None
    return share if evidence.cycles or gain is None else min(share, gain)


def missing_room(evidence: Evidence) -> float:
    """The share of an SM's warps that blocks in the queue find no room for; 0 where half of them or more fit."""
    launch, percent = evidence.launch, evidence.occupancy_limit_pct
    if launch is None or launch.waves <= 1:
        return 0.0
    return 1 - percent / 100 if percent <= HALF_OCCUPANCY_PCT else 0.0
