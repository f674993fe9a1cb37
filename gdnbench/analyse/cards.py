"""Joins stored runs of several cards of one GPU model into one result, with the card as a random effect.

A card is known by its UUID; with a single one, intervals are over its processes, as those of a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from gdnbench.analyse import analysis, card_run
from gdnbench.analyse.rounds import LOW_CLOCK, WorkloadTimes
from gdnbench.errors import UsageError
from gdnbench.model.case import Case
from gdnbench.model.measurement import Measurement, Timing
from gdnbench.model.status import Clock, Role
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray
from gdnbench.stats.card_effects import UNKNOWN_DEVIATION, CardEffects, Deviation, Stray, common_deviations, find_strays
from gdnbench.stats.estimators import median_known
from gdnbench.stats.interval import Interval
from gdnbench.stats.processes import process_means
from gdnbench.store.info import RunInfo


@dataclass(frozen=True)
class JointRows:
    """The rows by one clock, and the pooled times behind them."""

    rows: tuple[Measurement, ...]
    times: Mapping[Workload, card_run.PooledTimes]

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


def analyse_joint(runs: Sequence[card_run.CardRun], shared: Sequence[str], clock: Clock | None) -> JointRows:
    """The joint rows by one clock; empty if some run lacks the clock's times of a whole workload."""
    there = [case_id for case_id in shared if all((case_id, clock) in run.rows for run in runs)]
    cases = {case_id: runs[0].rows[case_id, clock].case for case_id in there}
    settings = runs[0].info.settings
    confidence = float(settings["confidence"])
    at: dict[Workload, WorkloadTimes] = {}
    controls_at: dict[Workload, WorkloadTimes] = {}
    pooled: dict[Workload, card_run.PooledTimes] = {}
    for workload in dict.fromkeys(case.workload for case in cases.values()):
        rows = [runs[0].rows[case_id, clock] for case_id in there if cases[case_id].workload == workload]
        pooled[workload] = card_run.pool_times(
            rows, [(run.uuid, {row.case.id: run.rounds[row.case.id, clock] for row in rows}) for run in runs]
        )
        at[workload] = WorkloadTimes(pooled[workload].times, pooled[workload].effects, confidence)
        controls_at[workload] = WorkloadTimes(pooled[workload].times, pooled[workload].of_same_code, confidence)
    ratios = analysis.ratios_of(list(cases.values()), at, controls_at)
    versus = analysis.compare_cases(
        list(cases.values()), ratios, margin=float(settings["margin"]), confidence=confidence
    )
    copying = {row.case.variant.kernel for row in runs[0].rows.values() if row.role is Role.FLOOR and row.nbytes}
    floors = analysis.floors_of(list(cases.values()), copying, at)
    usual_mhz = median_known(
        np.concatenate([np.empty(0), *(mhz for each in pooled.values() for mhz in each.sm_mhz.values())])
    )
    rows = []
    for case_id, case in cases.items():
        each = [run.rows[case_id, clock] for run in runs]
        timing = _timing(each, case_id, at[case.workload], floors.get(case.workload, ""))
        low = int(np.sum(pooled[case.workload].sm_mhz[case_id] < LOW_CLOCK * usual_mhz))
        forms = dict.fromkeys(str(row.case.variant.params) for row in each)  # each card's floor has its fastest form
        warnings = _row_warnings(timing, low, case, at[case.workload])
        warnings += (f"its form differs between the cards: {', '.join(forms)}",) if len(forms) > 1 else ()
        rows.append(replace(each[0], timing=timing, versus=versus.get(case_id), warnings=warnings))
    return JointRows(tuple(rows), pooled)


def _timing(rows: Sequence[Measurement], case_id: str, at: WorkloadTimes, floor_id: str) -> Timing:
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
    return (*warnings, *analysis.interval_warnings(timing), *analysis.outlier_warnings(case, at, what))


@dataclass(frozen=True, kw_only=True)
class Card:
    """A card and its measurements; `processes` and `rounds` are counted by the runs' own timer."""

    uuid: str
    index: int  # its number on its host, as `nvidia-smi` counts; -1 if unknown
    host: str
    runs: tuple[str, ...]
    processes: int
    rounds: int
    sm_mhz: float  # the median of its rounds; NaN where it was not measured
    deviation: Deviation = UNKNOWN_DEVIATION  # relative, of its times from those of the mean card

    @property
    def name(self) -> str:
        """`GPU 0 (GPU-98d9fc7e)`."""
        start = self.uuid[:12]
        return f"GPU {self.index} ({start})" if self.index >= 0 else start


@dataclass(frozen=True, kw_only=True)
class Joint:
    """The joint result of several runs: a row per case that all have, by their own timer, without percentiles."""

    runs: tuple[card_run.CardRun, ...]
    cards: tuple[Card, ...]
    measurements: tuple[Measurement, ...]
    times: Mapping[Workload, card_run.PooledTimes]  # by their own timer
    failed: tuple[Measurement, ...]  # cases without a time in some run, with the first reason and the card, if one
    clocks: Mapping[Clock, tuple[Measurement, ...]]
    strays: tuple[Stray, ...]
    warnings: tuple[str, ...]
    left_out: Mapping[str, tuple[str, ...]]  # labels of cases that are not joined, by the reason

    @property
    def info(self) -> RunInfo:
        """The first run's description; op, GPU model, baseline and settings are those of all."""
        return self.runs[0].info

    @cached_property
    def by_card(self) -> Mapping[str, Joint]:
        """The result of each card alone, by UUID, with intervals over its processes; empty if there is one card."""
        if len(self.cards) < 2:
            return {}
        return {card.uuid: _join([run for run in self.runs if run.uuid == card.uuid]) for card in self.cards}


def join_runs(folders: Sequence[Path]) -> Joint:
    """Joins runs of one op and GPU model that share a case, or UsageError; of copies of a run the first counts."""
    by_id: dict[tuple[str, str], card_run.CardRun] = {}
    for run in map(card_run.read_card_run, folders):
        by_id.setdefault((run.info.run_id, run.uuid), run)  # two hosts may begin runs in one second
    runs = list(by_id.values())
    for run in runs:
        card_run.check_joinable(run)
    for run in runs[1:]:
        card_run.check_alike(runs[0], run)
    return _join(runs)


def _join(runs: Sequence[card_run.CardRun]) -> Joint:
    shared, left_out = card_run.shared_cases(runs)
    if not shared:
        reasons = "; ".join(left_out) or "they have no times"
        raise UsageError(f"no case can be joined: {reasons}", "join runs that share kernels and workloads")
    clocks: list[Clock | None] = [None, *dict.fromkeys(clock for _, clock in runs[0].rows if clock)]
    analysed = {clock: analyse_joint(runs, shared, clock) for clock in clocks}
    by_clock = {clock: each for clock, each in analysed.items() if clock and each.rows}
    own = analysed[None]
    uuids, kernel_times = list(dict.fromkeys(run.uuid for run in runs)), by_clock.get("cupti")
    deviations = _deviations(kernel_times or own, uuids, has_launch=kernel_times is None)
    cards = [
        _card([run for run in runs if run.uuid == uuid], deviation)
        for uuid, deviation in zip(uuids, deviations, strict=True)
    ]
    # Of the runs' own warnings, those of the baseline are made anew for all of them together.
    own_warnings = dict.fromkeys(warning for run in runs for warning in run.info.warnings)
    warnings = [warning for warning in own_warnings if "other processes are on the GPU" in warning]
    warnings += [*card_run.differing_conditions(runs), *analysis.run_warnings(own.rows)]
    warnings += [
        f"{clock}: {warning}" for clock, each in by_clock.items() for warning in analysis.run_warnings(each.rows)
    ]
    return Joint(
        runs=tuple(runs),
        cards=tuple(cards),
        measurements=own.rows,
        times=own.times,
        failed=tuple(_failed(runs, cards)),
        clocks={clock: each.rows for clock, each in by_clock.items()},
        strays=tuple(find_strays([card.deviation for card in cards])),
        warnings=(*warnings, *own.launch_warnings()),
        left_out=left_out,
    )


def _failed(runs: Sequence[card_run.CardRun], cards: Sequence[Card]) -> Iterator[Measurement]:
    names = {card.uuid: card.name for card in cards}
    for case_id in dict.fromkeys(case_id for run in runs for case_id in run.failed):
        failing = [run for run in runs if case_id in run.failed]
        row = failing[0].failed[case_id]
        where = ", ".join(dict.fromkeys(names[run.uuid] for run in failing))
        yield row if len(failing) == len(runs) else replace(row, reason=f"on {where}: {row.reason}")


def _card(runs: Sequence[card_run.CardRun], deviation: Deviation) -> Card:
    machine = runs[0].info.machine
    own = [each for run in runs for (_, clock), each in run.rounds.items() if clock is None]
    clocks = [mhz for each in own if each.sm_mhz is not None for mhz in each.sm_mhz.tolist()]
    spans = [_span(run) for run in runs]
    return Card(
        uuid=runs[0].uuid,
        index=int((machine.get("gpu") or {}).get("index", -1)),
        host=str(machine.get("host", {}).get("hostname") or ""),
        runs=tuple(run.info.run_id for run in runs),
        processes=sum(processes for processes, _ in spans),
        rounds=sum(rounds for _, rounds in spans),
        sm_mhz=median_known(clocks),
        deviation=deviation,
    )


def _span(run: card_run.CardRun) -> tuple[int, int]:
    own = [each for (_, clock), each in run.rounds.items() if clock is None]
    there = [np.isfinite(each.times_us) for each in own]
    processes = [len(np.unique(each.processes[known])) for each, known in zip(own, there, strict=True)]
    return max(processes, default=0), max((int(known.sum()) for known in there), default=0)


def _deviations(analysed: JointRows, uuids: Sequence[str], *, has_launch: bool) -> list[Deviation]:
    """The deviation of each card, over all cases but empty floors and controls, which repeat the baseline."""
    if len(uuids) < 2:
        return [UNKNOWN_DEVIATION] * len(uuids)
    columns: list[FloatArray] = []
    for case in (row.case for row in analysed.rows if row.nbytes and row.role is not Role.CONTROL):
        pooled = analysed.times[case.workload]
        columns.append(process_means(pooled.times[case.id], pooled.card, len(uuids)))
    if not columns:
        return [UNKNOWN_DEVIATION] * len(uuids)
    return common_deviations(np.array(columns).T, has_launch=has_launch)
