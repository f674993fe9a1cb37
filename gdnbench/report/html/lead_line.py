"""What a run is, in a line."""

from __future__ import annotations

from gdnbench.model import Role
from gdnbench.report.html.stored import Stored, timed
from gdnbench.wording import plural


def lead_line(stored: Stored) -> str:
    """What was measured, where and how."""
    info, settings = stored.info, stored.info.settings
    timer = "NVBench, cold L2" if stored.on_gpu else "warm calls on the CPU"
    rounds = f"{settings['rounds']} rounds of up to {settings['samples']} samples"
    further = ", more for the points in front" if stored.sweep else ""
    return f"{info.op} on {stored.device}: {_counts(stored)}, {timer}, {rounds}{further}"


def _counts(stored: Stored) -> str:
    if stored.sweep:
        return plural(len(stored.sweep.points), "point")
    floors = {row.case.label: row.role is Role.FLOOR for row in timed(stored.rows)}
    counts = ((len(floors) - sum(floors.values()), "kernel"), (sum(floors.values()), "floor"))
    return " and ".join(plural(count, name) for count, name in counts if count) or "nothing timed"
