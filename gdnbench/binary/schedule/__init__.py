"""How ptxas scheduled a kernel, read from the control codes in its encodings."""

from gdnbench.binary.schedule.milestones import Milestones, Shared, count_waits, find_milestones
from gdnbench.binary.schedule.scoreboard import Hold, Wait
from gdnbench.binary.schedule.steps import Coded, Schedule, Step, read_schedule

__all__ = [
    "Coded",
    "Hold",
    "Milestones",
    "Schedule",
    "Shared",
    "Step",
    "Wait",
    "count_waits",
    "find_milestones",
    "read_schedule",
]
