"""Times that cannot be: a kernel that reads faster than its work can be done has not done it each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdnbench.measuring.rounds import LeastWork, WorkloadTimes
from gdnbench.model.case import Case
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US

BEYOND = 0.05
"""By how much a kernel may beat the fastest copying floor: one may move the bytes better than any floor does."""


def implausible(
    measured: Sequence[Case],
    costs: Mapping[str, LeastWork],
    floors: Mapping[Workload, str],
    at: Mapping[Workload, WorkloadTimes],
) -> dict[str, str]:
    """Why a case cannot have done its work, by case id: its whole interval is below what the work takes at least.

    Work takes at least as long as the fastest copying floor, less `BEYOND`, as an empty launch, where one was timed,
    and as the operations at the GPU's rated peak. Floors are compared by rounds, in which both have the same launch. An
    empty launch plus the bytes at the rated bandwidth is no such limit: much of a launch passes while bytes move, and
    what is written may stay in the L2. Honest kernels at 17 to 270 MB read 0.87 of it on H200s.

    Args:
        measured: the cases that have times.
        costs: what each must move and compute.
        floors: the fastest copying floor's case id by workload.
        at: the times of each workload.
    """
    empty = {case.workload: case.id for case in measured if case.role is Role.FLOOR and not costs[case.id].nbytes}
    found = {}
    for case in measured:
        if not case.role.does_the_work:
            continue
        here, cost = at[case.workload], costs[case.id]
        interval = here.interval(case.id)
        floor, nothing = floors.get(case.workload), empty.get(case.workload)
        reasons = []
        if interval.high < cost.peak_us:
            reasons.append((cost.peak_us, "its operations take at the GPU's peak"))
        if floor and here.ratio(case.id, floor).low * (1 - BEYOND) > 1:
            copy_us = here.interval(floor).estimate
            what = f"the fastest copy of its bytes takes, {copy_us:.3f} µs, less {BEYOND:.0%}"
            reasons.append((copy_us * (1 - BEYOND), what))
        if nothing and here.ratio(case.id, nothing).low > 1:
            reasons.append((here.interval(nothing).estimate, "an empty launch takes"))
        if reasons:
            limit_us, what = max(reasons)
            less = f"{interval.estimate:.3f} µs is less than {what}: {limit_us:.3f} µs"
            found[case.id] = f"{less}; it cannot have done all of its work each time"
    return found


SIGMAS = 6.0
"""By how many standard deviations a floor or baseline may differ between processes, before something has changed it."""
LEAST_OWN_SD = 0.004
"""Of a case between processes, relative: what rounds and their number add to what a process does."""


def bridge_warning(at: WorkloadTimes, own_sds: Mapping[str, float]) -> str:
    """Why nothing is said of the cases timed apart: what was timed in both kinds of processes differs; else empty.

    Args:
        at: the times of a workload.
        own_sds: what a process adds to each case, relative.
    """
    for case_id, (here_us, there_us) in at.bridged_apart.items():
        own_us = max(own_sds.get(case_id, 0.0), LEAST_OWN_SD) * here_us
        if abs(there_us - here_us) > SIGMAS * (USUAL_LAUNCH_SD_US**2 + own_us**2) ** 0.5:
            name = case_id.partition("/")[0]
            return (
                f"{name} takes {there_us:.3f} µs in the processes of kernels that run Python of their own, and "
                f"{here_us:.3f} µs in the others: something there changes times, so nothing is compared"
            )
    return ""


def contradictions(rows: Sequence[Measurement], kernel_times: Sequence[Measurement]) -> dict[str, str]:
    """The cases whose time with its launch is below the kernel's own, which cannot be, with the reason by case id.

    Args:
        rows: by NVBench, event to event.
        kernel_times: by CUPTI, first block's start to last block's end.
    """
    own = {row.case.id: row.timing for row in kernel_times if row.timing}
    found = {}
    for row in rows:
        if row.timing and (kernel := own.get(row.case.id)) and row.timing.time_hi_us < kernel.time_lo_us:
            stream_us, kernel_us = row.timing.time_us, kernel.time_us
            found[row.case.id] = (
                f"NVBench reads {stream_us:.3f} µs, launch included, and CUPTI {kernel_us:.3f} µs without it: one of "
                "the two was interfered with"
            )
    return found
