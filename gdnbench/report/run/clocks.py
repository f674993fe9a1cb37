"""Prints a run's further clocks beside NVBench, and its largest errors; and gives its rows for `--json` and `--csv`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.analyse.suite import SuiteResult, SuiteRow
from gdnbench.model.measurement import LONG_TAIL, Measurement
from gdnbench.model.status import Clock, Role
from gdnbench.model.workload import Workload
from gdnbench.render.console import FittedTable, data_console, fits, plain_table
from gdnbench.render.units import number, plus_minus, time_text
from gdnbench.report.run.text import baseline_name, failure_lines, name_cell, speedup_text
from gdnbench.store.builds import BuildRow, build_row
from gdnbench.store.info import RunInfo, info_document
from gdnbench.store.measurements import measurement_row
from gdnbench.store.schema import LargestErrorDocument

Clocks = Mapping[Clock, Sequence[Measurement]]
"""Measurements by clocks other than the run's own timer."""

_TITLES: dict[Clock, str] = {"cupti": "CUPTI", "graph": "graph"}

LEGEND = (
    "NVBench: event to event, launch included. CUPTI: first block's start to last",
    "block's end. graph: a launch's share of a replay, no host. gap: NVBench - CUPTI;",
    "launch: the empty floor's gap; rest: what is left of it. host: time to enqueue.",
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
    found = {
        row.case.id: (row, row.timing.time_us - cupti_us[row.case.id])
        for row in measurements
        if row.timing and row.case.id in cupti_us
    }
    launch_us: dict[Workload, float] = {}
    for row, gap_us in found.values():
        if row.is_empty_floor:
            launch_us[row.case.workload] = min(gap_us, launch_us.get(row.case.workload, math.inf))
    return {
        case_id: ClockGap(gap_us=gap_us, launch_us=launch_us.get(row.case.workload, math.nan))
        for case_id, (row, gap_us) in found.items()
    }


def contradictions(measurements: Sequence[Measurement], clocks: Clocks) -> list[tuple[Measurement, Measurement]]:
    """Returns cases faster than the baseline by one clock, slower by another: the own timer's row, and the other."""
    own = {row.case.id: row for row in measurements if row.role is Role.KERNEL and row.versus}
    return [
        (own[row.case.id], row)
        for rows in clocks.values()
        for row in rows
        if row.case.id in own and _verdicts(own[row.case.id], row) == {"faster", "slower"}
    ]


def _verdicts(*rows: Measurement) -> set[str]:
    return {row.versus.verdict for row in rows if row.versus}


def print_clocks(console: Console, info: RunInfo, measurements: Sequence[Measurement], clocks: Clocks) -> None:
    """Prints one workload's cases by the own timer and further clocks, fastest first; nothing without further ones."""
    timed = [row for row in measurements if row.timing and row.role is not Role.CONTROL]
    if not any(clocks.values()) or not timed:
        return
    timed.sort(key=lambda row: row.timing.time_us if row.timing else math.inf)
    compares = "processes" in info.settings and any(row.versus for rows in clocks.values() for row in rows)
    view = _ClocksTable(timed, clocks, gaps_of(measurements, clocks), baseline_name(info), compares)
    whole = view.table(roomy=True)
    console.print()
    table = whole if fits(console, whole) else view.table(roomy=False)
    console.print(FittedTable(table, ("host", "rest", "launch", "gap")))
    if view.gaps and not any(row.is_empty_floor and row.case.id in view.gaps for row in timed):
        console.print(Text("no split of the gap: the empty floor is not in this run", style="yellow"))
    for own, other in contradictions(timed, clocks):
        console.print(Text(_contradiction(own, other), style="yellow"))
    _print_warnings(console, clocks)


@dataclass(frozen=True)
class _ClocksTable:
    rows: Sequence[Measurement]
    clocks: Clocks
    gaps: dict[str, ClockGap]
    baseline: str
    compares: bool

    def table(self, *, roomy: bool) -> Table:
        """Makes the table; unless `roomy`, without NVBench's intervals, which the table above has."""
        table = plain_table(gap=2 if roomy else 1)
        table.add_column("µs", overflow="fold")
        table.add_column("NVBench", justify="right", no_wrap=True)
        for clock in self.clocks:
            table.add_column(_TITLES[clock], justify="right", no_wrap=True)
            if self.compares:
                table.add_column(f"vs {self.baseline}", justify="right", no_wrap=True)
        for title in (*(("gap", "launch", "rest") if self.gaps else ()), "host"):
            table.add_column(title, justify="right", no_wrap=True)
        by_clock = [{row.case.id: row for row in rows} for rows in self.clocks.values()]
        for row in self.rows:
            case_id = row.case.id
            others = [cell for found in by_clock for cell in self._clock(found.get(case_id))]
            table.add_row(name_cell(row), _time(row, interval=roomy), *others, *self._gap(case_id), _host(row))
        return table

    def _clock(self, row: Measurement | None) -> list[str]:
        ratio = "1" if row and row.role is Role.BASELINE else speedup_text(row.versus) if row and row.versus else ""
        return [_time(row, interval=True), *([ratio] if self.compares else [])]

    def _gap(self, case_id: str) -> list[str]:
        if not self.gaps:
            return []
        gap = self.gaps.get(case_id, ClockGap())
        return [number(value, ".2f") for value in (gap.gap_us, gap.launch_us, gap.rest_us)]


def _time(row: Measurement | None, *, interval: bool) -> str:
    if row is None or row.timing is None:
        return ""
    return time_text(row.timing.time_us) + (plus_minus(row.timing.relative_half_width) if interval else "")


def _host(row: Measurement) -> str:
    return number(row.timing.cpu_time_us, ".1f") if row.timing else ""


def _contradiction(own: Measurement, other: Measurement) -> str:
    assert own.versus
    assert other.versus
    title = _TITLES[other.clock] if other.clock else "NVBench"
    first, second = own.versus.verdict.upper(), other.versus.verdict.upper()
    return f"{own.case.label} is {first} by NVBench and {second} by {title} ({other.versus.speedup:.3f}x)"


def _print_warnings(console: Console, clocks: Clocks) -> None:
    """Prints the warnings of further clocks, and why times are missing; long tails, often many, share one line."""
    for clock, rows in clocks.items():
        tails = []
        for row in rows:
            if row.role is Role.CONTROL:
                continue
            others = [warning for warning in row.warnings if not warning.endswith(LONG_TAIL)]
            if others:
                console.print(Text(f"  {row.case.label} by {_TITLES[clock]}: {'; '.join(others)}", style="dim"))
            if len(others) < len(row.warnings):
                tails.append(row.case.label)
        if tails:
            told = f"  a long tail by {_TITLES[clock]}, mean over 1% above: {', '.join(tails)}"
            console.print(Text(told, style="dim"))
        for line in failure_lines([row for row in rows if row.timing is None], f"{_TITLES[clock]} "):
            console.print(line)


def print_errors(info: RunInfo) -> None:
    """Prints a row per kernel with its largest error by each gate, most accurate by the first gate first.

    Errors are in the unit of the gate's limit, over all inputs and workloads on which the run verified the kernel.
    """
    console = data_console()
    console.print()
    if not info.errors:
        console.print(Text("no errors are stored with this run: those of this gdnbench have them", style="dim"))
        return
    gates = list(dict.fromkeys(gate for errors in info.errors.values() for gate in errors))
    table = plain_table()
    table.add_column("kernel", overflow="fold")
    limits = {gate: error["limit"] for errors in info.errors.values() for gate, error in errors.items()}
    for gate in gates:
        table.add_column(f"{gate}\nof {limits[gate]:.4g}", justify="right")
    kernels = sorted(info.errors.items(), key=lambda item: [_worst(item[1].get(gate)) for gate in gates])
    for label, errors in kernels:
        cells = (f"{errors[gate]['worst']:.3g}" if gate in errors else "" for gate in gates)
        table.add_row(Text(label, style="cyan"), *cells)
    console.print(Text("largest errors against the float64 oracle", style="bold"))
    console.print(table)


def _worst(error: LargestErrorDocument | None) -> float:
    return error["worst"] if error else float("inf")


def run_document(
    info: RunInfo,
    measurements: Sequence[Measurement],
    clocks: Clocks,
    builds: Sequence[BuildRow],
    result: SuiteResult | None,
) -> dict[str, Any]:
    """Returns a run as one document; `measurements` are by its own timer, `clocks` by further clocks."""
    rows = flat_rows(info, measurements, clocks)
    document = {
        "run": info_document(info),
        "measurements": rows,
        "builds": [build_row(info, build) for build in builds],
    }
    return document | ({"suite": _suite_document(result)} if result else {})


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


def _suite_document(result: SuiteResult) -> dict[str, Any]:
    return {
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
