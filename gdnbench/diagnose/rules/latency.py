"""Warps that wait: for results, or for one another."""

from __future__ import annotations

import math

from gdnbench.diagnose import experiment
from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.finding import (
    DEPENDENCY_STALLS,
    LATENCY_PCT,
    Cause,
    EvidenceLine,
    bound_by_gain,
    busiest_unit_pct,
    counter_line,
    dependent_loads_line,
    dram_time_at_peak,
    evidence_line,
    missing_room,
    share_of_peak,
    stall_lines,
)
from gdnbench.profilers.ncu.quantities import STALL_MEANINGS

_ONE_TRIP = "Load everything first, and wait for as little as possible in a row."
_MANY_TRIPS = (
    "Loads that start when others have arrived pay for the way to memory again: start all before the first use."
)


def latency(evidence: Evidence) -> Cause | None:
    """Finds warps that wait for results while nothing is saturated.

    Without counters, the share is the time beyond a copy's; without times either, it is that of loads behind a wait.
    """
    cycles, launch = evidence.cycles, evidence.launch
    if cycles is None or launch is None:
        return _latency_by_times(evidence)
    if not busiest_unit_pct(evidence) < LATENCY_PCT:
        return None
    reasons = [reason for reason in cycles.reasons if reason in DEPENDENCY_STALLS]
    facts = (
        *stall_lines(cycles, reasons[:3]),
        *counter_line(evidence, "active_warps", "to choose from"),
        *counter_line(evidence, "eligible_warps", "ready to issue, on average"),
        *counter_line(evidence, "dram_pct", dram_time_at_peak(evidence)),
        *dependent_loads_line(evidence),
    )
    once = launch.waves <= 1
    advice = _MANY_TRIPS if evidence.dependent_loads > 1 else _ONE_TRIP
    meaning = (
        f"The grid runs at once ({launch.waves:.2g} waves), so the time is one warp's path from its first load to its "
        f"last store. {advice}"
        if once
        else f"Blocks follow one another in {launch.waves:.3g} waves, and the warps that an SM has do not cover each "
        "other's waiting. More warps, or more independent loads in each, would."
    )
    # Excludes what other rules report: too few warps, and blocks that find no room.
    share = cycles.waiting_for(DEPENDENCY_STALLS) * (1 - missing_room(evidence))
    share *= launch.used_sms / launch.sms if launch.missing_warps else 1
    title = f"latency: {STALL_MEANINGS[reasons[0]]}" if reasons else "latency"
    return Cause("latency", title, share, "counters", facts, meaning, experiment.shorter_path(evidence))


def _latency_by_times(evidence: Evidence) -> Cause | None:
    measured, launch = evidence.times, evidence.launch
    if launch and launch.missing_warps:
        return None
    if measured is None or measured.copy_us is None:
        return _latency_by_code(evidence)
    if measured.flops_us is not None:  # what the kernel takes beyond a copy is arithmetic first
        return None
    if not measured.gain or not 100 * (measured.copy_peak_share or math.nan) < LATENCY_PCT:
        return None
    facts = (
        EvidenceLine("time_us", "time", measured.time_us, "µs", evidence.label),
        EvidenceLine("time_us", "time of the floor", measured.copy_us, "µs", share_of_peak(measured)),
        *dependent_loads_line(evidence),
    )
    meaning = (
        "At this workload not even a copy of as many bytes is held up by bandwidth, so what the kernel takes beyond it "
        f"is waiting for results. {_MANY_TRIPS if evidence.dependent_loads > 1 else 'Counters tell for which.'}"
    )
    title = "latency, beyond that of a copy"
    return Cause("latency", title, measured.gain, "times", facts, meaning, experiment.shorter_path(evidence))


def _latency_by_code(evidence: Evidence) -> Cause | None:
    launch = evidence.launch
    # If registers spill, the compiler had none left to issue loads together.
    if launch is None or launch.waves > 1 or evidence.dependent_loads <= 1 or evidence.local_share:
        return None
    facts = (*dependent_loads_line(evidence), evidence_line("waves", launch.waves, "", str(launch)))
    meaning = (
        f"The grid runs at once, so the time is one warp's path from its first load to its last store. {_MANY_TRIPS}"
    )
    share = bound_by_gain(evidence, evidence.own_share * (1 - 1 / evidence.dependent_loads))  # all trips but the first
    title = "latency: one trip to memory after the other"
    return Cause("latency", title, share, "code", facts, meaning, experiment.shorter_path(evidence))


def barriers(evidence: Evidence) -> Cause | None:
    """Finds warps that wait at barriers for the others of their block."""
    cycles = evidence.cycles
    if cycles is None or "barrier" not in cycles.reasons:
        return None
    facts = (
        *stall_lines(cycles, ("barrier",)),
        *counter_line(evidence, "block_threads", "wait for one another"),
        *counter_line(evidence, "issue_active_pct"),
        *counter_line(evidence, "instructions"),
    )
    meaning = (
        "A barrier holds up the block until its last warp is there. Where barriers are for sums, sum within a warp by "
        "shuffles, and join the warps by one barrier; smaller blocks wait for fewer."
    )
    tried = experiment.by_hand(evidence, "shuffles", "sum by shuffles within a warp, without barriers")
    share = cycles.waiting_for(("barrier",))
    return Cause("barriers", "barriers", share, "counters", facts, meaning, tried)
