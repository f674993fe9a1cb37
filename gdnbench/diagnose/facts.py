"""Lines of evidence, and the few numbers that several rules read of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gdnbench.diagnose.account import Account
from gdnbench.diagnose.evidence import Evidence, Measured
from gdnbench.diagnose.finding import Fact, Number
from gdnbench.profilers.ncu.quantities import BY_KEY, STALL_MEANINGS

_UNITS = ("dram_pct", "l2_pct", "l1_pct", "sm_pct")


def fact(counter: str, value: Number, unit: str = "", note: str = "") -> Fact:
    """A line on a counter under the title that `gdnbench ncu` has for it, or on a stall reason under ncu's name."""
    quantity = BY_KEY.get(counter)
    return Fact(counter, quantity.title if quantity else counter.replace("_", ": ", 1), value, unit, note)


def noted(evidence: Evidence, counter: str, note: str = "") -> tuple[Fact, ...]:
    """A line on a counter of the profile; none where the report lacks it."""
    value = evidence.counter(counter)
    return () if math.isnan(value) else (fact(counter, value, BY_KEY[counter].unit, note),)


def counted(counter: str, title: str, value: float, note: str) -> tuple[Fact, ...]:
    """A line on what was made of a counter; none where that was not known."""
    return () if math.isnan(value) else (Fact(counter, title, value, "", note),)


def busiest(evidence: Evidence) -> float:
    """How busy the busiest of DRAM, L2, L1 and the SMs' pipes is, in % of its peak; NaN where one is not known."""
    values = [evidence.counter(key) for key in _UNITS]
    return math.nan if any(map(math.isnan, values)) else max(values)


def least_dram_time(evidence: Evidence) -> str:
    """How long the kernel's DRAM traffic would take at the DRAM's peak, by the same counters; empty if unknown."""
    percent, duration = evidence.counter("dram_pct"), evidence.counter("duration_us")
    if math.isnan(percent + duration):
        return ""
    return f"at its peak the traffic takes {duration * percent / 100:.2g} of {duration:.3g} µs"


def trips(evidence: Evidence) -> tuple[Fact, ...]:
    """A line on trips to memory in a row; none where all loads go out first, as far as is known."""
    if not evidence.order or evidence.trips <= 1:
        return ()
    late, early = len(evidence.order.late_loads), len(evidence.order.early_loads)
    note = f"{late} of {late + early} loads start when others have arrived"
    return (Fact("trips", "trips to memory in a row", evidence.trips, "", note),)


def stalls(account: Account, reasons: Sequence[str]) -> tuple[Fact, ...]:
    """Lines on what waiting warps wait for."""
    shares = {name: 100 * account.reasons.get(name, 0.0) for name in reasons}
    return tuple(fact(f"stall_{name}", share, "%", STALL_MEANINGS[name]) for name, share in shares.items())


def of_peak(measured: Measured) -> str:
    """Which floor copies, and how near that comes to the bandwidth that the GPU's maker gives."""
    return f"{measured.copy}: {measured.copy_peak_share or math.nan:.0%} of the DRAM's peak"
