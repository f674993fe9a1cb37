"""Units that are saturated, or get more requests than the work needs: memory, shared memory, arithmetic."""

from __future__ import annotations

import math

from gdnbench.diagnose import experiment
from gdnbench.diagnose.evidence import (
    LATENCY_PCT,
    Cause,
    Evidence,
    EvidenceLine,
    basis_of,
    bound_by_gain,
    counter_line,
    evidence_line,
    floor_lines,
    stall_lines,
)
from gdnbench.machine.gpus import spec_of

WIDEST_LOAD_BITS = 128
"""A lane's load of 16 bytes: the widest on all GPUs before Blackwell."""

SATURATED_PCT = 80.0
"""From here on an SM's pipes are saturated: ncu's rule `SOLBottleneck`, "greater than 80.0%"."""

MEMORY_STALLS = ("long_scoreboard", "lg_throttle")
SHARED_STALLS = ("short_scoreboard", "mio_throttle")


def bandwidth(evidence: Evidence) -> Cause | None:
    """Finds DRAM or L2 saturated with useful traffic; without counters, judges by the copy floor."""
    if evidence.cycles is None:
        return _bandwidth_by_times(evidence)
    useful = 1 - max(evidence.excess_share, evidence.local_share)
    levels = {"DRAM": evidence.counter("dram_pct") * useful, "L2": evidence.counter("l2_pct") * useful}
    full = {name: percent for name, percent in levels.items() if percent >= LATENCY_PCT}
    if not full:
        return None
    name = next(iter(full))
    measured = evidence.times
    bound = "what FLOPs take at peak" if measured and measured.flops_us is not None else "the copying floor"
    facts = (
        *counter_line(evidence, "dram_pct"),
        *counter_line(evidence, "l2_pct"),
        *counter_line(evidence, "dram_read_bytes"),
        *counter_line(evidence, "dram_write_bytes", "the rest may still be in L2 when the kernel ends"),
    )
    meaning = (
        f"{name} is at {full[name]:.0f}% of its peak, and with what the kernel needs: the time is the traffic. What is "
        f"left to gain is the distance to {bound}."
    )
    tried = experiment.less_traffic(evidence)
    title = f"bandwidth of {name}"
    return Cause("bandwidth", title, max(full.values()) / 100, "counters", facts, meaning, tried)


def _bandwidth_by_times(evidence: Evidence) -> Cause | None:
    measured = evidence.times
    if measured is None or measured.copy_us is None or measured.gain is None or measured.flops_us is not None:
        return None
    if not 100 * (measured.copy_peak_share or math.nan) >= LATENCY_PCT:
        return None
    facts = floor_lines(evidence, measured)
    meaning = (
        f"At this workload DRAM holds up even a copy of as many bytes, which takes {1 - measured.gain:.0%} of the "
        f"kernel's time. What is left to gain without moving fewer bytes is {measured.gain:.0%}."
    )
    tried = experiment.less_traffic(evidence)
    return Cause("bandwidth", "bandwidth of DRAM", 1 - measured.gain, "times", facts, meaning, tried)


def spilling(evidence: Evidence) -> Cause | None:
    """Finds registers spilled to local memory, for which warps wait as for any memory."""
    cycles, compiled = evidence.cycles, evidence.compiled
    if cycles:
        share = cycles.waiting_for(MEMORY_STALLS) * evidence.local_share
        facts = [*counter_line(evidence, "spill_requests"), *counter_line(evidence, "registers")]
        facts += [*counter_line(evidence, "dram_write_bytes", "spilled values among them")]
    elif compiled and compiled.resources.spill_bytes:
        share = bound_by_gain(evidence, evidence.own_share * evidence.local_share)
        facts = [
            EvidenceLine("spills", "spilled", compiled.resources.spill_bytes, "B", "of local memory a thread"),
            EvidenceLine("spill_stores", "spill stores", compiled.mix.spill_store_bytes, "B", "a thread"),
            EvidenceLine("spill_loads", "spill loads", compiled.mix.spill_load_bytes, "B", "a thread"),
            evidence_line("registers", compiled.resources.registers, "/thread"),
        ]
    else:
        return None
    counter = "memory_l2_theoretical_sectors_local" if cycles else "mix"
    facts.append(EvidenceLine(counter, "memory accesses that are spills", 100 * evidence.local_share, "%"))
    meaning = (
        "The compiler had fewer registers than values to hold, and moves some to memory and back. Hold fewer rows a "
        "thread, or allow it more registers."
    )
    tried = experiment.other_params(evidence, "smaller tiles need fewer registers", "rows", "hold fewer rows a thread")
    return Cause("spilling", "registers spill to memory", share, basis_of(evidence), tuple(facts), meaning, tried)


def uncoalesced(evidence: Evidence) -> Cause | None:
    """Finds warps that touch more sectors than their bytes fill: their lanes are apart in memory."""
    cycles = evidence.cycles
    if cycles is None:
        return None
    share = cycles.waiting_for(MEMORY_STALLS) * evidence.excess_share
    facts = (
        *counter_line(evidence, "load_bytes_per_sector"),
        *counter_line(evidence, "store_bytes_per_sector"),
        *counter_line(evidence, "excess_sectors", f"{evidence.excess_share:.0%} of all"),
        *counter_line(evidence, "l2_pct"),
    )
    meaning = (
        f"Of the sectors that the kernel asks L2 for, {evidence.excess_share:.0%} would not be needed if lanes read "
        "side by side. Give a row to a warp, 16 bytes a lane, instead of a row to a thread."
    )
    change = "let the lanes of a warp read neighbouring addresses"
    tried = experiment.by_hand(evidence, "coalesced", change)
    return Cause("uncoalesced", "uncoalesced access", share, "counters", facts, meaning, tried)


def bank_conflicts(evidence: Evidence) -> Cause | None:
    """Finds lanes of a warp that access different words in one bank of shared memory, one after another."""
    cycles = evidence.cycles
    wavefronts, excess = evidence.counter("shared_wavefronts"), evidence.counter("excess_wavefronts")
    if cycles is None or not 0 < excess < wavefronts:
        return None
    facts = (
        *counter_line(evidence, "shared_wavefronts"),
        *counter_line(evidence, "excess_wavefronts", f"{excess / wavefronts:.0%} of all"),
        *counter_line(evidence, "l1_pct"),
        *stall_lines(cycles, SHARED_STALLS),
    )
    meaning = (
        f"An access to shared memory takes {wavefronts / (wavefronts - excess):.1f} turns where one would do. Pad the "
        "rows by a word, or swizzle the columns, so that 32 lanes meet 32 banks."
    )
    share = cycles.waiting_for(SHARED_STALLS) * excess / wavefronts
    tried = experiment.by_hand(evidence, "padded", "pad the rows in shared memory by one word")
    return Cause("bank_conflicts", "bank conflicts in shared memory", share, "counters", facts, meaning, tried)


def narrow_loads(evidence: Evidence) -> Cause | None:
    """Finds, without counters, code that has no load of 16 bytes a lane."""
    compiled = evidence.compiled
    if compiled is None or not 0 < compiled.build.load_bits < WIDEST_LOAD_BITS:
        return None
    bits, mix = compiled.build.load_bits, compiled.mix
    loads = sum(count for name, count in mix.families.items() if name.startswith("global load"))
    saved = loads / mix.instructions * (1 - bits / WIDEST_LOAD_BITS)
    facts = (
        EvidenceLine("load_bits", "widest load", bits, "bits", f"{WIDEST_LOAD_BITS} are possible"),
        EvidenceLine("mix", "global loads", loads, "", f"of {mix.instructions} instructions, a loop's counted once"),
    )
    meaning = (
        f"Loads of {bits // 8} bytes a lane take {WIDEST_LOAD_BITS // bits} times the instructions for the same bytes, "
        "and fewer bytes are under way at a time. Lanes apart in memory cannot load wide: let them read side by side."
    )
    tried = experiment.by_hand(evidence, "wide", "load 16 bytes a lane, as float4")
    share = bound_by_gain(evidence, evidence.own_share * saved)
    return Cause("narrow_loads", "narrow loads", share, "code", facts, meaning, tried)


def compute(evidence: Evidence) -> Cause | None:
    """Finds saturated pipes or issue slots of the SMs: instructions take the time."""
    percent = evidence.counter("sm_pct")
    if not percent >= SATURATED_PCT:
        return None
    pipes = {key: evidence.counter(key) for key in ("fma_pct", "alu_pct", "xu_pct", "lsu_pct")}
    pipe = max(pipes, key=lambda key: -1.0 if math.isnan(pipes[key]) else pipes[key])
    facts = (
        *counter_line(evidence, "sm_pct"),
        *counter_line(evidence, pipe, "the busiest pipe"),
        *counter_line(evidence, "issue_active_pct"),
        *counter_line(evidence, "instructions"),
        *counter_line(evidence, "dram_pct", "the memory waits for the SMs"),
    )
    meaning = (
        "Arithmetic should hide behind the loads of a kernel that moves some bytes for each operation. Here it does "
        "not: find what is computed more than once."
    )
    tried = experiment.fewer_instructions(evidence)
    return Cause("compute", "instructions: the SMs are busy", percent / 100, "counters", facts, meaning, tried)


def lowered_clock(evidence: Evidence) -> Cause | None:
    """Finds a lowered SM clock, as under a power limit, at a workload that arithmetic bounds."""
    measured = evidence.times
    spec = spec_of(measured.gpu) if measured else None
    if measured is None or spec is None or measured.flops_us is None or measured.sm_mhz is None:
        return None
    lowered = max(0.0, 1 - measured.sm_mhz / spec.boost_mhz)
    facts = (
        EvidenceLine("time_us", "time", measured.time_us, "µs", evidence.label),
        EvidenceLine("flops_us", "FLOPs at the GPU's peak", measured.flops_us, "µs", "at its rated clock"),
        EvidenceLine("sm_mhz", "SM clock", measured.sm_mhz, "MHz", f"of at most {spec.boost_mhz:.0f}"),
    )
    meaning = (
        f"While the kernel runs, the SM clock is {lowered:.0%} below the highest. Arithmetic at full rate draws so "
        "much power that a GPU lowers it; `nvidia-smi -q -d PERFORMANCE` tells the reason while it runs. What takes "
        "less power for the same FLOPs is faster then: fewer reads of shared memory and of DRAM for each, and fewer "
        "instructions besides them."
    )
    tried = experiment.fewer_instructions(evidence)
    return Cause(
        "lowered_clock", "a lowered SM clock", min(lowered, measured.gain or 0.0), "times", facts, meaning, tried
    )
