"""The rows of joined runs by one clock: times, ratios and verdicts over the rounds of all runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gdnbench.compare.card_run import CardRun
from gdnbench.compare.pooled import PooledTimes, pool_times
from gdnbench.measuring.analyse import compare_cases, floors_of, interval_warnings, outlier_warnings, ratios_of
from gdnbench.measuring.rounds import LOW_CLOCK, WorkloadTimes
from gdnbench.model.case import Case
from gdnbench.model.measurement import Measurement, Timing
from gdnbench.model.status import Clock, Role
from gdnbench.model.workload import Workload
from gdnbench.stats.cards import CardEffects
from gdnbench.stats.estimators import median_known
from gdnbench.stats.interval import Interval


@dataclass(frozen=True)
class JointRows:
    """The rows by one clock, and the pooled times behind them."""

    rows: tuple[Measurement, ...]
    times: Mapping[Workload, PooledTimes]

    def launch_warnings(self) -> list[str]:
        """The warning that hosts differ, from the workload of the shortest times, where a launch is estimated best."""
        found = [
            (float(np.nanmin([np.nanmean(each) for each in pooled.times.values()])), pooled.effects)
            for pooled in self.times.values()
        ]
        effects = min(found, key=lambda each: each[0])[1] if found else None
        if not isinstance(effects, CardEffects) or not effects.launches_apart_us:
            return []
        return [
            f"the launches of these cards' hosts differ by up to {effects.launches_apart_us:.2f} µs: NVBench's times "
            "and ratios are those at the mean launch; compare by CUPTI's kernel time"
        ]


def analyse_joint(runs: Sequence[CardRun], shared: Sequence[str], clock: Clock | None) -> JointRows:
    """The joint rows by one clock; empty if some run lacks the clock's times of a whole workload."""
    there = [case_id for case_id in shared if all((case_id, clock) in run.rows for run in runs)]
    cases = {case_id: runs[0].rows[case_id, clock].case for case_id in there}
    settings = runs[0].info.settings
    confidence = float(settings["confidence"])
    at: dict[Workload, WorkloadTimes] = {}
    controls_at: dict[Workload, WorkloadTimes] = {}
    pooled: dict[Workload, PooledTimes] = {}
    for workload in dict.fromkeys(case.workload for case in cases.values()):
        rows = [runs[0].rows[case_id, clock] for case_id in there if cases[case_id].workload == workload]
        pooled[workload] = pool_times(
            rows, [(run.uuid, {row.case.id: run.rounds[row.case.id, clock] for row in rows}) for run in runs]
        )
        at[workload] = WorkloadTimes(pooled[workload].times, pooled[workload].effects, confidence)
        controls_at[workload] = WorkloadTimes(pooled[workload].times, pooled[workload].of_same_code, confidence)
    ratios = ratios_of(list(cases.values()), at, controls_at)
    versus = compare_cases(list(cases.values()), ratios, margin=float(settings["margin"]), confidence=confidence)
    copying = {row.case.variant.kernel for row in runs[0].rows.values() if row.role is Role.FLOOR and row.nbytes}
    floors = floors_of(list(cases.values()), copying, at)
    usual_mhz = median_known(
        np.concatenate([np.empty(0), *(mhz for each in pooled.values() for mhz in each.sm_mhz.values())])
    )
    rows = []
    for case_id, case in cases.items():
        each = [run.rows[case_id, clock] for run in runs]
        timing = _timing(each, case_id, at[case.workload], floors.get(case.workload, ""))
        low = int(np.sum(pooled[case.workload].sm_mhz[case_id] < LOW_CLOCK * usual_mhz))
        warnings = (*_row_warnings(timing, low, case, at[case.workload]), *_form_warnings(each))
        rows.append(replace(each[0], timing=timing, versus=versus.get(case_id), warnings=warnings))
    return JointRows(tuple(rows), pooled)


def _timing(rows: Sequence[Measurement], case_id: str, at: WorkloadTimes, floor_id: str) -> Timing:
    """The joint time, and what derives from it; percentiles of samples, which rounds do not give, are NaN."""
    timings = [row.timing for row in rows if row.timing]
    first, interval = timings[0], at.interval(case_id)
    samples = np.array([timing.samples for timing in timings])
    if first.bound == "flops":
        peak_us = first.sol * first.time_us
        sol = Interval(peak_us / interval.estimate, peak_us / interval.high, peak_us / interval.low)
    else:
        sol = at.ratio(case_id, floor_id) if floor_id else Interval(math.nan, -math.inf, math.inf)
    per_us = 1.0 / interval.estimate
    return Timing(
        timer=first.timer,
        samples=int(samples.sum()),
        rounds=int(np.isfinite(at.times[case_id]).sum()),
        time_us=interval.estimate,
        time_lo_us=interval.low,
        time_hi_us=interval.high,
        mean_us=float(np.average([timing.mean_us for timing in timings], weights=samples)),
        median_us=math.nan,
        min_us=min(timing.min_us for timing in timings),
        p10_us=math.nan,
        p90_us=math.nan,
        noise=math.nan,
        cpu_time_us=median_known([timing.cpu_time_us for timing in timings]),
        sm_mhz=median_known([timing.sm_mhz for timing in timings]),
        bandwidth_gbs=rows[0].nbytes * per_us / 1e3 if rows[0].nbytes else math.nan,
        tflops=first.tflops * first.time_us * per_us,
        bound=first.bound,
        sol=sol.estimate,
        sol_lo=sol.low,
        sol_hi=sol.high,
    )


def _row_warnings(timing: Timing, low_clock: int, case: Case, at: WorkloadTimes) -> tuple[str, ...]:
    warnings = []
    if low_clock:
        warnings.append(f"{low_clock} of {timing.rounds} rounds below {LOW_CLOCK:.0%} of the median clock of all cards")
    what = "cards" if isinstance(at.effects, CardEffects) else "processes"
    return (*warnings, *interval_warnings(timing), *outlier_warnings(case, at, what))


def _form_warnings(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """A floor is joined though each card has the form that is fastest there."""
    forms = dict.fromkeys(str(row.case.variant.params) for row in rows)
    return (f"its form differs between the cards: {', '.join(forms)}",) if len(forms) > 1 else ()
