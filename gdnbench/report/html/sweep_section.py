"""A sweep: its answer, a heat map for each kernel and shape, and every point."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gdnbench.model import Measurement, OneForAll, Place, Plateau, Point, Shape, Sweep
from gdnbench.report.html.charts.heat import heat_chart
from gdnbench.report.html.content import Cell, Column, Part, Row, Section, Table
from gdnbench.report.html.failures import control_cell, failures_of
from gdnbench.report.html.lead_line import lead_line
from gdnbench.report.html.numbers import GLYPHS, count_cell, time_cell
from gdnbench.report.html.slug import shape_slug
from gdnbench.report.html.stored import Stored
from gdnbench.report.run_table import percent
from gdnbench.report.sweep_view import tell, varied

_WORDS = {Place.BEST: "BEST", Place.TIED: "TIES", Place.UNCLEAR: "UNCLEAR", Place.SLOWER: "SLOWER"}

Times = Mapping[tuple[str, Shape], Measurement]


def sweep_section(stored: Stored, sweep: Sweep, prefix: str) -> Section:
    """One sweep; `prefix` begins the ids of everything in it."""
    info = stored.info
    rows = {(row.case.label, row.case.shape): row for row in stored.rows}
    tried = "; ".join(
        f"{kernel} " + " ".join(f"{name}={','.join(map(str, values))}" for name, values in axes.items())
        for kernel, axes in sweep.axes.items()
    )
    parts = tuple(
        _part(sweep, plateau, rows, f"{prefix}-{number}-{shape_slug(plateau.shape)}")
        for number, plateau in enumerate(sweep.plateaus, start=1)
    )
    return Section(
        id=prefix,
        title=info.run_id,
        lead=f"{lead_line(stored)}. Tried: {tried}.",
        badge="" if info.complete else "partial",
        warnings=tuple(info.warnings),
        scale=any(len(varied(axes)) > 1 for axes in sweep.axes.values()),
        table=_answers(stored, sweep, rows, f"{prefix}-answers"),
        lines=tuple(_one_for_all(sweep, one) for one in sweep.one_for_all),
        parts=parts,
        failures=failures_of(stored.rows, shapes=True),
    )


def _answers(stored: Stored, sweep: Sweep, rows: Times, name: str) -> Table:
    columns = (
        Column(heading="kernel", numeric=False),
        Column(heading="B"),
        Column(heading="heads", numeric=False),
        Column(heading="simplest of the best", numeric=False, title="the point to take: nearest to the defaults"),
        Column(heading="time µs", title="of that point, and its interval"),
        Column(heading="tie", title="the fastest, and the points that tie with it"),
        Column(heading="within", title="the largest difference that the ties' intervals allow"),
        Column(heading="unclear", title="points that could not be told from the fastest"),
        Column(heading="A/A", title="the baseline against itself"),
    )
    return Table(
        id=name,
        caption="The answer for each kernel and shape",
        columns=columns,
        rows=tuple(_answer(stored, sweep, plateau, rows) for plateau in sweep.plateaus),
    )


def _answer(stored: Stored, sweep: Sweep, plateau: Plateau, rows: Times) -> Row:
    params = tell(sweep.point(plateau, plateau.simplest).params, list(sweep.axes[plateau.kernel]))
    shape = plateau.shape
    return Row(
        cells=(
            Cell(text=plateau.kernel, sort=plateau.kernel),
            count_cell(shape.B),
            Cell(text=str(shape).partition(" ")[2], sort=str(shape)),
            Cell(text=params, sort=params),
            _time(rows[plateau.simplest, shape]),
            count_cell(len(plateau.tied)),
            Cell(text=percent(plateau.within), sort=plateau.within) if len(plateau.tied) > 1 else Cell(text=""),
            count_cell(len(plateau.unclear)),
            control_cell(stored.at(shape)),
        )
    )


def _time(row: Measurement) -> Cell:
    timing = row.timing
    return time_cell(timing.time_us, timing.time_lo_us, timing.time_hi_us) if timing else Cell(text="")


def _one_for_all(sweep: Sweep, one: OneForAll) -> str:
    point = next(point for point in sweep.points if (point.kernel, point.label) == (one.kernel, one.label))
    shape, worst = one.worst
    params = tell(point.params, list(sweep.axes[one.kernel]))
    return (
        f"One point for every shape: {one.kernel} {params}. It costs {percent(worst)} at {shape}, where it costs "
        f"most, and {percent(one.mean)} on average."
    )


def _part(sweep: Sweep, plateau: Plateau, rows: Times, name: str) -> Part:
    chart = heat_chart(sweep, plateau, f"{name}-chart")
    points = sweep.of(plateau)
    return Part(
        id=name,
        title=f"{plateau.kernel}, {plateau.shape}",
        charts=(chart,) if chart else (),
        table=_points(sweep, plateau, rows, f"{name}-table"),
        folded=f"All {len(points)} points" if len(points) > 1 else "The point",
    )


def _points(sweep: Sweep, plateau: Plateau, rows: Times, name: str) -> Table:
    names = list(sweep.axes[plateau.kernel])
    columns = (
        *(Column(heading=each) for each in names),
        Column(heading="time µs", title="in the rounds that it was measured in"),
        Column(heading="slower by", title="than the fastest, from paired rounds"),
        Column(heading="place", numeric=False),
        Column(heading="rounds"),
        Column(heading="regs", title="registers a thread"),
        Column(heading="spill B", title="bytes a thread that do not fit registers"),
        Column(heading="smem B", title="static shared memory a block, bytes"),
    )
    return Table(
        id=name,
        caption=f"{plateau.kernel} at {plateau.shape}, fastest first",
        columns=columns,
        rows=tuple(_row(point, names, rows[point.label, point.shape]) for point in sweep.of(plateau)),
    )


def _row(point: Point, names: list[str], row: Measurement) -> Row:
    half = (point.slower_hi - point.slower_lo) / 2
    best = point.place is Place.BEST
    aside = f"±{percent(half)}" if math.isfinite(half) and not best else ""
    word = f"{GLYPHS.get(point.place, '')} {_WORDS[point.place]}".strip()
    return Row(
        cells=(
            *(_param(point.params[name]) for name in names),
            _time(row),
            Cell(text="" if best else percent(point.slower_by), aside=aside, sort=point.slower_by),
            Cell(text=word, sort=point.slower_by, mark=point.place.value),
            count_cell(point.rounds),
            *(count_cell(count) for count in (row.registers, row.spill_bytes, row.shared_bytes)),
        )
    )


def _param(value: int | str) -> Cell:
    return Cell(text=str(value), sort=float(value) if isinstance(value, int) else value)
