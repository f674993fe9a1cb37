"""How the grid lies over the GPU: schedulers without a warp, SMs without a block, blocks without room."""

from __future__ import annotations

import math

from gdnbench.diagnose import experiment
from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.facts import busiest, counted, fact, noted
from gdnbench.diagnose.finding import Fact, Finding
from gdnbench.diagnose.rules.shares import DEPENDENCY_STALLS, LATENCY_PCT, basis_of, bounded
from gdnbench.wording import plural

HALF_OCCUPANCY_PCT = 50.0
"""Up to half of an SM's warps, as many again would fit if a block needed less."""


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
        share=bounded(evidence, evidence.own_share * launch.missing_warps),
        basis=basis_of(evidence),
        facts=tuple(facts),
        meaning=meaning,
        experiment=experiment.more_warps(evidence),
    )


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
    share = account.uneven if account else bounded(evidence, bound)
    why, change = "other tiles make other waves", "choose tiles whose blocks fill whole waves"
    tried = experiment.another_grid(evidence, why, change)
    return Finding("uneven_sms", "tail effect: SMs end unevenly", share, basis_of(evidence), facts, meaning, tried)


def limited_occupancy(evidence: Evidence) -> Finding | None:
    """Blocks wait for an SM that their registers or shared memory fill, while its warps do not hide latency."""
    account, launch, missing = evidence.account, evidence.launch, missing_room(evidence)
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
    share = missing * account.waiting_for(DEPENDENCY_STALLS) if account else bounded(evidence, missing)
    title = f"occupancy limited by {launch.limited_by}"
    return Finding("limited_occupancy", title, share, basis_of(evidence), facts, meaning, tried)


def missing_room(evidence: Evidence) -> float:
    """The share of an SM's warps that blocks in the queue find no room for; 0 where half of them or more fit."""
    launch, percent = evidence.launch, evidence.occupancy_limit_pct
    if launch is None or launch.waves <= 1:
        return 0.0
    return 1 - percent / 100 if percent <= HALF_OCCUPANCY_PCT else 0.0
