"""The roofline: FLOP/s against arithmetic intensity, FLOPs a byte of the op's declared work; both axes logarithmic.

The roof is the bandwidth of the run's fastest copying floor, else what `gdnbench doctor --latency` read on the GPU
model, else the rated one, and the rated peak of the op's precision. `Roof` says of each where it is from, or why it is
unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.errors import UsageError
from gdnbench.machine.gpus import GpuSpec, spec_of
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.origin import PROFILES
from gdnbench.render.units import number, tflops_text
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import chosen_rows, interval_text, kind_of
from gdnbench.report.charts.theme import MARKERS, Datum, expr
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.latencies import newest_latencies

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT = 560, 400  # pixels of a picture
_MOST_NAMES, _LONGEST_NAME = 12, 26  # workloads, and characters, that are named beside the points
_BEYOND = 2.5  # factor by which the x axis exceeds points and balance point on either side
_SLANTED = 8.0  # factor by which it begins left of the balance point, at least: room for the name of the bound
_APART = 0.05  # of the range of rates, between two names of workloads
_BESIDE = 1.6  # ratio of intensities up to which a name at its right would lie over other points
_SAME_WORK = 1e-4  # relative: of a rate and of a time six digits are stored
_ROUND = "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))) >= 0"
_LABEL = f"{_ROUND} ? format(datum.value, '~g') : ''"


@dataclass(frozen=True)
class Bound:
    """A rate that no kernel exceeds, infinite if unknown; its name on the chart; its source, or why it is unknown."""

    rate: float
    name: str
    source: str


@dataclass(frozen=True)
class Roof:
    """The bounds of a chart: of memory in GB/s (1e9 bytes a second), of FLOPs in TFLOP/s (1e12 a second)."""

    memory: Bound
    compute: Bound

    @property
    def balance(self) -> float:
        """The FLOPs a byte at which both bounds take as long; 0 where one is unknown."""
        return 0.0 if math.inf in {self.memory.rate, self.compute.rate} else 1e3 * self.compute.rate / self.memory.rate

    @property
    def lines(self) -> list[str]:
        """What the roof is and where it is from."""
        balance = f"balance: {self.balance:.3g} FLOPs a byte, left of it memory binds"
        bounds = [f"memory: {self.memory.source}", f"FLOPs: {self.compute.source}"]
        return [*bounds, *([balance] if self.balance else [])]

    def at(self, intensity: float) -> float:
        """Returns the highest TFLOP/s at some FLOPs a byte."""
        return min(intensity * self.memory.rate / 1e3, self.compute.rate)

    def corners(self, points: Iterable[WorkPoint]) -> dict[float, float]:
        """Returns its TFLOP/s by FLOPs a byte, at the balance point, and beyond it and the points on either side."""
        known = [*(point.intensity for point in points), *filter(None, [self.balance])]
        low = min(min(known) / _BEYOND, (self.balance or math.inf) / _SLANTED)
        return {place: self.at(place) for place in sorted({low, *filter(None, [self.balance]), max(known) * _BEYOND})}


@dataclass(frozen=True, kw_only=True)
class WorkPoint:
    """A kernel at a workload, and the rate at the workload's bound, NaN if unknown."""

    kernel: str
    workload: Workload
    flops: float
    intensity: float  # FLOPs a byte
    tflops: float
    bound_tflops: float
    time: str


def points_of(rows: Iterable[Measurement]) -> list[WorkPoint]:
    """Returns the kernels whose FLOPs and bytes are stored, fastest first."""
    points = [
        WorkPoint(
            kernel=row.case.label,
            workload=row.case.workload,
            flops=timing.tflops * timing.time_us * 1e6,
            intensity=1e3 * timing.tflops / timing.bandwidth_gbs,
            tflops=timing.tflops,
            bound_tflops=timing.tflops / timing.sol,
            time=interval_text(row),
        )
        for row in rows
        if row.role.does_the_work and (timing := row.timing) and timing.tflops * timing.bandwidth_gbs > 0
    ]
    return sorted(points, key=lambda point: -point.tflops)


def read_roof(info: RunInfo, rows: Sequence[Measurement]) -> Roof:
    """Returns the roof of rows of one kind of time; UsageError if the run stores no work, or no bound is known."""
    if not (points := points_of(rows)):
        hint = "runs of schema 1 do not store them, and an op may declare none"
        raise UsageError(f"{info.run_id} has no FLOPs and bytes of its op's work", hint)
    rated = spec_of(info.gpu)
    roof = Roof(_memory_of(info, rows, rated), _compute_of(info, points, rated))
    if roof.at(1.0) == math.inf:
        raise UsageError(f"{info.run_id} has no roof to draw", "; ".join(roof.lines))
    return roof


def _memory_of(info: RunInfo, rows: Sequence[Measurement], rated: GpuSpec | None) -> Bound:
    floors = {row.timing.bandwidth_gbs: row for row in rows if row.role is Role.FLOOR and row.nbytes and row.timing}
    if floors:
        rate = f"{max(floors):.0f} GB/s, copying floor"
        where = floors[max(floors)].case.workload
        return Bound(max(floors), f"{rate}, measured", f"{rate} at {where}, measured by {kind_of(rows)}")
    latencies = newest_latencies(PROFILES, info.gpu)
    if latencies and latencies.read_bytes_per_s:
        rate = f"{latencies.read_bytes_per_s / 1e9:.0f} GB/s, reading"
        source = f"{rate}, measured by gdnbench doctor --latency; no copying floor was measured"
        return Bound(latencies.read_bytes_per_s / 1e9, f"{rate}, measured", source)
    if rated:
        rate = f"{rated.bandwidth_gbs:.0f} GB/s, data sheet"
        return Bound(rated.bandwidth_gbs, rate, f"{rate} of the {rated.name}; no copying floor was measured")
    return _unknown(f"no copying floor was measured, and there is no data sheet of {info.gpu}")


def _compute_of(info: RunInfo, points: Iterable[WorkPoint], rated: GpuSpec | None) -> Bound:
    from gdnbench.catalog.catalog import load_catalog

    if rated is None:
        return _unknown(f"there is no data sheet of {info.gpu}")
    op, peaks = load_catalog().ops.get(info.op), set()
    for point in points:
        workload = op.workloads.completed(point.workload) if op else None
        declared = op.flops(workload) if op and workload and workload.spec.names == op.workloads.names else {}
        if not op or not math.isclose(sum(declared.values()), point.flops, rel_tol=_SAME_WORK):
            return _unknown(f"no op {info.op} is here that declares the work that was measured, and its precision")
        peaks |= {rated.peak_for(each, op.instead) for each in declared}
    if len(peaks) > 1 or not (peak := peaks.pop()):
        return _unknown("the work is of several precisions, or of one that the GPU has no rated peak of")
    rate = f"{tflops_text(peak[1])} TFLOP/s {peak[0]}, data sheet"
    return Bound(peak[1], rate, f"{rate} of the {rated.name} at {rated.boost_mhz} MHz, not measured")


def _unknown(why: str) -> Bound:
    return Bound(math.inf, "", f"unknown: {why}")


def roofline_chart(points: Sequence[WorkPoint], roof: Roof, baseline: str | None = None) -> alt.LayerChart:
    """Draws one or more points below their roof: for a page with a list of kernels, else with a legend.

    `baseline` is the first in the legend; None on a page.
    """
    import altair as alt

    axis = alt.Axis(title="FLOPs per byte of the op's least traffic (log)", grid=False, labelExpr=_LABEL)
    x = alt.X(field="x", type="quantitative", scale=alt.Scale(type="log", nice=False), axis=axis)
    log, axis = alt.Scale(type="log", nice=False, padding=14), alt.Axis(title="TFLOP/s (log)", labelExpr=_LABEL)
    y = alt.Y(field="y", type="quantitative", scale=log, axis=axis)
    corners = roof.corners(points)
    low, *_, high = corners
    names = [(low**0.25 * (roof.balance or high) ** 0.75, roof.memory), (high, roof.compute)]
    balance = [{"x": roof.balance, "text": f"balance {roof.balance:.3g}"}] if roof.balance else []
    right, left = _names(points)
    marks = alt.Chart(theme.inline(list(map(_datum, points)))).encode(
        tooltip=theme.tips(kernel="kernel", workload="workload", tflops="TFLOP/s", share="of bound", time="time, µs")
    )

    def of(data: Iterable[tuple[float, float, str]]) -> alt.Chart:
        found = [{"x": across, "y": up, "text": text} for across, up, text in data]
        return alt.Chart(theme.inline(found)).encode(x=x, y=y)

    turn, text = alt.Chart(theme.inline(balance)).encode(x=x), alt.Text(field="text", type="nominal")
    return theme.layered(
        of((*corner, "") for corner in corners.items()).mark_line(stroke=theme.INK, strokeWidth=1.6),
        of((place, roof.at(place), bound.name) for place, bound in names if bound.name)
        .mark_text(align="right", baseline="bottom", dx=-4, dy=-5, fill=theme.INK)
        .encode(text=text),
        turn.mark_rule(stroke=theme.FLOOR, strokeDash=[5, 4]),
        turn.mark_text(align="left", baseline="bottom", dx=5, dy=-5, fill=theme.MUTED).encode(
            y=alt.value("height"), text=text
        ),
        of((point.intensity, point.bound_tflops, "") for point in bounded(points)).mark_tick(
            orient="horizontal", size=22, thickness=1.6, color=theme.FLOOR
        ),
        of(right).mark_text(align="left", dx=15, fill=theme.MUTED).encode(text=text),
        of(left).mark_text(align="right", dx=-15, fill=theme.MUTED).encode(text=text),
        (_for_page(marks) if baseline is None else _with_legend(marks, points, baseline)).encode(x=x, y=y),
    )


def _datum(point: WorkPoint) -> Datum:
    texts = {
        "workload": str(point.workload),
        "tflops": tflops_text(point.tflops),
        "share": number(point.tflops / point.bound_tflops, ".1%"),
    }
    return {"kernel": point.kernel, "x": point.intensity, "y": point.tflops, "time": point.time, **texts}


def _for_page(marks: alt.Chart) -> alt.Chart:
    shown: alt.Chart = marks.transform_filter(theme.SHOWN).mark_point(
        filled=True, size=52, fill=expr(theme.KERNEL_COLOUR), stroke=theme.PAPER, strokeWidth=0.8,
        shape=expr(theme.MARKER), opacity=expr(theme.OPACITY),
    )  # fmt: skip
    return shown


def _with_legend(marks: alt.Chart, points: Sequence[WorkPoint], baseline: str) -> alt.Chart:
    import altair as alt

    kernels = list(dict.fromkeys(point.kernel for point in sorted(points, key=lambda point: point.kernel != baseline)))
    colour = alt.Scale(domain=kernels, range=[theme.INK, *theme.SERIES])
    shape = alt.Scale(domain=kernels, range=[theme.BASELINE_MARKER, *MARKERS])
    legend = alt.Legend(title=None, symbolOpacity=1, labelLimit=0)
    shown: alt.Chart = marks.mark_point(filled=True, size=56, opacity=1).encode(
        color=alt.Color("kernel:N", scale=colour, legend=legend),
        shape=alt.Shape("kernel:N", scale=shape, legend=legend),
    )
    return shown


def bounded(points: Iterable[WorkPoint]) -> list[WorkPoint]:
    """Returns the fastest point of each workload whose bound is known."""
    return [point for point in _one_a_workload(points) if math.isfinite(point.bound_tflops)]


def _one_a_workload(points: Iterable[WorkPoint]) -> list[WorkPoint]:
    return list({point.workload: point for point in reversed([*points])}.values())


_Names = list[tuple[float, float, str]]


def _names(points: Sequence[WorkPoint]) -> tuple[_Names, _Names]:
    """Returns the workloads that are named at their bound, or at their fastest kernel: on its right, and on its left.

    They are as many as stand apart, none if they are long or many; one with other points near to its right has its
    name on its left.
    """
    names, shown = short_names(point.workload for point in points), (_Names(), _Names())
    if len(names) > _MOST_NAMES or max(map(len, names.values())) > _LONGEST_NAME:
        return shown
    apart = _APART * math.log(2.0 * points[0].tflops / points[-1].tflops)
    for point in sorted(_one_a_workload(points), key=lambda point: -point.tflops):
        up = point.bound_tflops if math.isfinite(point.bound_tflops) else point.tflops
        side = shown[any(1.01 < other.intensity / point.intensity < _BESIDE for other in points)]
        if all(abs(math.log(up / height)) >= apart for _, height, _ in side):
            side.append((point.intensity, up, names[point.workload]))
    return shown


def short_names(workloads: Iterable[Workload]) -> Mapping[Workload, str]:
    """Returns the labels of workloads without the terms that all of them have; whole for one alone."""
    terms = {workload: str(workload).split() for workload in workloads}
    common = set.intersection(*map(set, terms.values())) if len(terms) > 1 else set()
    return {workload: " ".join(term for term in own if term not in common) for workload, own in terms.items()}


def draw_roofline(folder: Path, path: Path, kernels: str = "") -> None:
    """Draws the chosen kernels of a run into a file; raises as `chosen_rows` and `read_roof`, and MachineError."""
    info, rows = read_info(folder), chosen_rows(folder, "all")
    roof, points = read_roof(info, rows), points_of(chosen_rows(folder, kernels))
    if not points:
        raise UsageError("a floor computes nothing", "name a kernel with --kernel")
    with theme.unchecked():
        bars = ["short bars: the bound of each workload"] if bounded(points) else []
        title = theme.panel_title(f"{info.op}: roofline, by {kind_of(rows)}", *roof.lines, *bars)
        chart = roofline_chart(points, roof, info.baseline).properties(width=WIDTH, height=HEIGHT, title=title)
        theme.write_picture(path, [chart], theme.heading(info))
