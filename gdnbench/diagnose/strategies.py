"""Ways to make a kernel faster, in the order in which they are worth trying, and what its facts say of each.

The order, and all but `early loads`, are the checklist of the GDN decode study (findings/potential-cuda-improvement.md,
section 8), without what it says of code around the kernel: the state kept in L2 between calls, which a cold measurement
excludes, and launches through the driver, which is how gdnbench launches. A fact is a counter of a profile, else what
the compiler made of the kernel, or an entry of the ledger on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from gdnbench.diagnose import experiment
from gdnbench.diagnose.evidence import Evidence, Experiment, evidence_line, launched_entries
from gdnbench.ledger.entry import EntryState, LedgerEntry
from gdnbench.wording import plural


class StrategyState(StrEnum):
    """What is known of a strategy for one kernel."""

    UNTRIED = "untried"  # its facts leave something to gain, and no entry of the ledger is about it
    TRIED = "tried"  # an entry of the ledger is about it, and did not refute it
    RULED_OUT = "ruled out"  # its facts leave nothing to gain, or an entry of the ledger refuted it
    UNKNOWN = "unknown"  # the facts that decide are missing


@dataclass(frozen=True)
class Fact:
    """One fact about a kernel, a clause without a full stop, and whether it leaves the strategy something to gain."""

    leaves_gain: bool
    text: str


@dataclass(frozen=True)
class Strategy:
    """A way to make a kernel faster: what to do, the fact that decides whether to, and how to begin."""

    name: str
    title: str
    fact: Callable[[Evidence], Fact | None]  # None if what decides is unknown
    words: str  # a regular expression: an entry of the ledger is about it if its hypothesis has a match
    attempt: Callable[[Evidence], Experiment]


@dataclass(frozen=True)
class JudgedStrategy:
    """A strategy with its state for one kernel, the evidence for it, and the experiment that comes next, if any."""

    strategy: Strategy
    state: StrategyState
    evidence: tuple[str, ...]
    experiment: Experiment | None


LEAST_SHARE = 0.05
"""A stall reason that takes less of the time leaves nothing to gain: counters differ by some per cent."""

FULL_PCT = 100.0
"""Where all warps of an SM fit, no resource limits them."""

LEAST_EXCESS = 1.1
"""DRAM traffic up to this multiple of the least is of one pass: caches are flushed in lines, and inputs share some."""


def _registers(evidence: Evidence) -> Fact | None:
    launch, compiled = evidence.launch, evidence.compiled
    spilled = compiled.resources.spill_bytes if compiled else evidence.counter("spill_requests")
    if launch is None or math.isnan(spilled):
        return None
    spills = f"{spilled:,.0f} {'bytes' if compiled else 'accesses'} of spills" if spilled else "no spills"
    return Fact(spilled > 0, f"{launch.registers} registers a thread, {spills}")


def _one_pass(evidence: Evidence) -> Fact | None:
    moved = evidence.counter("dram_read_bytes") + evidence.counter("dram_write_bytes")
    least = evidence.entry.op.traffic_bytes(evidence.workload)
    if math.isnan(moved) or not least or len(launched_entries(evidence.entry)) > 1:
        return None
    return Fact(moved > LEAST_EXCESS * least, f"DRAM moves {moved / least:.2f} of the least bytes")


def _register_limit(evidence: Evidence) -> Fact | None:
    launch = evidence.launch
    if launch is None:
        return None
    if launch.waves <= 1:
        return Fact(False, f"the grid runs at once, {launch.waves:.2g} waves")
    percent = evidence.occupancy_limit_pct
    is_limit = "registers" in launch.limited_by and percent < FULL_PCT
    return Fact(is_limit, f"{launch.waves:.3g} waves, {percent:.0f}% of an SM's warps fit by its {launch.limited_by}")


def _shuffles(evidence: Evidence) -> Fact | None:
    compiled = evidence.compiled
    shared = compiled.request.shared_bytes if compiled else evidence.counter("shared_bytes")
    if math.isnan(shared):
        return None
    return _stalled(evidence, "short_scoreboard") if shared else Fact(False, "no shared memory")


def _chains(evidence: Evidence) -> Fact | None:
    return _stalled(evidence, "wait")


def _barriers(evidence: Evidence) -> Fact | None:
    compiled = evidence.compiled
    if compiled and not compiled.mix.families.get("block barrier"):
        return Fact(False, "no barrier of a block in the code")
    return _stalled(evidence, "barrier")


def _stalled(evidence: Evidence, reason: str) -> Fact | None:
    cycles = evidence.cycles
    if cycles is None or not cycles.reasons:
        return None
    share = cycles.waiting_for([reason])
    return Fact(share >= LEAST_SHARE, f"{evidence_line(f'stall_{reason}', 0).title} takes {share:.1%} of its cycles")


def _fusion(evidence: Evidence) -> Fact | None:
    measured = evidence.measured
    count = max(len(launched_entries(evidence.entry)), measured.launches if measured else 0)
    is_known = evidence.entry.kernel.language != "python" or (measured is not None and measured.launches > 0)
    return Fact(count > 1, f"{plural(count, 'launch', 'launches')} a call") if is_known else None


def _persistent(evidence: Evidence) -> Fact | None:
    launch = evidence.launch
    return Fact(launch.waves > 1, f"{launch.waves:.3g} waves of blocks") if launch else None


def _warps(evidence: Evidence) -> Fact | None:
    launch = evidence.launch
    if launch is None:
        return None
    warps = f"{plural(launch.resident_warps, 'warp')} at once for {launch.schedulers} schedulers"
    return Fact(launch.missing_warps > 0, warps)


def _layout(evidence: Evidence) -> Fact | None:
    if math.isnan(evidence.counter("excess_sectors")) or math.isnan(evidence.counter("global_sectors")):
        return None
    excess = evidence.excess_share
    return Fact(excess >= LEAST_SHARE, f"{excess:.1%} of its sectors are more than coalesced access needs")


def _early_loads(evidence: Evidence) -> Fact | None:
    trips = evidence.dependent_loads
    return Fact(trips > 1, f"{plural(trips, 'trip')} to memory in a row") if trips else None


def _by_hand(suffix: str, change: str) -> Callable[[Evidence], Experiment]:
    return lambda evidence: experiment.by_hand(evidence, suffix, change)


def _sweep_or_change(suffix: str, change: str) -> Callable[[Evidence], Experiment]:
    return lambda evidence: experiment.other_params(evidence, change, suffix, change)


STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        "registers",
        "hold what is computed on in registers",
        _registers,
        r"spill|in registers",
        _sweep_or_change("rows", "hold fewer rows a thread"),
    ),
    Strategy(
        "one pass",
        "read and write what is large once",
        _one_pass,
        r"one pass|twice|again from memory",
        experiment.less_traffic,
    ),
    Strategy(
        "register limit",
        "bound the registers of a thread, so that more blocks fit",
        _register_limit,
        r"launch.?bounds|maxrregcount|occupancy",
        _sweep_or_change("lean", "need fewer registers a block"),
    ),
    Strategy(
        "shuffles",
        "hand values on by shuffles, not through shared memory",
        _shuffles,
        r"shuffle|shared memory",
        _by_hand("shuffled", "hand values on within a warp by shuffles"),
    ),
    Strategy(
        "chains",
        "add up in several chains: unroll",
        _chains,
        r"unroll|chain",
        _by_hand("chains", "unroll, with a sum for each of several chains"),
    ),
    Strategy(
        "barriers",
        "let warps wait for each other less often",
        _barriers,
        r"barrier|syncthreads",
        _by_hand("unsynced", "wait at fewer barriers"),
    ),
    Strategy(
        "fusion",
        "make one launch of several, with what surrounds them",
        _fusion,
        r"\bfus|one launch",
        _by_hand("fused", "do the work of all launches in one"),
    ),
    Strategy(
        "persistent",
        "keep blocks for several tiles",
        _persistent,
        r"persistent|blocks that go on",
        _by_hand("persistent", "let a block take several tiles, and load the next before it is done"),
    ),
    Strategy(
        "warps",
        "give a block more warps, or fewer",
        _warps,
        r"\bwarps? (a|per) block|more warps",
        experiment.more_warps,
    ),
    Strategy(
        "layout",
        "let neighbouring lanes read neighbouring bytes",
        _layout,
        r"coalesc|layout|sector|wide loads?|bytes a lane",
        _by_hand("coalesced", "let the lanes of a warp read neighbouring addresses"),
    ),
    Strategy(
        "early loads",
        "start every load before the first use",
        _early_loads,
        r"loads? first|before (it|they|the)|prefetch|ahead|sooner|small loads",
        experiment.shorter_path,
    ),
)
"""Every strategy, the first to try first."""


def judge_strategies(evidence: Evidence, entries: Iterable[LedgerEntry]) -> tuple[JudgedStrategy, ...]:
    """Judges every strategy by a kernel's facts, those of its longest launch, and by the entries of a ledger on it."""
    subject = evidence.launches[0] if evidence.launches else evidence
    own = tuple(_entries_on(evidence, entries))
    return tuple(_judge(each, subject, own) for each in STRATEGIES)


def _entries_on(evidence: Evidence, entries: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
    """Yields the entries on a kernel, and on others that are to beat it: a change is often made to a copy."""
    for each in entries:
        opened = each.opened
        rivals = {expectation.baseline for expectation in opened.expectations}
        if opened.op == evidence.entry.op.name and evidence.label in {opened.label, *rivals}:
            yield each


def _judge(strategy: Strategy, evidence: Evidence, entries: tuple[LedgerEntry, ...]) -> JudgedStrategy:
    about = [each for each in entries if re.search(strategy.words, each.opened.hypothesis, re.IGNORECASE)]
    fact = strategy.fact(evidence)
    lines = (
        *([fact.text] if fact else ()),
        *(f"ledger {each.opened.id}, {each.state}: {each.opened.hypothesis}" for each in about),
    )
    if (fact and not fact.leaves_gain) or any(each.state is EntryState.REFUTED for each in about):
        return JudgedStrategy(strategy, StrategyState.RULED_OUT, lines, None)
    if about:
        return JudgedStrategy(strategy, StrategyState.TRIED, lines, None)
    if fact is None:
        missing = None if evidence.profile else experiment.profile(evidence)
        return JudgedStrategy(strategy, StrategyState.UNKNOWN, lines, missing)
    return JudgedStrategy(strategy, StrategyState.UNTRIED, lines, strategy.attempt(evidence))
