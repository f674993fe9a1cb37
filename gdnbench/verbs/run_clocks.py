"""A run's further clocks beside NVBench; and its rows and document for `--csv` and `--json`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Clock, Role
from gdnbench.model.workload import Workload
from gdnbench.render.table import Block, Column, Table
from gdnbench.render.units import number, plus_minus, time_text
from gdnbench.store.info import RunInfo, info_document
from gdnbench.store.measurements import measurement_row
from gdnbench.store.tables import BuildRow, build_row
from gdnbench.verbs.measured_columns import ratio_text
from gdnbench.verbs.run_notes import baseline_name, failure_lines, name_cell, row_notes

if TYPE_CHECKING:
    from gdnbench.analyse.suite import SuiteResult, SuiteRow

Clocks = Mapping[Clock, Sequence[Measurement]]
"""Measurements by clocks other than the run's own timer."""

_TITLES: dict[Clock, str] = {"cupti": "CUPTI", "graph": "graph", "events": "events"}

LEGEND = (
    "NVBench: event to event, launch included. CUPTI: first block's start to last",
    "block's end. graph: a launch's share of a replay, no host. events: a call's",
    "share of 100 in a row, warm L2, host included. gap: NVBench - CUPTI; launch:",
    "the empty floor's gap; rest: what is left of it. host: time to enqueue.",
)


@dataclass(frozen=True, kw_only=True)
class ClockGap:
    """What NVBench's time of a case holds besides the kernel; microseconds, NaN if unknown.

    `gap_us` is NVBench's time less CUPTI's; `launch_us` that of the empty floor, whose kernel does nothing: events,
    launch.
    """

    gap_us: float = math.nan
    launch_us: float = math.nan

    @property
    def rest_us(self) -> float:
        """The part of the gap that the launch does not explain."""
        return self.gap_us - self.launch_us

    def cells(self) -> dict[str, Any]:
        """Returns the values as columns of a row; None if unknown."""
        values = {**asdict(self), "rest_us": self.rest_us}
        return {name: None if math.isnan(value) else value for name, value in values.items()}


def gaps_of(measurements: Sequence[Measurement], clocks: Clocks) -> dict[str, ClockGap]:
    """Returns the gap of every case with a time by CUPTI, by case id; `measurements` are by the run's own timer."""
    cupti_us = {row.case.id: row.timing.time_us for row in clocks.get("cupti", ()) if row.timing}
    gaps = {
        row.case.id: (row, row.timing.time_us - cupti_us[row.case.id])
        for row in measurements
        if row.timing and row.case.id in cupti_us
    }
    launch_us: dict[Workload, float] = {}
    for row, gap_us in gaps.values():
        if row.is_empty_floor:
            launch_us[row.case.workload] = min(gap_us, launch_us.get(row.case.workload, math.inf))
    return {
        case_id: ClockGap(gap_us=gap_us, launch_us=launch_us.get(row.case.workload, math.nan))
        for case_id, (row, gap_us) in gaps.items()
    }


def contradictions(measurements: Sequence[Measurement], clocks: Clocks) -> list[tuple[Measurement, Measurement]]:
    """Returns cases faster than the baseline by one clock, slower by another: the own timer's row, and the other."""
    own = {row.case.id: row for row in measurements if row.role is Role.KERNEL and row.versus}
    pairs = [(own[row.case.id], row) for rows in clocks.values() for row in rows if row.case.id in own]
    opposite = {"faster", "slower"}
    return [pair for pair in pairs if {row.versus.verdict for row in pair if row.versus} == opposite]


def has_times(clocks: Clocks) -> bool:
    """Whether there are kernel times (CUPTI) among the times of further clocks."""
    return any(row.timing for row in clocks.get("cupti", ()))


def clock_blocks(info: RunInfo, measurements: Sequence[Measurement], clocks: Clocks) -> Iterator[Block]:
    """Yields one workload's cases by the own timer and further clocks, fastest first; nothing without further ones."""
    timed = [row for row in measurements if row.timing and row.role is not Role.CONTROL]
    if not any(clocks.values()) or not timed:
        return
    timed.sort(key=lambda row: row.timing.time_us if row.timing else math.inf)
    gaps = gaps_of(measurements, clocks)
    yield ""
    yield Table(tuple(_columns(info, clocks, gaps)), timed, gap=1)
    if gaps and not any(row.is_empty_floor and row.case.id in gaps for row in timed):
        yield Text("no split of the gap: the empty floor is not in this run", style="yellow")
    yield from (Text(_contradiction(*pair), style="yellow") for pair in contradictions(timed, clocks))
    yield from _warnings(clocks)


def _columns(info: RunInfo, clocks: Clocks, gaps: Mapping[str, ClockGap]) -> Iterator[Column[Measurement]]:
    """Yields the columns, without NVBench's intervals, which the table above has."""

    def column(heading: str, show: Callable[[Measurement], str], drop: int = 0) -> Column[Measurement]:
        return Column("", show, heading, drop=drop, right=True)

    compares = "processes" in info.settings and any(row.versus for rows in clocks.values() for row in rows)
    yield Column("", name_cell, "µs", fold=True)
    yield column("NVBench", lambda row: time_text(row.timing.time_us) if row.timing else "")
    for clock, rows in clocks.items():
        by_id = {row.case.id: row for row in rows}
        yield column(_TITLES[clock], partial(_clock_time, by_id))
        if compares:
            yield column(f"vs {baseline_name(info)}", partial(_versus, by_id))
    if gaps:
        yield column("gap", lambda row: number(_gap(gaps, row).gap_us, ".2f"), drop=1)
        yield column("launch", lambda row: number(_gap(gaps, row).launch_us, ".2f"), drop=2)
        yield column("rest", lambda row: number(_gap(gaps, row).rest_us, ".2f"), drop=3)
    yield column("host", lambda row: number(row.timing.cpu_time_us, ".1f") if row.timing else "", drop=4)


def _gap(gaps: Mapping[str, ClockGap], row: Measurement) -> ClockGap:
    return gaps.get(row.case.id, ClockGap())


def _clock_time(by_id: Mapping[str, Measurement], row: Measurement) -> str:
    timing = by_id[row.case.id].timing if row.case.id in by_id else None
    return time_text(timing.time_us) + plus_minus(timing.relative_half_width) if timing else ""


def _versus(by_id: Mapping[str, Measurement], row: Measurement) -> str:
    other = by_id.get(row.case.id)
    return ratio_text(other) if other else ""


def _contradiction(own: Measurement, other: Measurement) -> str:
    assert own.versus
    assert other.versus
    title = _TITLES[other.clock] if other.clock else "NVBench"
    first, second = own.versus.verdict.upper(), other.versus.verdict.upper()
    return f"{own.case.label} is {first} by NVBench and {second} by {title} ({other.versus.speedup:.3f}x)"


def _warnings(clocks: Clocks) -> Iterator[Block]:
    """Yields the warnings of further clocks, and why times are missing."""
    for clock, rows in clocks.items():
        shown = [row for row in rows if row.role is not Role.CONTROL]
        yield from row_notes(shown, lambda row: row.warnings, f" by {_TITLES[clock]}")
        yield from failure_lines([row for row in rows if row.timing is None], f"{_TITLES[clock]} ")


def run_document(
    info: RunInfo,
    measurements: Sequence[Measurement],
    clocks: Clocks,
    builds: Sequence[BuildRow],
    result: SuiteResult | None,
) -> dict[str, Any]:
    """Returns a run as one document; `measurements` are by its own timer, `clocks` by further clocks."""
    rows = flat_rows(info, measurements, clocks)
    document: dict[str, Any] = {
        "run": info_document(info),
        "measurements": rows,
        "builds": [build_row(info, build) for build in builds],
    }
    if result:
        document["suite"] = {
            "name": result.suite.name,
            "workloads": [
                {**workload.cells, "weight": weight, **({"name": workload.name} if workload.name else {})}
                for workload, weight in result.suite.weights.items()
            ],
            "left_out": [workload.cells for workload in result.left_out],
            "over": list(result.over),
            "profiles": list(result.profiles),
            "kernels": suite_rows(result),
            "incomplete": list(result.incomplete),
        }
    return document


def flat_rows(info: RunInfo, measurements: Sequence[Measurement], clocks: Clocks) -> list[dict[str, Any]]:
    """Returns a row per case and clock; with several clocks, the rows of the run's own timer hold the gaps."""
    gaps = gaps_of(measurements, clocks)
    own = [
        {**measurement_row(info, row), **(gaps.get(row.case.id, ClockGap()).cells() if clocks else {})}
        for row in measurements
    ]
    return [*own, *(measurement_row(info, row) for rows in clocks.values() for row in rows)]


def suite_rows(result: SuiteResult) -> list[dict[str, Any]]:
    """Returns a row per kernel of a suite."""
    return [_suite_row(row, result) for row in result.rows]


def _suite_row(row: SuiteRow, result: SuiteResult) -> dict[str, Any]:
    versus = row.comparison
    return {
        "suite": result.suite.name,
        "label": row.label,
        "role": row.role.value,
        "time_us": row.time_us,
        "over": ",".join(result.over),
        "speedup": versus.speedup.estimate if versus else None,
        "speedup_lo": versus.speedup.low if versus else None,
        "speedup_hi": versus.speedup.high if versus else None,
        "verdict": versus.verdict.value if versus else "",
        "workloads": result.summed,
        "slower_at": row.slower_at(result.margin) if versus else None,
        "worst_speedup": row.speedups[row.worst] if row.worst else None,
        "worst_workload": str(row.worst or ""),
        "profile": row.profile,
        "depends_on_inputs": row.inputs.depends if row.inputs else None,
    }
