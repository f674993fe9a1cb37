"""Where a launch's time went: every cycle of every scheduler stands in exactly one account.

The cycles are those of the SMs that got a block, from the launch's begin to its end as ncu tells them. A scheduler
issues at most one instruction a cycle (Nsight Compute's Profiling Guide, "Hardware Model"), so a cycle is spent
issuing, or it is lost to one of: the launch, before and after the busiest SM's work; other SMs that have no work while
that one has; schedulers without a warp on SMs with work; warps that all wait. What they wait for is told by the stall
reasons, as shares of the warps' time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gdnbench.diagnose.launch import Launch
from gdnbench.profilers.ncu.counters import CYCLES
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.quantities import stalls, value_of

_READY = frozenset({"selected", "not_selected"})


@dataclass(frozen=True)
class Account:
    """Shares of the launch's time, which together are 1.

    Attributes:
        launch: no SM works: the launch itself, and its end.
        uneven: an SM has no work, while the busiest has.
        empty: a scheduler has no warp, while its SM has work.
        waiting: a scheduler has warps, and none of them can go on.
        issuing: a scheduler issues.
        reasons: what waiting warps wait for, by ncu's name, as shares of their waiting, most first.
    """

    launch: float
    uneven: float
    empty: float
    waiting: float
    issuing: float
    reasons: Mapping[str, float] = field(default_factory=dict)

    @property
    def working(self) -> float:
        """The share in which the busiest SM works."""
        return 1 - self.launch

    def waiting_for(self, reasons: Iterable[str]) -> float:
        """The share in which nothing issues for these reasons."""
        return self.waiting * sum(self.reasons.get(reason, 0.0) for reason in reasons)


def account_of(profile: Profile, launch: Launch) -> Account | None:
    """Opens the accounts of a profiled launch; None where the report lacks a counter."""
    issue = value_of(profile, "issue_active_pct")
    if not profile.has_all(*CYCLES) or issue is None or math.isnan(issue):
        return None
    elapsed, longest, mean, with_warps = (profile.number(name) or 0.0 for name in CYCLES)
    if not elapsed:
        return None
    # The averages are over all SMs; of those without a block nothing is said here. A counter is read in a pass of its
    # own, and from pass to pass the same launch differs by some per cent: what is bounded by another is held to it.
    used = launch.used_sms / launch.sms
    longest = min(longest, elapsed)
    mean = min(mean / used, longest)
    with_warps = min(with_warps / used, mean)
    return Account(
        launch=1 - longest / elapsed,
        uneven=(longest - mean) / elapsed,
        empty=(mean - with_warps) / elapsed,
        waiting=with_warps / elapsed * (1 - issue / 100),
        issuing=with_warps / elapsed * issue / 100,
        reasons=_reasons(profile),
    )


def _reasons(profile: Profile) -> dict[str, float]:
    found = {reason: cycles for reason, cycles in stalls(profile).items() if reason not in _READY}
    total = sum(found.values())
    return {reason: cycles / total for reason, cycles in found.items()}
