"""Turns samples into rows: intervals over rounds and processes, and every path against its kernel's first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gdnbench.analyse.rounds import Collected, RoundTimes, WorkloadTimes
from gdnbench.model.status import Status
from gdnbench.stats import FloatArray
from gdnbench.stats.interval import Interval, t_interval
from gdnbench.stats.multiple import judge_family
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.step.plan import LaunchCase, Quantity, StepCase, StepSettings
from gdnbench.store.journal import Examined
from gdnbench.store.tables import LaunchWayRow, StepRow

AGAINST_ITSELF = "itself"
TRIM = 0.25
"""Leaves the middle half: a step includes the host's time, which has interrupts in it."""
NOT_REACHED = "the run was stopped before its turn"


def analyse_steps(
    cases: Sequence[StepCase],
    collected: Collected,
    settings: StepSettings,
    verdicts: Mapping[str, Examined],
    *,
    run_id: str,
    gpu: str,
    op: str,
) -> list[StepRow]:
    """Makes a row for every case, measured or not.

    Args:
        collected: the samples, under the names of `StepCase.of`.
        verdicts: of cases that failed or are unavailable, by id.
        gpu: the GPU's short name.
    """
    rounds = RoundTimes(collected, settings.confidence, TRIM)
    groups = {each.group: _Group(cases, each.group, rounds) for each in cases}
    comparisons = _compare(cases, groups, settings)
    rows = []
    for case in cases:
        row = _bare(case, settings, run_id, gpu, op, verdicts.get(case.id))
        group = groups[case.group]
        if group.has(case, Quantity.STEP) and row.status is Status.OK:
            row = replace(row, **group.figures(case, settings.confidence), **comparisons.get(case.id, {}))
        elif row.status is Status.OK:
            row = replace(row, status=Status.NOT_RUN, reason=NOT_REACHED)
        rows.append(row)
    return rows


class _Group:
    """The cases at one workload in one condition of the L2: by each quantity, in the same rounds."""

    def __init__(self, cases: Sequence[StepCase], name: str, rounds: RoundTimes) -> None:
        self._rounds = rounds
        self.at: dict[Quantity, WorkloadTimes] = {}
        for quantity in Quantity:
            ids = [each.of(quantity) for each in cases if each.group == name and each.of(quantity) in rounds.times]
            if ids:
                self.at[quantity] = rounds.workload(ids)

    def has(self, case: StepCase, quantity: Quantity) -> bool:
        return quantity in self.at and case.of(quantity) in self.at[quantity].times

    def times(self, case: StepCase, quantity: Quantity) -> FloatArray:
        return self.at[quantity].times[case.of(quantity)]

    def figures(self, case: StepCase, confidence: float) -> dict[str, Any]:
        """The row's cells of times and differences."""
        cells: dict[str, Any] = self._rounds.counts(case.of(Quantity.STEP))
        for quantity in Quantity:
            if self.has(case, quantity):
                cells |= _cells(quantity.value, self.at[quantity].interval(case.of(quantity)))
        for name, whole, part in (
            ("gap", Quantity.QUEUED, Quantity.KERNELS),
            ("waits", Quantity.STEP, Quantity.QUEUED),
        ):
            if self.has(case, whole) and self.has(case, part):
                cells |= difference(name, self.times(case, whole), self.times(case, part), confidence)
        return cells


def difference(name: str, whole: FloatArray, part: FloatArray, confidence: float) -> dict[str, float]:
    """Cells of a difference of two quantities, with its interval over the rounds that have both."""
    both = whole - part
    both = both[np.isfinite(both)]
    return _cells(name, t_interval(both, confidence)) if both.size else {}


def _cells(name: str, interval: Interval) -> dict[str, float]:
    return {f"{name}_us": interval.estimate, f"{name}_lo_us": interval.low, f"{name}_hi_us": interval.high}


def baseline_of(
    case: StepCase, cases: Sequence[StepCase], measured: Mapping[str, object] | set[str]
) -> StepCase | None:
    """The case to compare with, or None: the same kernel by the first of its paths that was measured."""
    for each in cases:
        same = each.case == case.case and each.l2 is case.l2 and not each.is_again
        if same and each.id in measured:
            return each
    return None


def _compare(
    cases: Sequence[StepCase], groups: Mapping[str, _Group], settings: StepSettings
) -> dict[str, dict[str, Any]]:
    measured = {each.id for each in cases if groups[each.group].has(each, Quantity.STEP)}
    found: dict[str, dict[str, Any]] = {}
    ratios: dict[str, PairedLogRatio] = {}
    controls: dict[str, PairedLogRatio] = {}
    for case in cases:
        base = baseline_of(case, cases, measured)
        if case.id not in measured or base is None or base.id == case.id:
            continue
        group = groups[case.group]
        ratio = group.at[Quantity.STEP].paired(case.of(Quantity.STEP), base.of(Quantity.STEP))
        again = case.is_again and case.path is base.path
        (controls if again else ratios)[case.id] = ratio
        saved = difference(
            "saved", group.times(base, Quantity.STEP), group.times(case, Quantity.STEP), settings.confidence
        )
        found[case.id] = {"versus": AGAINST_ITSELF if again else base.path.value, **saved}
    judged = judge_family(ratios, margin=settings.margin, confidence=settings.confidence)
    judged |= {id_: judge_paired(ratio, settings.margin, settings.confidence) for id_, ratio in controls.items()}
    for id_, comparison in judged.items():
        speedup = comparison.speedup
        found[id_] |= {
            "speedup": speedup.estimate,
            "speedup_lo": speedup.low,
            "speedup_hi": speedup.high,
            "verdict": comparison.verdict.value,
        }
    return found


def _bare(case: StepCase, settings: StepSettings, run_id: str, gpu: str, op: str, verdict: Examined | None) -> StepRow:
    status, reason = (verdict.status, verdict.reason) if verdict else (Status.OK, "")
    if case.refusal:
        status, reason = Status.UNSUPPORTED, case.refusal
    variant = case.case.variant
    return StepRow(
        run_id=run_id,
        gpu=gpu,
        op=op,
        kernel=variant.kernel,
        label=variant.label,
        params=str(variant.params),
        workload=str(case.case.workload),
        path=case.path.value,
        l2=case.l2.value,
        is_again=int(case.is_again),
        layers=settings.layers,
        between_mib=settings.between_mib,
        status=status,
        reason=reason,
    )


def analyse_launches(
    cases: Sequence[LaunchCase],
    collected: Collected,
    settings: StepSettings,
    verdicts: Mapping[str, Examined],
    *,
    run_id: str,
    gpu: str,
) -> list[LaunchWayRow]:
    """Makes a row for every way, measured or not; arguments as `analyse_steps`."""
    rounds = RoundTimes(collected, settings.confidence, TRIM)
    rows = []
    for case in cases:
        verdict = verdicts.get(case.id)
        status, reason = (verdict.status, verdict.reason) if verdict else (Status.OK, "")
        cells: dict[str, Any] = {}
        for quantity in ("host", "gap"):
            id_ = f"{case.id}|{quantity}"
            if id_ in rounds.times:
                cells |= _cells(quantity, rounds.interval(id_))
                cells |= rounds.counts(id_)
        if not cells and status is Status.OK:
            status, reason = Status.NOT_RUN, NOT_REACHED
        rows.append(
            LaunchWayRow(
                run_id=run_id,
                gpu=gpu,
                way=case.way.value,
                arguments=case.arguments,
                status=status,
                reason=reason,
                **(cells if status is Status.OK else {}),
            )
        )
    return rows
