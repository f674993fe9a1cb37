"""Which kernels of a run are close, so that further processes may change what the run says of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from gdnbench.analyse.analysis import own_sds_of, times_by_workload
from gdnbench.analyse.rounds import Collected, RoundTimes, WorkloadTimes
from gdnbench.model.case import Case
from gdnbench.model.op import Op
from gdnbench.model.status import Role, Timer
from gdnbench.stats.interval import half_width_of, log_margin
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.store.journal import Examined
from gdnbench.store.settings import Settings, confidence_of_look

CLEAR = 2.0
"""Half-widths of the corrected interval between a clear ratio and the margin.

With fewer, noise would decide which cases are left out, and so which intervals are printed.
"""


def find_close(
    op: Op,
    cases: Sequence[Case],
    timed: Mapping[Timer, Collected],
    checked: Mapping[str, Examined],
    settings: Settings,
    apart: Collection[str],
) -> set[str]:
    """Ids of the kernels that are not clear of the baseline and of the fastest kernel by one of the timers.

    The confidence is that of one of as many interim analyses as there are processes.
    """
    confidence = confidence_of_look(settings.confidence, settings.processes)
    own_sds = own_sds_of(op, cases, checked)
    found: set[str] = set()
    for timer, collected in timed.items():
        rounds = RoundTimes(collected, confidence, settings.trim, apart)
        measured = [case for case in cases if case.id in rounds.times]
        floors = {case.id for case in measured if case.role is Role.FLOOR}
        found |= {case.id for case in cases if case.role is Role.KERNEL and case.id not in rounds.times}
        for workload, at in times_by_workload(rounds, measured, floors, timer, own_sds).items():
            here = [case for case in measured if case.workload == workload]
            found |= _close_at(here, at, settings.margin, confidence)
    return found


def _close_at(measured: Sequence[Case], at: WorkloadTimes, margin: float, confidence: float) -> set[str]:
    kernels = [case for case in measured if case.role is Role.KERNEL]
    baselines = [case for case in measured if case.role is Role.BASELINE]
    times = {case.id: at.interval(case.id) for case in (*kernels, *baselines)}
    if not kernels:
        return set()
    fastest = min(times.values(), key=lambda time: time.estimate)
    contenders = {id_ for id_, time in times.items() if not time.low > fastest.high * (1.0 + margin)}

    def is_clear(case: Case) -> bool:
        of_case = (at.paired(case.id, each.id) for each in baselines if at.has_beside(case.id, each.id))
        return all(_is_clear(ratio, margin, confidence) for ratio in of_case)

    return {case.id for case in kernels if case.id in contenders or not is_clear(case)}


def _is_clear(ratio: PairedLogRatio, margin: float, confidence: float) -> bool:
    half_width = half_width_of(ratio.variance, confidence)
    return math.isfinite(half_width) and abs(ratio.mean) - log_margin(margin) > CLEAR * half_width
