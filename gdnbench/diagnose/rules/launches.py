"""Launches that take the time, by their number or by themselves."""

from __future__ import annotations

from gdnbench.diagnose import experiment
from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.facts import noted
from gdnbench.diagnose.finding import Basis, Fact, Finding

LAUNCH_RATIO = 1.15
"""A kernel within 15 % of an empty one's time is launched for longer than it works."""

LAUNCH_CYCLES = 0.75
"""The same in ncu's cycles, of which an empty kernel works in a seventh: its blocks come and go."""


def many_launches(evidence: Evidence) -> Finding | None:
    """One call makes several launches; what it takes beyond a copy of the state is between them, and of them."""
    measured = evidence.times
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


def launch_bound(evidence: Evidence) -> Finding | None:
    """The kernel takes hardly longer than an empty one."""
    account, measured = evidence.account, evidence.times
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
