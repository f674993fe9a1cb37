"""The clocks of a run side by side: a table a shape, a row a case, and below it what qualifies it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.model import Clock, Measurement, Role
from gdnbench.report.clocks import Clocks, Gap, contradictions, gaps_of, is_empty_floor
from gdnbench.report.console import fits
from gdnbench.report.fitted import Fitted
from gdnbench.report.run_table import name_cell, percent, print_failures, time_text

_TITLES: dict[Clock, str] = {"cupti": "CUPTI", "graph": "graph"}

LEGEND = (
    "NVBench: event to event, launch included. CUPTI: first block's start to last",
    "block's end. graph: a launch's share of a replay, no host. gap: NVBench - CUPTI;",
    "launch: the empty floor's gap; rest: what is left of it. host: time to enqueue.",
)


def print_clocks(console: Console, measurements: Sequence[Measurement], clocks: Clocks) -> None:
    """Prints the cases of one shape, fastest first; nothing where no further clock was read.

    Args:
        console: where to.
        measurements: by the run's own timer.
        clocks: by the further clocks, of the same shape.
    """
    timed = [row for row in measurements if row.timing and row.role is not Role.CONTROL]
    if not any(clocks.values()) or not timed:
        return
    timed.sort(key=lambda row: row.timing.time_us if row.timing else math.inf)
    view = _View(timed, clocks, gaps_of(measurements, clocks))
    whole = view.table(roomy=True)
    console.print()
    table = whole if fits(console, whole) else view.table(roomy=False)
    console.print(Fitted(table, ("host", "rest", "launch", "gap")))
    if view.gaps and not any(is_empty_floor(row) and row.case.id in view.gaps for row in timed):
        console.print(Text("no split of the gap: the empty floor is not in this run", style="yellow"))
    for own, other in contradictions(timed, clocks):
        console.print(Text(_contradiction(own, other), style="yellow"))
    _print_doubts(console, clocks)


@dataclass(frozen=True)
class _View:
    """What the table is made of."""

    rows: Sequence[Measurement]
    clocks: Clocks
    gaps: dict[str, Gap]

    def table(self, *, roomy: bool) -> Table:
        """The table; unless it is roomy, NVBench's intervals stand only in the table above."""
        table = Table(box=None, pad_edge=False, padding=(0, 2 if roomy else 1, 0, 0), header_style="bold")
        table.add_column("µs", overflow="fold")
        for title in ("NVBench", *(_TITLES[clock] for clock in self.clocks)):
            table.add_column(title, justify="right", no_wrap=True)
        for title in (*(("gap", "launch", "rest") if self.gaps else ()), "host"):
            table.add_column(title, justify="right", no_wrap=True)
        by_clock = [{row.case.id: row for row in rows} for rows in self.clocks.values()]
        for row in self.rows:
            case_id = row.case.id
            others = [_time(found.get(case_id), interval=True) for found in by_clock]
            table.add_row(name_cell(row), _time(row, interval=roomy), *others, *self._gap(case_id), _host(row))
        return table

    def _gap(self, case_id: str) -> list[str]:
        if not self.gaps:
            return []
        gap = self.gaps.get(case_id, Gap())
        return [_difference(value) for value in (gap.gap_us, gap.launch_us, gap.rest_us)]


def _time(row: Measurement | None, *, interval: bool) -> str:
    if row is None or row.timing is None:
        return ""
    half = f" ±{percent(row.timing.relative_half_width)}" if interval else ""
    return f"{time_text(row.timing.time_us)}{half}"


def _difference(value_us: float) -> str:
    return "" if math.isnan(value_us) else f"{value_us:.2f}"


def _host(row: Measurement) -> str:
    known = row.timing and not math.isnan(row.timing.cpu_time_us)
    return f"{row.timing.cpu_time_us:.1f}" if known and row.timing else ""


def _contradiction(own: Measurement, other: Measurement) -> str:
    assert own.versus
    assert other.versus
    title = _TITLES[other.clock] if other.clock else "NVBench"
    first, second = own.versus.verdict.upper(), other.versus.verdict.upper()
    return f"{own.case.label} is {first} by NVBench and {second} by {title} ({other.versus.speedup:.3f}x)"


def _print_doubts(console: Console, clocks: Clocks) -> None:
    """What qualifies a further clock's times, and why there are none."""
    for clock, rows in clocks.items():
        for row in rows:
            if row.warnings and row.role is not Role.CONTROL:
                told = "; ".join(row.warnings)
                console.print(Text(f"  {row.case.label} by {_TITLES[clock]}: {told}", style="dim"))
        print_failures(console, [row for row in rows if row.timing is None], f"{_TITLES[clock]} ")
