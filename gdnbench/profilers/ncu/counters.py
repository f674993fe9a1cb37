"""The counters that gdnbench reads of a report, and how a quantity is made of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gdnbench.profilers.ncu.profile import Profile

STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")

CYCLES = ("sm__cycles_elapsed.max", "sm__cycles_active.max", "sm__cycles_active.avg", "smsp__cycles_active.avg")
"""Of the launch, of the busiest SM, of an SM and of a scheduler on average: where a launch's time went."""

OCCUPANCY_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
"""Blocks that an SM holds at once, by what limits them."""

LOCAL_SECTORS = "memory_l2_theoretical_sectors_local"


@dataclass(frozen=True)
class Counter:
    """One counter, the first of these names that a report holds."""

    names: tuple[str, ...]
    scale: float = 1.0

    def __call__(self, profile: Profile) -> float | None:
        """Its value; None where the report lacks it, NaN where ncu could not read it."""
        value = profile.number(*self.names)
        return None if value is None else value * self.scale


@dataclass(frozen=True)
class Sum:
    """The sum of several counters."""

    names: tuple[str, ...]

    def __call__(self, profile: Profile) -> float | None:
        """Its value; None where the report lacks one of them, NaN where ncu could not read one."""
        values = [profile.number(name) for name in self.names]
        return None if any(value is None for value in values) else sum(value for value in values if value is not None)


@dataclass(frozen=True)
class Ratio:
    """The first counter over the second."""

    names: tuple[str, str]

    def __call__(self, profile: Profile) -> float | None:
        """Its value; None where the report lacks one of them or the second is 0, NaN where ncu could not read one."""
        over, under = (profile.number(name) for name in self.names)
        return over / under if over is not None and under else None


def counter(*names: str, scale: float = 1.0) -> Counter:
    """One counter, by whichever of its names a version of ncu gives it."""
    return Counter(names, scale)
