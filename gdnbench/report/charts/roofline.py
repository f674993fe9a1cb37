"""The roofline: FLOP/s against arithmetic intensity, FLOPs a byte of the op's declared work; both axes logarithmic.

The roof is the bandwidth of the run's fastest copying floor, or the rated one where the run measured none, and the
rated peak of the op's precision. `Roof` says of each where it is from, or why it is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.machine.gpus import GpuSpec, spec_of
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.render.terminal_chart import TerminalChart
from gdnbench.render.units import number, tflops_text
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import chosen_rows, interval_text
from gdnbench.report.charts.theme import LIGHT, MARKERS, Datum, Theme, expr
from gdnbench.report.charts.times import kind_of, log_ticks
from gdnbench.store.info import RunInfo, read_info

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT = 560, 400  # pixels; the width is that of a picture
_BESIDE = 2.5  # factor by which the x axis goes beyond points and balance point
_LABELS_APART = 0.05  # of the y axis's length, between the names of workloads side by side
_TERMINAL_LINES = 22
_MOST_TICKS = 6
_SAME_WORK = 1e-4  # relative: six digits are stored of a rate and of a time
_NEAR = 1.6  # ratio of intensities up to which the name of a workload would lie over the points to its right
_ROUND = "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))) >= 0"
_LABEL = f"{_ROUND} ? format(datum.value, '~g') : ''"


@dataclass(frozen=True, kw_only=True)
class Roof:
    """The bounds of a chart, NaN where unknown: GB/s (1e9 bytes a second) and TFLOP/s (1e12 a second).

    `memory` and `compute` name them on the chart; `lines` say where each is from, or why it is unknown.
    """

    bandwidth_gbs: float
    peak_tflops: float
    memory: str
    compute: str
    lines: tuple[str, ...]

    @property
    def balance(self) -> float:
        """The FLOPs a byte at which bytes take as long as FLOPs; NaN unless both bounds are known."""
        return 1e3 * self.peak_tflops / self.bandwidth_gbs

    def corners(self, low: float, high: float) -> list[tuple[float, float]]:
        """Returns the roof between two intensities, (FLOPs a byte, TFLOP/s) from left to right."""
        if math.isnan(self.bandwidth_gbs):
            return [(low, self.peak_tflops), (high, self.peak_tflops)]
        turn = min(self.balance, high) if self.balance == self.balance else high
        slanted = [(each, each * self.bandwidth_gbs / 1e3) for each in (low, turn)]
        return [*slanted, (high, self.peak_tflops)] if turn < high else slanted


def roof_of(info: RunInfo, rows: Sequence[Measurement]) -> Roof:
    """Returns the roof of a run's rows, which are of one kind of time."""
    rated = spec_of(info.gpu)
    floors = [row for row in rows if row.role is Role.FLOOR and row.nbytes and row.timing]
    fastest = max(floors, key=_bandwidth_gbs, default=None)
    sheet = f"the data sheet of the {rated.name}" if rated else ""
    if fastest:
        bandwidth, memory = _bandwidth_gbs(fastest), "copying floor, measured"
        source = f"the copying floor at {fastest.case.workload}, measured, by {kind_of(floors)}s"
    elif rated:
        bandwidth, memory = rated.bandwidth_gbs, "data sheet"
        source = f"{sheet}; the run measured no copying floor"
    else:
        bandwidth, memory = math.nan, ""
        source = f"the run measured no copying floor, and no data sheet of {info.gpu} is known"
    peak, precision, unknown = _peak_of(info, rows, rated)
    rate = f"{tflops_text(peak)} TFLOP/s {precision}"
    at_clock = f"{sheet}, at {rated.boost_mhz} MHz; not measured" if rated else ""
    roof = Roof(
        bandwidth_gbs=bandwidth,
        peak_tflops=peak,
        memory=f"{bandwidth:.0f} GB/s, {memory}",
        compute=f"{rate}, data sheet",
        lines=(
            f"memory: {'unknown: ' if math.isnan(bandwidth) else f'{bandwidth:.0f} GB/s, '}{source}",
            f"FLOPs: unknown: {unknown}" if unknown else f"FLOPs: {rate}, {at_clock}",
        ),
    )
    if math.isnan(roof.balance):
        return roof
    balance = f"balance point: {roof.balance:.3g} FLOPs a byte; memory bounds what lies left of it"
    return Roof(**{**vars(roof), "lines": (*roof.lines, balance)})


def _bandwidth_gbs(row: Measurement) -> float:
    return row.timing.bandwidth_gbs if row.timing else math.nan


def _peak_of(info: RunInfo, rows: Sequence[Measurement], rated: GpuSpec | None) -> tuple[float, str, str]:
    """Returns the rated TFLOP/s of the op's work and its precision; or NaN, no precision, and the reason."""
    from gdnbench.catalog.catalog import op_named

    if rated is None:
        return math.nan, "", f"no data sheet of {info.gpu} is known"
    try:
        op = op_named(info.op)
    except UnknownNameError:
        return math.nan, "", f"the op {info.op}, which declares them, is not here"
    peaks: dict[str, float] = {}
    for row in with_work(rows):
        workload = op.workloads.completed(row.case.workload)
        declared = op.flops(workload) if workload.spec.names == op.workloads.names else {}
        if not math.isclose(sum(declared.values()), _flops(row), rel_tol=_SAME_WORK):
            return math.nan, "", f"{info.op} declares other work now than when it was measured"
        for precision in declared:
            found = rated.peak_for(precision, op.instead)
            if found is None:
                return math.nan, "", f"the data sheet of the {rated.name} has no peak of {precision}"
            peaks[found[0]] = found[1]
    if len(peaks) != 1:
        return math.nan, "", f"the op's FLOPs are of several precisions: {', '.join(peaks)}"
    ((precision, peak),) = peaks.items()
    return peak, precision, ""


def with_work(rows: Iterable[Measurement]) -> list[Measurement]:
    """Returns the rows of kernels whose FLOPs and bytes are stored."""
    return [row for row in rows if row.role.does_the_work and math.isfinite(_intensity(row))]


def _intensity(row: Measurement) -> float:
    """Returns FLOPs a byte of a row's declared work; NaN where either is unknown."""
    timing = row.timing
    return 1e3 * timing.tflops / timing.bandwidth_gbs if timing and timing.bandwidth_gbs else math.nan


def _flops(row: Measurement) -> float:
    return row.timing.tflops * row.timing.time_us * 1e6 if row.timing else math.nan


def _tflops(row: Measurement) -> float:
    return row.timing.tflops if row.timing else math.nan


def _bound_tflops(row: Measurement) -> float:
    """Returns the TFLOP/s at the bound of the row's workload; NaN where the bound is unknown."""
    return row.timing.tflops / row.timing.sol if row.timing else math.nan


def roofline_chart(rows: Sequence[Measurement], roof: Roof, colours: Theme, *, legend: bool = False) -> alt.LayerChart:
    """Draws a point for each kernel and workload below the roof; with a legend, or for a page with a list of kernels.

    `rows` are those of `with_work`, of which there is at least one.
    """
    import altair as alt

    low, high = _span(rows, roof)
    x = alt.X(
        field="x",
        type="quantitative",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(title="FLOPs per byte of the op's least traffic (log)", labelExpr=_LABEL, grid=False),
    )
    y = alt.Y(
        field="y",
        type="quantitative",
        scale=alt.Scale(type="log", nice=False, padding=14),
        axis=alt.Axis(title="TFLOP/s (log)", labelExpr=_LABEL),
    )

    def of(data: Sequence[Datum]) -> alt.Chart:
        return alt.Chart(theme.inline(data)).encode(x=x, y=y)

    text = alt.Text(field="text", type="nominal")
    corners = [{"x": across, "y": up} for across, up in roof.corners(low, high)]
    names = _roof_names(roof, low, high)
    balance = [] if math.isnan(roof.balance) else [{"x": roof.balance, "text": f"{roof.balance:.3g} FLOPs a byte"}]
    turn = alt.Chart(theme.inline(balance)).encode(x=x)
    bounds = [{"x": _intensity(row), "y": _bound_tflops(row)} for row in bounded(rows)]
    tooltip = theme.tips(kernel="kernel", workload="workload", tflops="TFLOP/s", share="of bound", time="time, µs")
    points = alt.Chart(theme.inline(roofline_points(rows))).encode(x=x, y=y, tooltip=tooltip)
    return theme.layered(
        of(corners).mark_line(stroke=colours.ink, strokeWidth=1.6),
        of(names).mark_text(align="right", baseline="bottom", dx=-4, dy=-5, fill=colours.ink).encode(text=text),
        turn.mark_rule(stroke=colours.floor, strokeDash=[5, 4]),
        turn.mark_text(align="left", baseline="bottom", dx=5, dy=-5, fill=colours.muted).encode(
            y=alt.YValue("height"), text=text
        ),
        of(bounds).mark_tick(orient="horizontal", size=22, thickness=1.6, color=colours.floor),
        of(_workload_names(rows, left=True)).mark_text(align="right", dx=-15, fill=colours.muted).encode(text=text),
        of(_workload_names(rows, left=False)).mark_text(align="left", dx=15, fill=colours.muted).encode(text=text),
        _legend_marks(points, rows) if legend else _page_marks(points, colours),
    )


def _page_marks(points: alt.Chart, colours: Theme) -> alt.Chart:
    marks: alt.Chart = points.transform_filter(theme.SHOWN).mark_point(
        filled=True, size=52, fill=expr(colours.kernel_colour), stroke=colours.paper, strokeWidth=0.8,
        shape=expr(theme.MARKER), opacity=expr(theme.OPACITY),
    )  # fmt: skip
    return marks


def _legend_marks(points: alt.Chart, rows: Sequence[Measurement]) -> alt.Chart:
    import altair as alt

    baseline = {row.case.label for row in rows if row.role is Role.BASELINE}
    kernels = list(dict.fromkeys(row.case.label for row in sorted(rows, key=_tflops, reverse=True)))
    others = [label for label in kernels if label not in baseline]
    colour = {label: LIGHT.series[slot % len(LIGHT.series)] for slot, label in enumerate(others)}
    marker = {label: MARKERS[slot % len(MARKERS)] for slot, label in enumerate(others)}
    colours = [colour.get(label, LIGHT.ink) for label in kernels]
    markers = [marker.get(label, theme.BASELINE_MARKER) for label in kernels]
    by_name = alt.Legend(title=None, symbolOpacity=1, labelLimit=0)
    marks: alt.Chart = points.mark_point(filled=True, size=56, opacity=1).encode(
        color=alt.Color("kernel:N", scale=alt.Scale(domain=kernels, range=colours), legend=by_name),
        shape=alt.Shape("kernel:N", scale=alt.Scale(domain=kernels, range=markers), legend=by_name),
    )
    return marks


def _span(rows: Sequence[Measurement], roof: Roof) -> tuple[float, float]:
    """Returns the ends of the x axis, beyond all points and the balance point."""
    known = [*map(_intensity, rows), *([] if math.isnan(roof.balance) else [roof.balance])]
    return min(known) / _BESIDE, max(known) * _BESIDE


def roofline_points(rows: Sequence[Measurement]) -> list[Datum]:
    """Returns the data of a chart: FLOPs a byte and TFLOP/s of each row."""
    return [
        {
            "kernel": row.case.label,
            "workload": str(row.case.workload),
            "x": _intensity(row),
            "y": _tflops(row),
            "tflops": tflops_text(_tflops(row)),
            "share": number(row.timing.sol, ".1%") if row.timing else "",
            "time": interval_text(row),
        }
        for row in rows
    ]


def _roof_names(roof: Roof, low: float, high: float) -> list[Datum]:
    """Returns the names of both bounds, above the roof, where no point lies."""
    names: list[Datum] = []
    if not math.isnan(roof.bandwidth_gbs):
        turn = high if math.isnan(roof.balance) else roof.balance
        at = low**0.4 * turn**0.6
        names.append({"x": at, "y": at * roof.bandwidth_gbs / 1e3, "text": roof.memory})
    if not math.isnan(roof.peak_tflops):
        names.append({"x": high, "y": roof.peak_tflops, "text": roof.compute})
    return names


def _one_a_workload(rows: Sequence[Measurement]) -> list[Measurement]:
    """Returns the fastest row of each workload."""
    return list({row.case.workload: row for row in sorted(rows, key=_tflops)}.values())


def bounded(rows: Sequence[Measurement]) -> list[Measurement]:
    """Returns the fastest row of each workload whose bound is known."""
    return [row for row in _one_a_workload(rows) if math.isfinite(_bound_tflops(row))]


def _workload_names(rows: Sequence[Measurement], *, left: bool) -> list[Datum]:
    """Returns the names of workloads, at the bound of each or at its fastest kernel, as many as stand apart.

    Those for the left have other points near to their right.
    """
    names = short_names(row.case.workload for row in rows)
    heights, places = [*map(_tflops, rows)], {*map(_intensity, rows)}
    apart = _LABELS_APART * math.log(2.0 * max(heights) / min(heights))
    shown: list[Datum] = []
    for row in sorted(_one_a_workload(rows), key=_tflops, reverse=True):
        place, bound = _intensity(row), _bound_tflops(row)
        up = bound if math.isfinite(bound) else _tflops(row)
        is_left = any(1.01 < other / place < _NEAR for other in places)
        if is_left is left and all(abs(math.log(up / other["y"])) >= apart for other in shown):
            shown.append({"x": place, "y": up, "text": names[row.case.workload]})
    return shown


def short_names(workloads: Iterable[Workload]) -> dict[Workload, str]:
    """Returns the labels of workloads without the terms that all of them have; whole for one alone."""
    terms = {workload: str(workload).split() for workload in workloads}
    common = set.intersection(*map(set, terms.values())) if len(terms) > 1 else set()
    return {workload: " ".join(term for term in own if term not in common) for workload, own in terms.items()}


def rows_and_roof(info: RunInfo, rows: Sequence[Measurement]) -> tuple[list[Measurement], Roof]:
    """Returns the rows of a run, of one kind of time, that can be drawn, and their roof; UsageError without either."""
    known, roof = with_work(rows), roof_of(info, rows)
    if not known:
        hint = "runs of schema 1 do not store them, and an op may declare none"
        raise UsageError(f"{info.run_id} has no FLOPs and bytes of its op's work", hint)
    if math.isnan(roof.bandwidth_gbs) and math.isnan(roof.peak_tflops):
        raise UsageError(f"{info.run_id} has no roof to draw", "; ".join(roof.lines))
    return known, roof


def _read(folder: Path, kernels: str, workloads: Sequence[Workload] | None) -> tuple[RunInfo, list[Measurement], Roof]:
    """Reads the chosen kernels, by default at all workloads, and the roof of all that the run has there."""
    info = read_info(folder)
    _, roof = rows_and_roof(info, chosen_rows(folder, "all", workloads, all_lines=True))
    rows, _ = rows_and_roof(info, chosen_rows(folder, kernels, workloads, all_lines=True))
    return info, rows, roof


def draw_roofline(folder: Path, path: Path, kernels: str = "", workloads: Sequence[Workload] | None = None) -> None:
    """Draws the chart into a file; raises as `chosen_rows` and `rows_and_roof`, and MachineError."""
    info, rows, roof = _read(folder, kernels, workloads)
    with theme.unchecked():
        chart = roofline_chart(rows, roof, LIGHT, legend=True)
        bars = ["short bars: the bound of each workload"] if bounded(rows) else []
        title = theme.panel_title(f"{info.op}: roofline, by {kind_of(rows)}s", *roof.lines, *bars)
        panel = chart.properties(width=WIDTH, height=HEIGHT, title=title)
        theme.write_picture(path, [panel], f"{info.device} ({info.place}), {info.run_id}")


def print_roofline(
    console: Console, folder: Path, kernels: str = "", workloads: Sequence[Workload] | None = None
) -> None:
    """Prints the chart, its values in TFLOP/s, and its bounds; raises as `draw_roofline`, and ChartError."""
    info, rows, roof = _read(folder, kernels, workloads)
    names = short_names(row.case.workload for row in rows)
    columns = {workload: float(place) for place, workload in enumerate(names)}
    low, high = _span(rows, roof)
    theme.print_heading(console, info)
    title = f"{info.op}: TFLOP/s by FLOPs a byte, by {kind_of(rows)}s; both axes logarithmic"
    with TerminalChart(console, title, _TERMINAL_LINES) as chart:
        for label in dict.fromkeys(row.case.label for row in sorted(rows, key=_tflops, reverse=True)):
            own = [row for row in rows if row.case.label == label]
            chart.scatter(
                [(math.log10(_intensity(row)), math.log10(_tflops(row))) for row in own],
                name=label,
                values={columns[row.case.workload]: tflops_text(_tflops(row)) for row in own},
            )
        corners = roof.corners(low, high)
        chart.guide([(math.log10(across), math.log10(up)) for across, up in corners])
        if not math.isnan(roof.balance):
            chart.upright(math.log10(roof.balance))
        chart.x_axis(_decimal_ticks(low, high), name="FLOPs a byte")
        heights = [*map(_tflops, rows), *(up for _, up in corners)]
        chart.y_axis(_decimal_ticks(min(heights), max(heights)))
        chart.legend({place: names[workload].replace(" ", "\n") for workload, place in columns.items()})
    for line in roof.lines:
        console.print(Text(line, style="dim"), soft_wrap=True)


def _decimal_ticks(low: float, high: float) -> dict[float, str]:
    """Returns round numbers by their common logarithm, powers of ten alone where the range has many."""
    ticks = log_ticks(low, high)
    powers = [tick for tick in ticks if math.log10(tick).is_integer()]
    return {math.log10(tick): f"{tick:g}" for tick in (powers if len(ticks) > _MOST_TICKS + 6 else ticks)}
