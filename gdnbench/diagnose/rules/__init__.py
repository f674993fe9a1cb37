"""The causes that `gdnbench explain` knows: one function each, which reads the evidence and makes a finding or None.

A finding's share is the share of the kernel's time that the cause explains, so that findings of all rules can be
ranked. With counters it is a part of the launch's cycles as `gdnbench.diagnose.account` divides them. Without, it is a
difference of measured times, or a bound that follows from the code, and the finding's basis says which. A value that
is not known is NaN here, and no comparison with NaN holds.
"""

from __future__ import annotations

from collections.abc import Callable

from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.finding import Finding
from gdnbench.diagnose.rules.grid import idle_sms, limited_occupancy, too_few_warps, uneven_sms
from gdnbench.diagnose.rules.instructions import compute
from gdnbench.diagnose.rules.launches import launch_bound, many_launches
from gdnbench.diagnose.rules.memory import bandwidth, bank_conflicts, narrow_loads, spilling, uncoalesced
from gdnbench.diagnose.rules.waiting import barriers, latency

Rule = Callable[[Evidence], Finding | None]

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
