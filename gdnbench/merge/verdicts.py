"""Corrects the verdicts of merged parts for the number of comparisons in the whole run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gdnbench.compare.pooled import pool_times
from gdnbench.measuring.analyse import compare_cases, ratios_of
from gdnbench.measuring.rounds import WorkloadTimes
from gdnbench.model.measurement import Measurement, Versus
from gdnbench.model.status import Clock
from gdnbench.store.samples import CaseRounds

Rounds = Mapping[tuple[str, Clock | None], CaseRounds]


def judged_together(
    rows: Sequence[Measurement], rounds: Rounds, *, margin: float, confidence: float
) -> list[Measurement]:
    """The rows of all parts and clocks, with verdicts corrected for all comparisons of each clock.

    `rounds` are those of all parts, by case id and clock; `margin` is the relative difference that counts as none.
    """
    clocks = dict.fromkeys(row.clock for row in rows)
    versus = {
        (case_id, clock): found
        for clock in clocks
        for case_id, found in _compared(
            [row for row in rows if row.clock == clock and row.timing], rounds, margin, confidence
        )
    }
    return [replace(row, versus=versus.get((row.case.id, row.clock), row.versus)) for row in rows]


def _compared(
    rows: Sequence[Measurement], rounds: Rounds, margin: float, confidence: float
) -> Iterable[tuple[str, Versus]]:
    at = {
        workload: _times([row for row in rows if row.case.workload == workload], rounds, confidence)
        for workload in dict.fromkeys(row.case.workload for row in rows)
    }
    cases = [row.case for row in rows]
    return compare_cases(cases, ratios_of(cases, at), margin=margin, confidence=confidence).items()


def _times(rows: Sequence[Measurement], rounds: Rounds, confidence: float) -> WorkloadTimes:
    pooled = pool_times(rows, [("", {row.case.id: rounds[row.case.id, row.clock] for row in rows})])
    return WorkloadTimes(pooled.times, pooled.effects, confidence)
