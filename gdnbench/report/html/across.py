"""The same kernels on different GPUs: side by side, with what that does and does not say."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.model import Measurement, Role, Shape
from gdnbench.report.html.charts.gpus import gpus_chart
from gdnbench.report.html.content import Cell, Column, Part, Row, Section, Table
from gdnbench.report.html.numbers import share_cell, time_cell
from gdnbench.report.html.slug import shape_slug
from gdnbench.report.html.stored import Stored, timed

_CAUTION = (
    "Each GPU was measured in a process of its own, so nothing here is paired: read times and shares of the floor, "
    "not differences of a percent."
)


def across_section(runs: Sequence[Stored]) -> Section | None:
    """A part for each shape that two GPUs or more were measured at; None if all runs are of one GPU."""
    compared = [run for run in runs if not run.sweep and run.on_gpu]
    if len({run.info.gpu for run in compared}) < 2:
        return None
    shapes = sorted({shape for run in compared for shape in run.shapes})
    parts = tuple(part for shape in shapes if (part := _part(compared, shape)))
    return Section(id="gpus", title="Across GPUs", lead=_CAUTION, parts=parts) if parts else None


def _part(runs: Sequence[Stored], shape: Shape) -> Part | None:
    columns = [(_name(run, runs), rows) for run in runs if (rows := timed(run.at(shape)))]
    if len(columns) < 2:
        return None
    name = f"gpus-{shape_slug(shape)}"
    return Part(
        id=name,
        title=str(shape),
        charts=(gpus_chart(columns, name=f"{name}-chart", where=str(shape)),),
        table=_table(columns, f"{name}-table", str(shape)),
    )


def _name(run: Stored, runs: Sequence[Stored]) -> str:
    """The GPU; with the run's id, where two runs are of the same."""
    alone = sum(other.info.gpu == run.info.gpu for other in runs) == 1
    return run.info.gpu if alone else f"{run.info.gpu} {run.info.run_id[:15]}"


def _table(columns: Sequence[tuple[str, Sequence[Measurement]]], name: str, where: str) -> Table:
    labels = dict.fromkeys(row.case.label for _, rows in columns for row in rows)
    by_label = [{row.case.label: row for row in rows} for _, rows in columns]
    headings = [
        heading
        for run, _ in columns
        for heading in (Column(heading=f"{run} µs"), Column(heading=f"{run} SOL", title="share of that GPU's floor"))
    ]
    return Table(
        id=name,
        caption=f"{where}: each kernel on each GPU",
        columns=(Column(heading="kernel", numeric=False), *headings),
        rows=tuple(_row(label, [rows.get(label) for rows in by_label]) for label in labels),
    )


def _row(label: str, found: Sequence[Measurement | None]) -> Row:
    cells = [cell for row in found for cell in _cells(row)]
    role = next(row.role for row in found if row)
    kind = role.value if role in {Role.FLOOR, Role.BASELINE} else ""
    return Row(cells=(Cell(text=label, sort=label), *cells), kind=kind)


def _cells(row: Measurement | None) -> tuple[Cell, Cell]:
    timing = row.timing if row else None
    if row is None or timing is None:
        return Cell(text=""), Cell(text="")
    sol = Cell(text="") if row.role is Role.FLOOR else share_cell(timing.sol)
    return time_cell(timing.time_us, timing.time_lo_us, timing.time_hi_us), sol
