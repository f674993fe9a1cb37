"""Warps that wait, for results or for one another; and the launch: its own cost, and how its grid covers the GPU."""

from __future__ import annotations

import math

from gdnbench.diagnose import experiment
from gdnbench.diagnose.evidence import (
    DEPENDENCY_STALLS,
    LATENCY_PCT,
    Basis,
    Cause,
    Evidence,
    EvidenceLine,
    basis_of,
    bound_by_gain,
    busiest_unit_pct,
    counter_line,
    dependent_loads_line,
    dram_time_at_peak,
    evidence_line,
    floor_lines,
    missing_room,
    stall_lines,
)
from gdnbench.profile.ncu.quantities import STALL_MEANINGS
from gdnbench.wording import plural

_ONE_TRIP = "Load everything first, and wait for as little as possible in a row."
_MANY_TRIPS = (
    "Loads that start when others have arrived pay for the way to memory again: start all before the first use."
)


def latency(evidence: Evidence) -> Cause | None:
    """Finds warps that wait for results while nothing is saturated: by counters, else by times, else by the code."""
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
    facts = (*floor_lines(evidence, measured), *dependent_loads_line(evidence))
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


LAUNCH_RATIO = 1.15
"""A kernel within 15 % of an empty one's time spends more on its launch than on work."""

LAUNCH_CYCLES = 0.75
"""The same in ncu's cycles: an empty kernel works in a seventh of them, as its blocks start and end."""


def many_launches(evidence: Evidence) -> Cause | None:
    """Finds calls of several launches; the time beyond a copy of their bytes is between the launches, and theirs."""
    measured = evidence.times
    if measured is None or measured.launches <= 1 or not measured.gain or measured.copy_us is None:
        return None
    facts = (
        EvidenceLine("launches", "launches of one call", measured.launches),
        EvidenceLine("time_us", "time", measured.time_us, "µs", evidence.label),
        EvidenceLine("time_us", "time of the floor", measured.copy_us, "µs", f"{measured.copy}: one launch"),
    )
    meaning = (
        f"{measured.launches} launches write what the next ones read again, and each begins, or goes on if it begins "
        "early, when the one before has ended. What one launch can do takes neither."
    )
    title, tried = f"{measured.launches} launches instead of one", experiment.fewer_instructions(evidence)
    return Cause("many_launches", title, measured.gain, "times", facts, meaning, tried)


def launch_bound(evidence: Evidence) -> Cause | None:
    """Finds kernels that take hardly longer than an empty one."""
    cycles, measured = evidence.cycles, evidence.times
    by_time = measured.launch_share if measured else None
    by_cycles = cycles.launch if cycles else None
    over = (by_time or 0.0) >= 1 / LAUNCH_RATIO or (by_time is None and (by_cycles or 0.0) >= LAUNCH_CYCLES)
    if not over:
        return None
    share = by_time if by_time is not None else by_cycles
    assert share is not None
    facts = [
        *counter_line(evidence, "cycles", f"in {by_cycles:.0%} of them no SM works" if by_cycles else ""),
        *counter_line(evidence, "duration_us", "as ncu counts it"),
    ]
    if measured and measured.empty_us is not None:
        facts += [
            EvidenceLine("time_us", "time", measured.time_us, "µs", evidence.label),
            EvidenceLine("time_us", "time of the empty floor", measured.empty_us, "µs", measured.empty),
        ]
    meaning = (
        "What is left is the launch, and no change within the kernel shortens that. Do more in one launch: more "
        "sequences, or what runs before and after it."
    )
    basis: Basis = "times" if by_time is not None else "counters"
    tried = experiment.more_work_a_launch(evidence)
    return Cause("launch_bound", "the launch itself", share, basis, tuple(facts), meaning, tried)


def too_few_warps(evidence: Evidence) -> Cause | None:
    """Finds schedulers without a warp however the grid's warps are spread: each warp has too much to do.

    A grid smaller than the GPU is not the cause by itself, as more SMs speed up no warp: see `idle_sms`.
    """
    launch = evidence.launch
    if launch is None or not launch.missing_warps:
        return None
    facts = [
        EvidenceLine("grid_blocks", "warps in flight", launch.resident_warps, "", str(launch)),
        EvidenceLine("sms", "warp schedulers", launch.schedulers, "", "four an SM, and each needs a warp to issue"),
        *counter_line(evidence, "issue_active_pct", "of the schedulers that have a warp"),
    ]
    if not math.isnan(instructions := evidence.counter("instructions") / launch.warps):
        facts.append(EvidenceLine("instructions", "instructions per warp", instructions, "", "one after another"))
    meaning = (
        f"With {launch}, {launch.missing_warps:.0%} of the schedulers have nothing to issue, and each warp's path is "
        "long. More SMs would not shorten it; the same work split among more warps, with fewer rows each, would."
    )
    return Cause(
        rule="too_few_warps",
        title="too few warps in flight",
        share=bound_by_gain(evidence, evidence.own_share * launch.missing_warps),
        basis=basis_of(evidence),
        facts=tuple(facts),
        meaning=meaning,
        experiment=experiment.more_warps(evidence),
    )


def idle_sms(evidence: Evidence) -> Cause | None:
    """Finds fewer blocks than SMs, while warps on the used SMs compete for issue slots.

    Spreading them over all SMs gains at most the cycles in which others issue: waiting warps wait anywhere.
    """
    cycles, launch = evidence.cycles, evidence.launch
    if cycles is None or launch is None or launch.blocks >= launch.sms or launch.missing_warps:
        return None
    idle = 1 - launch.blocks / launch.sms
    facts = (
        evidence_line("grid_blocks", launch.blocks, "", str(launch)),
        EvidenceLine("sms", "SMs without a block", launch.sms - launch.blocks, "", f"{idle:.0%} of the GPU"),
        *counter_line(evidence, "issue_active_pct", "on the SMs that have a block"),
    )
    meaning = (
        f"{plural(launch.warps_per_block, 'warp')} share an SM while {launch.sms - launch.blocks} SMs have none. "
        "Smaller blocks, more of them, would spread the same warps; it helps only as far as they compete."
    )
    tried = experiment.other_params(evidence, "more, smaller blocks", "grid", "make more, smaller blocks")
    return Cause("idle_sms", "SMs without a block", idle * cycles.issuing, "counters", facts, meaning, tried)


def uneven_sms(evidence: Evidence) -> Cause | None:
    """Finds the tail effect: SMs are done while the last blocks still run on others."""
    cycles, launch = evidence.cycles, evidence.launch
    if launch is None or launch.blocks <= launch.sms:
        return None
    rounds = math.ceil(launch.waves)
    bound = evidence.own_share * (rounds - launch.waves) / rounds if launch.waves > 1 else 0.0
    most, least = math.ceil(launch.blocks / launch.sms), launch.blocks // launch.sms
    last = launch.blocks - (rounds - 1) * launch.sms * launch.blocks_per_sm
    spread = f"{least} or {most}" if least < most else f"{most}"
    uneven = f"a last wave of {plural(last, 'block')}" if rounds > 1 else f"{spread} blocks an SM"
    facts = (
        evidence_line("waves", launch.waves, "", f"{launch}; an SM holds {plural(launch.blocks_per_sm, 'block')}"),
        EvidenceLine("grid_blocks", "blocks of the last wave", last, "", f"{launch.sms * launch.blocks_per_sm} fit"),
        *counter_line(evidence, "sm_imbalance", "in cycles with work"),
    )
    meaning = (
        f"The grid makes {uneven}, and SMs that are done wait for the others. Blocks of another size, or more of them "
        "an SM, would share the work evenly."
    )
    share = cycles.uneven if cycles else bound_by_gain(evidence, bound)
    why, change = "other tiles make other waves", "choose tiles whose blocks fill whole waves"
    tried = experiment.other_params(evidence, why, "grid", change)
    return Cause("uneven_sms", "tail effect: SMs end unevenly", share, basis_of(evidence), facts, meaning, tried)


def limited_occupancy(evidence: Evidence) -> Cause | None:
    """Finds blocks that wait for an SM with full registers or shared memory, while its warps do not hide latency."""
    cycles, launch, missing = evidence.cycles, evidence.launch, missing_room(evidence)
    if launch is None or not missing or (cycles and not busiest_unit_pct(evidence) < LATENCY_PCT):
        return None
    percent = evidence.occupancy_limit_pct
    facts = (
        evidence_line("occupancy_limit_pct", percent, "%", f"limited by {launch.limited_by}"),
        *counter_line(evidence, "occupancy_pct", "on average"),
        evidence_line("registers", launch.registers, "/thread"),
        *counter_line(evidence, "shared_bytes", "a block"),
        EvidenceLine(
            "blocks", "blocks an SM holds", launch.blocks_per_sm, "", f"{launch.waves:.3g} waves: others queue"
        ),
    )
    meaning = (
        f"By its {launch.limited_by}, an SM holds {plural(launch.blocks_per_sm, 'block')}: {percent:.0f}% of the warps "
        "that it could have, and those do not cover each other's waiting."
    )
    # If the number of blocks is the limit, only larger blocks fill the SM.
    change = "give a block more warps" if launch.limited_by == "blocks" else f"need less {launch.limited_by} a block"
    tried = experiment.other_params(evidence, "which tiles leave room for more?", "lean", change)
    share = missing * cycles.waiting_for(DEPENDENCY_STALLS) if cycles else bound_by_gain(evidence, missing)
    title = f"occupancy limited by {launch.limited_by}"
    return Cause("limited_occupancy", title, share, basis_of(evidence), facts, meaning, tried)
