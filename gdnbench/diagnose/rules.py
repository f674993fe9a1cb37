"""The causes that `gdnbench explain` knows: one function each, which reads the evidence and makes a finding or None.

A finding's share is the share of the kernel's time that the cause explains, so that findings of all rules can be
ranked. With counters it is a part of the launch's cycles as `gdnbench.diagnose.account` divides them. Without, it is a
difference of measured times, or a bound that follows from the code, and the finding's basis says which. A value that
is not known is NaN here, and no comparison with NaN holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gdnbench.diagnose import experiment
from gdnbench.diagnose.account import Account
from gdnbench.diagnose.evidence import Evidence, Measured
from gdnbench.diagnose.facts import busiest, counted, fact, late_loads, least_dram_time, noted
from gdnbench.diagnose.finding import Basis, Fact, Finding
from gdnbench.profilers.ncu.quantities import STALL_MEANINGS
from gdnbench.wording import plural

Rule = Callable[[Evidence], Finding | None]

LEAST_SHARE = 0.05
"""What explains less of the time is not told: ncu's counters differ by some per cent from launch to launch."""

LATENCY_PCT = 60.0
"""Below this share of its peak no unit is saturated: ncu's rule `SOLBottleneck`, "below 60.0% of peak typically
indicate latency issues". Memory is taken as saturated from here on: a copy of the state at batch 256 reaches 83 % of
the DRAM's peak on an H200, at batch 64 two thirds."""

SATURATED_PCT = 80.0
"""From here on an SM's pipes are saturated: the same rule, "greater than 80.0%"."""

LAUNCH_RATIO = 1.15
"""A kernel within 15 % of an empty one's time is launched for longer than it works."""

LAUNCH_CYCLES = 0.75
"""The same in ncu's cycles, of which an empty kernel works in a seventh: its blocks come and go."""

HALF_OCCUPANCY_PCT = 50.0
"""Up to half of an SM's warps, as many again would fit if a block needed less."""

WIDEST_LOAD_BITS = 128
"""A lane's load of 16 bytes: the widest on all GPUs before Blackwell."""

MEMORY_STALLS = ("long_scoreboard", "lg_throttle")
SHARED_STALLS = ("short_scoreboard", "mio_throttle")
DEPENDENCY_STALLS = (
    "long_scoreboard",
    "short_scoreboard",
    "wait",
    "imc_miss",
    "no_instruction",
    "branch_resolving",
    "dispatch_stall",
)


_ONE_TRIP = "Load everything first, and wait for as little as possible in a row."
_MANY_TRIPS = (
    "Loads that start when others have arrived pay for the way to memory again: start all before the first use."
)


def too_few_warps(evidence: Evidence) -> Finding | None:
    """Schedulers that could have no warp, however the grid's warps were spread: each warp has too much to do.

    That a grid is smaller than the GPU is not the cause by itself, and more SMs help no warp: see `idle_sms`.
    """
    launch = evidence.launch
    if launch is None or not launch.missing_warps:
        return None
    facts = [
        Fact("grid_blocks", "warps in flight", launch.resident_warps, "", str(launch)),
        Fact("sms", "warp schedulers", launch.schedulers, "", "four an SM, and each needs a warp to issue"),
        *noted(evidence, "issue_active_pct", "of the schedulers that have a warp"),
        *counted(
            "instructions",
            "instructions per warp",
            evidence.counter("instructions") / launch.warps,
            "one after another",
        ),
    ]
    meaning = (
        f"With {launch}, {launch.missing_warps:.0%} of the schedulers have nothing to issue, and each warp's path is "
        "long. More SMs would not shorten it; the same work split among more warps, with fewer rows each, would."
    )
    return Finding(
        rule="too_few_warps",
        title="too few warps in flight",
        share=_bounded(evidence, evidence.own_share * launch.missing_warps),
        basis=_basis(evidence),
        facts=tuple(facts),
        meaning=meaning,
        experiment=experiment.more_warps(evidence),
    )


def many_launches(evidence: Evidence) -> Finding | None:
    """One call makes several launches; what it takes beyond a copy of the state is between them, and of them."""
    measured = evidence.measured
    if measured is None or measured.launches <= 1 or not measured.gain or measured.copy_us is None:
        return None
    facts = (
        Fact("launches", "launches of one call", measured.launches),
        Fact("time_us", "time", measured.time_us, "µs", evidence.label),
        Fact("time_us", "time of the floor", measured.copy_us, "µs", f"{measured.copy}: one launch"),
    )
    meaning = (
        f"{measured.launches} launches write what the next ones read again, and each begins when the one before has "
        "ended. The step fits one launch, as other kernels show."
    )
    title, tried = f"{measured.launches} launches instead of one", experiment.fewer_instructions(evidence)
    return Finding("many_launches", title, measured.gain, "times", facts, meaning, tried)


def latency(evidence: Evidence) -> Finding | None:
    """Nothing is saturated, and warps wait for results; without counters, what a kernel takes beyond a copy."""
    account, launch = evidence.account, evidence.launch
    if account is None or launch is None:
        return _latency_by_times(evidence)
    if not busiest(evidence) < LATENCY_PCT:
        return None
    reasons = [reason for reason in account.reasons if reason in DEPENDENCY_STALLS]
    facts = (
        *_stalls(account, reasons[:3]),
        *noted(evidence, "active_warps", "to choose from"),
        *noted(evidence, "eligible_warps", "ready to issue, on average"),
        *noted(evidence, "dram_pct", least_dram_time(evidence)),
        *late_loads(evidence),
    )
    once = launch.waves <= 1
    advice = _MANY_TRIPS if evidence.late_loads else _ONE_TRIP
    meaning = (
        f"The grid runs at once ({launch.waves:.2g} waves), so the time is one warp's path from its first load to its "
        f"last store. {advice}"
        if once
        else f"Blocks follow one another in {launch.waves:.3g} waves, and the warps that an SM has do not cover each "
        "other's waiting. More warps, or more independent loads in each, would."
    )
    # What is told as too few warps, or as blocks that find no room, is not told again.
    share = account.waiting_for(DEPENDENCY_STALLS) * (1 - _missing_room(evidence))
    share *= launch.used_sms / launch.sms if launch.missing_warps else 1
    title = f"latency: {STALL_MEANINGS[reasons[0]]}" if reasons else "latency"
    return Finding("latency", title, share, "counters", facts, meaning, experiment.shorter_path(evidence))


def _latency_by_times(evidence: Evidence) -> Finding | None:
    measured, launch = evidence.measured, evidence.launch
    if measured is None or not measured.gain or measured.copy_us is None or (launch and launch.missing_warps):
        return None
    if not 100 * (measured.copy_peak_share or math.nan) < LATENCY_PCT:
        return None
    facts = (
        Fact("time_us", "time", measured.time_us, "µs", evidence.label),
        Fact("time_us", "time of the floor", measured.copy_us, "µs", _of_peak(measured)),
        *late_loads(evidence),
    )
    meaning = (
        "At this shape not even a copy of the state is held up by bandwidth, so what the kernel takes beyond it is "
        f"waiting for results. {_MANY_TRIPS if evidence.late_loads else 'Counters tell for which.'}"
    )
    title = "latency, beyond that of a copy"
    return Finding("latency", title, measured.gain, "times", facts, meaning, experiment.shorter_path(evidence))


def idle_sms(evidence: Evidence) -> Finding | None:
    """Fewer blocks than SMs, where warps on the SMs that have one compete for issue slots.

    Spreading them over all SMs frees no more than what the others issue meanwhile: warps that wait do so anywhere.
    """
    account, launch = evidence.account, evidence.launch
    if account is None or launch is None or launch.blocks >= launch.sms or launch.missing_warps:
        return None
    idle = 1 - launch.blocks / launch.sms
    facts = (
        fact("grid_blocks", launch.blocks, "", str(launch)),
        Fact("sms", "SMs without a block", launch.sms - launch.blocks, "", f"{idle:.0%} of the GPU"),
        *noted(evidence, "issue_active_pct", "on the SMs that have a block"),
    )
    meaning = (
        f"{plural(launch.warps_per_block, 'warp')} share an SM while {launch.sms - launch.blocks} SMs have none. "
        "Smaller blocks, more of them, would spread the same warps; it helps only as far as they compete."
    )
    tried = experiment.another_grid(evidence, "more, smaller blocks", "make more, smaller blocks")
    return Finding("idle_sms", "SMs without a block", idle * account.issuing, "counters", facts, meaning, tried)


def uneven_sms(evidence: Evidence) -> Finding | None:
    """The tail effect: SMs are done, and the last blocks still run on the others."""
    account, launch = evidence.account, evidence.launch
    if launch is None or launch.blocks <= launch.sms:
        return None
    rounds = math.ceil(launch.waves)
    bound = evidence.own_share * (rounds - launch.waves) / rounds if launch.waves > 1 else 0.0
    most, least = math.ceil(launch.blocks / launch.sms), launch.blocks // launch.sms
    last = launch.blocks - (rounds - 1) * launch.sms * launch.blocks_per_sm
    spread = f"{least} or {most}" if least < most else f"{most}"
    told = f"a last wave of {plural(last, 'block')}" if rounds > 1 else f"{spread} blocks an SM"
    facts = (
        fact("waves", launch.waves, "", f"{launch}; an SM holds {plural(launch.blocks_per_sm, 'block')}"),
        Fact("grid_blocks", "blocks of the last wave", last, "", f"{launch.sms * launch.blocks_per_sm} fit"),
        *noted(evidence, "sm_imbalance", "in cycles with work"),
    )
    meaning = (
        f"The grid makes {told}, and SMs that are done wait for the others. Blocks of another size, or more of them an "
        "SM, would share the work evenly."
    )
    share = account.uneven if account else _bounded(evidence, bound)
    why, change = "other tiles make other waves", "choose tiles whose blocks fill whole waves"
    tried = experiment.another_grid(evidence, why, change)
    return Finding("uneven_sms", "tail effect: SMs end unevenly", share, _basis(evidence), facts, meaning, tried)


def limited_occupancy(evidence: Evidence) -> Finding | None:
    """Blocks wait for an SM that their registers or shared memory fill, while its warps do not hide latency."""
    account, launch, missing = evidence.account, evidence.launch, _missing_room(evidence)
    if launch is None or not missing or (account and not busiest(evidence) < LATENCY_PCT):
        return None
    percent = evidence.occupancy_limit_pct
    facts = (
        fact("occupancy_limit_pct", percent, "%", f"limited by {launch.limited_by}"),
        *noted(evidence, "occupancy_pct", "on average"),
        fact("registers", launch.registers, "/thread"),
        *noted(evidence, "shared_bytes", "a block"),
        Fact("blocks", "blocks an SM holds", launch.blocks_per_sm, "", f"{launch.waves:.3g} waves: others queue"),
    )
    meaning = (
        f"By its {launch.limited_by}, an SM holds {plural(launch.blocks_per_sm, 'block')}: {percent:.0f}% of the warps "
        "that it could have, and those do not cover each other's waiting."
    )
    # Where the number of blocks is the limit, whatever else a block needs, only larger blocks fill the SM.
    change = "give a block more warps" if launch.limited_by == "blocks" else f"need less {launch.limited_by} a block"
    tried = experiment.other_params(evidence, "which tiles leave room for more?", "lean", change)
    share = missing * account.waiting_for(DEPENDENCY_STALLS) if account else _bounded(evidence, missing)
    title = f"occupancy limited by {launch.limited_by}"
    return Finding("limited_occupancy", title, share, _basis(evidence), facts, meaning, tried)


def _missing_room(evidence: Evidence) -> float:
    """The share of an SM's warps that blocks in the queue find no room for; 0 where half of them or more fit."""
    launch, percent = evidence.launch, evidence.occupancy_limit_pct
    if launch is None or launch.waves <= 1:
        return 0.0
    return 1 - percent / 100 if percent <= HALF_OCCUPANCY_PCT else 0.0


def bandwidth(evidence: Evidence) -> Finding | None:
    """DRAM or L2 is saturated with what the kernel needs; without counters, the copying floor says so."""
    if evidence.account is None:
        return _bandwidth_by_times(evidence)
    useful = 1 - max(evidence.excess_share, evidence.local_share)
    levels = {"DRAM": evidence.counter("dram_pct") * useful, "L2": evidence.counter("l2_pct") * useful}
    full = {name: percent for name, percent in levels.items() if percent >= LATENCY_PCT}
    if not full:
        return None
    name = next(iter(full))
    facts = (
        *noted(evidence, "dram_pct"),
        *noted(evidence, "l2_pct"),
        *noted(evidence, "dram_read_bytes"),
        *noted(evidence, "dram_write_bytes", "the rest may still be in L2 when the kernel ends"),
    )
    meaning = (
        f"{name} is at {full[name]:.0f}% of its peak, and with what the kernel needs: the time is the traffic. What is "
        "left to gain is the distance to the copying floor."
    )
    tried = experiment.less_traffic(evidence)
    title = f"bandwidth of {name}"
    return Finding("bandwidth", title, max(full.values()) / 100, "counters", facts, meaning, tried)


def _bandwidth_by_times(evidence: Evidence) -> Finding | None:
    measured = evidence.measured
    if measured is None or measured.copy_us is None or measured.gain is None:
        return None
    if not 100 * (measured.copy_peak_share or math.nan) >= LATENCY_PCT:
        return None
    facts = (
        Fact("time_us", "time", measured.time_us, "µs", evidence.label),
        Fact("time_us", "time of the floor", measured.copy_us, "µs", _of_peak(measured)),
    )
    meaning = (
        f"At this shape DRAM holds up even a copy of the state, which takes {1 - measured.gain:.0%} of the kernel's "
        f"time. What is left to gain without moving fewer bytes is {measured.gain:.0%}."
    )
    tried = experiment.less_traffic(evidence)
    return Finding("bandwidth", "bandwidth of DRAM", 1 - measured.gain, "times", facts, meaning, tried)


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


def launch_bound(evidence: Evidence) -> Finding | None:
    """The kernel takes hardly longer than an empty one."""
    account, measured = evidence.account, evidence.measured
    by_time = measured.launch_share if measured else None
    by_cycles = account.launch if account else None
    over = (by_time or 0.0) >= 1 / LAUNCH_RATIO or (by_time is None and (by_cycles or 0.0) >= LAUNCH_CYCLES)
    if not over:
        return None
    share = by_time if by_time is not None else by_cycles
    assert share is not None
    facts = [
        *noted(evidence, "cycles", f"in {by_cycles:.0%} of them no SM works" if by_cycles else ""),
        *noted(evidence, "duration_us", "as ncu counts it"),
    ]
    if measured and measured.empty_us is not None:
        facts += [
            Fact("time_us", "time", measured.time_us, "µs", evidence.label),
            Fact("time_us", "time of the empty floor", measured.empty_us, "µs", measured.empty),
        ]
    meaning = (
        "What is left is the launch, and no change within the kernel shortens that. Do more in one launch: more "
        "sequences, or what runs before and after it."
    )
    basis: Basis = "times" if by_time is not None else "counters"
    tried = experiment.more_work_a_launch(evidence)
    return Finding("launch_bound", "the launch itself", share, basis, tuple(facts), meaning, tried)


def spilling(evidence: Evidence) -> Finding | None:
    """Registers that did not fit live in local memory, and warps wait for them as for any memory."""
    account, anatomy = evidence.account, evidence.anatomy
    if account:
        share = account.waiting_for(MEMORY_STALLS) * evidence.local_share
        facts = [*noted(evidence, "spill_requests"), *noted(evidence, "registers")]
        facts += [*noted(evidence, "dram_write_bytes", "spilled values among them")]
    elif anatomy and anatomy.resources.spill_bytes:
        share = _bounded(evidence, evidence.own_share * evidence.local_share)
        facts = [
            Fact("spills", "spilled", anatomy.resources.spill_bytes, "B", "of local memory a thread"),
            Fact("spill_stores", "spill stores", anatomy.mix.spill_store_bytes, "B", "a thread"),
            Fact("spill_loads", "spill loads", anatomy.mix.spill_load_bytes, "B", "a thread"),
            fact("registers", anatomy.resources.registers, "/thread"),
        ]
    else:
        return None
    counter = "memory_l2_theoretical_sectors_local" if account else "mix"
    facts.append(Fact(counter, "memory accesses that are spills", 100 * evidence.local_share, "%"))
    meaning = (
        "The compiler had fewer registers than values to hold, and moves some to memory and back. Hold fewer rows a "
        "thread, or allow it more registers."
    )
    tried = experiment.other_params(evidence, "smaller tiles need fewer registers", "rows", "hold fewer rows a thread")
    return Finding("spilling", "registers spill to memory", share, _basis(evidence), tuple(facts), meaning, tried)


def uncoalesced(evidence: Evidence) -> Finding | None:
    """Warps touch more sectors than their bytes fill: the lanes of a warp are apart in memory."""
    account = evidence.account
    if account is None:
        return None
    share = account.waiting_for(MEMORY_STALLS) * evidence.excess_share
    facts = (
        *noted(evidence, "load_bytes_per_sector"),
        *noted(evidence, "store_bytes_per_sector"),
        *noted(evidence, "excess_sectors", f"{evidence.excess_share:.0%} of all"),
        *noted(evidence, "l2_pct"),
    )
    meaning = (
        f"Of the sectors that the kernel asks L2 for, {evidence.excess_share:.0%} would not be needed if lanes read "
        "side by side. Give a row to a warp, 16 bytes a lane, instead of a row to a thread."
    )
    change = "let the lanes of a warp read neighbouring addresses"
    tried = experiment.by_hand(evidence, "coalesced", change)
    return Finding("uncoalesced", "uncoalesced access", share, "counters", facts, meaning, tried)


def bank_conflicts(evidence: Evidence) -> Finding | None:
    """Lanes of a warp ask the same bank of shared memory for different words, and are served in turn."""
    account = evidence.account
    wavefronts, excess = evidence.counter("shared_wavefronts"), evidence.counter("excess_wavefronts")
    if account is None or not 0 < excess < wavefronts:
        return None
    facts = (
        *noted(evidence, "shared_wavefronts"),
        *noted(evidence, "excess_wavefronts", f"{excess / wavefronts:.0%} of all"),
        *noted(evidence, "l1_pct"),
        *_stalls(account, SHARED_STALLS),
    )
    meaning = (
        f"An access to shared memory takes {wavefronts / (wavefronts - excess):.1f} turns where one would do. Pad the "
        "rows by a word, or swizzle the columns, so that 32 lanes meet 32 banks."
    )
    share = account.waiting_for(SHARED_STALLS) * excess / wavefronts
    tried = experiment.by_hand(evidence, "padded", "pad the rows in shared memory by one word")
    return Finding("bank_conflicts", "bank conflicts in shared memory", share, "counters", facts, meaning, tried)


def barriers(evidence: Evidence) -> Finding | None:
    """Warps wait at barriers for the others of their block."""
    account = evidence.account
    if account is None or "barrier" not in account.reasons:
        return None
    facts = (
        *_stalls(account, ("barrier",)),
        *noted(evidence, "block_threads", "wait for one another"),
        *noted(evidence, "issue_active_pct"),
        *noted(evidence, "instructions"),
    )
    meaning = (
        "A barrier holds up the block until its last warp is there. Where barriers are for sums, sum within a warp by "
        "shuffles, and join the warps by one barrier; smaller blocks wait for fewer."
    )
    tried = experiment.by_hand(evidence, "shuffles", "sum by shuffles within a warp, without barriers")
    share = account.waiting_for(("barrier",))
    return Finding("barriers", "barriers", share, "counters", facts, meaning, tried)


def narrow_loads(evidence: Evidence) -> Finding | None:
    """Without counters: no load of the code takes the 16 bytes a lane that one could."""
    anatomy = evidence.anatomy
    if anatomy is None or not 0 < anatomy.build.load_bits < WIDEST_LOAD_BITS:
        return None
    bits, mix = anatomy.build.load_bits, anatomy.mix
    loads = sum(count for name, count in mix.families.items() if name.startswith("global load"))
    saved = loads / mix.instructions * (1 - bits / WIDEST_LOAD_BITS)
    facts = (
        Fact("load_bits", "widest load", bits, "bits", f"{WIDEST_LOAD_BITS} are possible"),
        Fact("mix", "global loads", loads, "", f"of {mix.instructions} instructions, a loop's counted once"),
    )
    meaning = (
        f"Loads of {bits // 8} bytes a lane take {WIDEST_LOAD_BITS // bits} times the instructions for the same bytes, "
        "and fewer bytes are under way at a time. Lanes apart in memory cannot load wide: let them read side by side."
    )
    tried = experiment.by_hand(evidence, "wide", "load 16 bytes a lane, as float4")
    share = _bounded(evidence, evidence.own_share * saved)
    return Finding("narrow_loads", "narrow loads", share, "code", facts, meaning, tried)


def _basis(evidence: Evidence) -> Basis:
    return "counters" if evidence.account else "code"


def _of_peak(measured: Measured) -> str:
    return f"{measured.copy}: {measured.copy_peak_share or math.nan:.0%} of the DRAM's peak"


def _stalls(account: Account, reasons: Sequence[str]) -> tuple[Fact, ...]:
    """Lines on what waiting warps wait for."""
    shares = {name: 100 * account.reasons.get(name, 0.0) for name in reasons}
    return tuple(fact(f"stall_{name}", share, "%", STALL_MEANINGS[name]) for name, share in shares.items())


def _bounded(evidence: Evidence, share: float) -> float:
    """What follows from the code alone, but no more than there is to gain; counters speak for themselves."""
    gain = evidence.measured.gain if evidence.measured else None
    return share if evidence.account or gain is None else min(share, gain)


RULES: tuple[Rule, ...] = (
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
)
"""Every rule; on a tie of shares, the earlier one ranks first."""
