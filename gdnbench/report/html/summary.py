"""The top of the page: per shape the fastest kernel, its verdict, and what qualifies it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gdnbench.compare.filter import some
from gdnbench.model import Measurement, Plateau, Role, Shape
from gdnbench.report.html.content import Cell, Column, Row, Table
from gdnbench.report.html.failures import control_cell
from gdnbench.report.html.lead import lead_of
from gdnbench.report.html.numbers import share_cell, speedup_cell, time_cell, verdict_cell
from gdnbench.report.html.stored import Stored

_COLUMNS = (
    Column(heading="shape", numeric=False, title="batch size and heads"),
    Column(heading="GPU", numeric=False),
    Column(heading="fastest", numeric=False, folds=True),
    Column(heading="time µs", title="median over rounds, and its interval"),
    Column(heading="speedup", title="baseline time / time; above 1 is faster"),
    Column(heading="verdict", numeric=False, title="against the baseline"),
    Column(heading="baseline", numeric=False),
    Column(heading="SOL", title="speed of light: time of the copying floor / time"),
    Column(heading="A/A", title="the baseline against itself: the run's noise"),
    Column(heading="run", numeric=False),
)


MOST_PEERS = 3
START = len("20260102-030405")  # of a run's id, and enough to name it


def summary_table(runs: Sequence[Stored]) -> Table:
    """A line for each run and shape."""
    rows = tuple(
        row
        for number, run in enumerate(runs, start=1)
        for row in (_sweep_rows(run, f"run-{number}") if run.sweep else _run_rows(run, f"run-{number}"))
    )
    table = Table(id="summary-table", caption="The fastest kernel of each run and shape", columns=_COLUMNS, rows=rows)
    return table if len({run.info.gpu for run in runs}) > 1 else _without(table, "GPU")


def _without(table: Table, heading: str) -> Table:
    """The table without a column that says the same in every row."""
    place = next(place for place, column in enumerate(table.columns) if column.heading == heading)
    rows = tuple(replace(row, cells=(*row.cells[:place], *row.cells[place + 1 :])) for row in table.rows)
    return replace(table, columns=(*table.columns[:place], *table.columns[place + 1 :]), rows=rows)


def _run_rows(run: Stored, link: str) -> list[Row]:
    found = []
    for shape in run.shapes:
        lead = lead_of(run.info, run.at(shape), run.rounds)
        if lead:
            tie = f"or {some(lead.peers, MOST_PEERS)}: not told apart" if lead.peers else ""
            found.append(_row(run, shape, lead.row, tie, link))
    return found


def _sweep_rows(run: Stored, link: str) -> list[Row]:
    plateaus: tuple[Plateau, ...] = run.sweep.plateaus if run.sweep else ()
    rows = {(row.case.label, row.case.shape): row for row in run.rows}
    return [
        _row(run, plateau.shape, rows[plateau.simplest, plateau.shape], _ties(len(plateau.tied) - 1), link)
        for plateau in plateaus
    ]


def _ties(others: int) -> str:
    return f"{others} other{'s tie' if others > 1 else ' ties'}" if others else ""


def _row(run: Stored, shape: Shape, row: Measurement, tie: str, link: str) -> Row:
    timing, label = row.timing, row.case.label
    verdict = row.versus.verdict if row.versus else ""
    name, _, params = label.partition(":")
    params = params.replace(":", " ")
    is_baseline = row.role is Role.BASELINE
    return Row(
        cells=(
            Cell(text=str(shape), sort=str(shape)),
            Cell(text=run.info.gpu, sort=run.info.gpu),
            Cell(text=name, aside="; ".join(filter(None, [params, tie])), sort=label),
            time_cell(timing.time_us, timing.time_lo_us, timing.time_hi_us) if timing else Cell(text=""),
            Cell(text="1", sort=1.0) if is_baseline else speedup_cell(row.versus),
            Cell(text="baseline", sort="baseline", mark="role") if is_baseline else verdict_cell(verdict),
            Cell(text=run.info.baseline, sort=run.info.baseline),
            share_cell(timing.sol if timing else math.nan),
            control_cell(run.at(shape)),
            Cell(text=run.info.run_id[:START], sort=run.info.run_id, link=link),
        )
    )
