"""Finds impossible times: a kernel faster than its work allows has not done it on each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdnbench.analyse.rounds import LeastWork, WorkloadTimes
from gdnbench.model.case import Case
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US

BEYOND = 0.05
"""Relative time by which a kernel may beat the fastest copying floor, since it may move bytes better than any floor."""


def implausible(
    measured: Sequence[Case],
    costs: Mapping[str, LeastWork],
    floors: Mapping[Workload, str],
    at: Mapping[Workload, WorkloadTimes],
) -> dict[str, str]:
    """Returns, by case id, why a case cannot have done its work: its whole interval is below a lower limit.

    The limits are the fastest copying floor (`floors`) less `BEYOND`, an empty launch if one was timed, and the
    operations at the GPU's rated peak. Floors are compared by rounds, in which both have the same launch. An empty
    launch plus the bytes at the rated bandwidth is not a limit: much of a launch overlaps the transfer, and written
    data may stay in L2. Honest kernels at 17 to 270 MB read 0.87 of it on H200s.
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
"""Standard deviations between processes above which a floor's or baseline's time counts as changed."""
LEAST_OWN_SD = 0.004
"""Least relative SD of a case between processes, for the effect of rounds and their number."""


def bridge_warning(at: WorkloadTimes, own_sds: Mapping[str, float]) -> str:
    """Returns why the cases timed in separate processes are not compared, if shared cases differ there; else empty."""
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
    """Cases whose time with launch is below their kernel time, which is impossible, with the reason by case id.

    `rows` are NVBench's times, event to event; `kernel_times` CUPTI's, first block's start to last block's end.
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
