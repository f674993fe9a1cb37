"""The columns of a run's table: one a line, with what it means and how a row fills it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gdnbench.model import Measurement, Role
from gdnbench.report.html.content import Cell, Column, Row, Table
from gdnbench.report.html.numbers import count_cell, share_cell, speedup_cell, time_cell, verdict_cell, whole_cell
from gdnbench.store import RunInfo

Fill = Callable[[Measurement], Cell]


def run_table(info: RunInfo, rows: Sequence[Measurement], *, name: str, where: str) -> Table:
    """The table of one shape; columns that no row fills are left out."""
    every = [(column, [fill(row) for row in rows]) for column, fill in _columns(info)]
    filled = [(column, cells) for column, cells in every if any(cell.text for cell in cells)]
    return Table(
        id=name,
        caption=f"{where}, fastest first",
        columns=tuple(column for column, _ in filled),
        rows=tuple(
            Row(cells=tuple(cells[place] for _, cells in filled), kind=_kind(row)) for place, row in enumerate(rows)
        ),
    )


def _columns(info: RunInfo) -> list[tuple[Column, Fill]]:
    baseline = info.baseline.removeprefix(f"{info.op}-")
    return [
        (Column(heading="kernel", numeric=False), _name),
        (
            Column(heading="time µs" if info.on_gpu else "CPU time µs", title="median over rounds, and its interval"),
            _time,
        ),
        (Column(heading="GB/s", title="the least traffic of the op / time"), _bandwidth),
        (Column(heading="SOL", title="speed of light: time of the copying floor / time"), _sol),
        (Column(heading=f"vs {baseline}", title="baseline time / time; above 1 is faster"), _speedup),
        (Column(heading="verdict", numeric=False, title="against the baseline"), _verdict),
        (Column(heading="regs", title="registers a thread"), lambda row: count_cell(row.registers)),
        (Column(heading="spill B", title="bytes a thread that do not fit registers"), _spills),
        (Column(heading="smem B", title="static shared memory a block, bytes"), _shared),
        (Column(heading="launches", title="kernels that one call launches"), _launches),
        (Column(heading="MHz", title="median SM clock during the samples"), _clock),
        (Column(heading="notes", numeric=False, folds=True), _notes),
    ]


def _kind(row: Measurement) -> str:
    return row.role.value if row.role in {Role.FLOOR, Role.BASELINE} else ""


def _name(row: Measurement) -> Cell:
    return Cell(text=row.case.label, sort=row.case.label)


def _time(row: Measurement) -> Cell:
    timing = row.timing
    return time_cell(timing.time_us, timing.time_lo_us, timing.time_hi_us) if timing else Cell(text="")


def _bandwidth(row: Measurement) -> Cell:
    return whole_cell(row.timing.bandwidth_gbs if row.timing else math.nan)


def _sol(row: Measurement) -> Cell:
    return share_cell(row.timing.sol if row.timing and row.role is not Role.FLOOR else math.nan)


def _speedup(row: Measurement) -> Cell:
    return Cell(text="1", sort=1.0) if row.role is Role.BASELINE else speedup_cell(row.versus)


def _verdict(row: Measurement) -> Cell:
    if row.role in {Role.BASELINE, Role.FLOOR}:
        return Cell(text=row.role.value, sort=row.role.value, mark="role")
    return verdict_cell(row.versus.verdict) if row.versus else Cell(text="")


def _spills(row: Measurement) -> Cell:
    return count_cell(row.spill_bytes)


def _shared(row: Measurement) -> Cell:
    return count_cell(row.shared_bytes)


def _launches(row: Measurement) -> Cell:
    return count_cell(row.launches or -1)


def _clock(row: Measurement) -> Cell:
    return whole_cell(row.timing.sm_mhz if row.timing else math.nan)


def _notes(row: Measurement) -> Cell:
    notes = [row.case.variant.in_full] if row.case.variant.is_picked else []
    notes += row.warnings
    if row.versus and row.versus.verdict == "unclear":
        more = row.versus.more_rounds
        notes.append(f"{more} more rounds would settle it" if more else "more rounds would not settle it")
    return Cell(text="; ".join(notes))
