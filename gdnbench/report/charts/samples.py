"""The charts of each kernel's samples: cumulative shares on the page, histograms in pictures and in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.measurement import Measurement
from gdnbench.model.workload import Workload
from gdnbench.report.charts import theme
from gdnbench.report.charts.layout import COLOUR, FOOT, FULL, NamedRows, blocks, log_ticks, strip_y, strips
from gdnbench.report.charts.selection import ChartView, time_us
from gdnbench.report.charts.theme import LIGHT, Datum, Theme, expr
from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import infer_resolution_us
from gdnbench.store.samples import SAMPLES, read_samples

if TYPE_CHECKING:
    import altair as alt

EVERY_WORKLOAD, EMPTY_FLOOR, KERNEL_TIMES = False, False, False
SHARES = 49  # points per curve: thousands of samples lie on few ticks of the timer
ENDS = (0.005, 0.995)  # quantiles: one outlier ten times as long would press all curves to one side
MOST_BINS = 160
_FEWEST_BINS, _MOST_BINS_IN_TERMINAL = 16, 48
_TIME = 10  # columns in the terminal
_BELOW = 0.07  # of a strip: from its foot to the middle of the mark of the kernel's time
_BINS_AROUND = 2  # bins that rounding to whole ticks may add
_SHOWN = (0.1, 99.0)  # percentiles that bound the axis
_LOG_ABOVE = 6.0  # largest ratio of times on a linear axis

KernelSamples = list[tuple[Measurement, FloatArray]]


def read_quantiles(folder: Path) -> dict[str, FloatArray]:
    """Returns the `SHARES` quantiles in microseconds by case id; raises RunFormatError if samples cannot be read."""
    if not (folder / SAMPLES).is_file():
        return {}
    shares = np.linspace(*ENDS, SHARES)
    return {case: np.quantile(times, shares) for case, times in read_samples(folder).items()}


def curve_points(rows: Sequence[Measurement], quantiles: Mapping[str, FloatArray]) -> list[Datum]:
    """Returns the page's data: a curve per kernel that has samples."""
    return [
        point
        for row in rows
        if row.role.does_the_work and row.case.id in quantiles
        for point in _curve(row.case.label, quantiles[row.case.id])
    ]


def curves_chart(points: Sequence[Datum], colours: Theme) -> alt.LayerChart:
    """Draws the cumulative share of samples by time, a curve per kernel that the page's list shows."""
    import altair as alt

    layer = (
        alt.Chart()
        .transform_filter(theme.SHOWN)
        .mark_line(
            stroke=expr(colours.kernel_colour),
            strokeWidth=expr(theme.WIDTH),
            opacity=expr(theme.OPACITY),
            interpolate="linear",
        )
        .encode(
            x=alt.X(
                field="time",
                type="quantitative",
                scale=alt.Scale(zero=False, nice=False),
                axis=alt.Axis(title="time of one sample, µs", format="~g", labelOverlap="greedy"),
            ),
            y=alt.Y(
                field="share",
                type="quantitative",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(title="share of samples", format=".0%"),
            ),
            detail=alt.Detail(field="kernel", type="nominal"),
            tooltip=theme.tips(kernel="kernel"),
        )
    )
    return theme.layered(layer, data=points)


def draw(view: ChartView) -> alt.ConcatChart:
    """Draws a column of histograms per workload, with each kernel's time marked."""
    panels = [_panel(workload, _samples(view, workload)) for workload in view.workloads]
    return theme.picture(panels, view.title).add_params(*theme.slot_params(view.slots, view.info.baseline))


def show(view: ChartView, console: Console) -> None:
    """Prints a line of blocks per kernel."""
    for workload in view.workloads:
        rows = _samples(view, workload)
        named = NamedRows.of(console, [row.case.label for row, _ in rows], _TIME + _FEWEST_BINS + _BINS_AROUND)
        bins = max(_FEWEST_BINS, min(_MOST_BINS_IN_TERMINAL, named.room - _TIME - _BINS_AROUND))
        edges = _edges([times for _, times in rows], bins)
        console.print(Text(f"samples in µs, {workload}{'; logarithmic' if _is_wide(edges) else ''}", style="bold"))
        for row, times in rows:
            heights = np.histogram(times, bins=edges)[0].astype(float)
            heights[heights == 0] = np.nan
            bars = blocks(heights, 0.0, float(np.nanmax(heights)))
            named.print(Text(f"{time_us(row):8.3f}  {bars}"), row.case.label)
        ends = f"{edges[0]:.2f}", f"{edges[-1]:.2f}"
        gap = " " * max(1, len(edges) - 1 - sum(map(len, ends)))
        named.print(Text(f"{'':{_TIME}}{ends[0]}{gap}{ends[1]}", style="dim"))


def _curve(kernel: str, times_us: FloatArray) -> list[Datum]:
    low, high = ENDS
    step = (high - low) / (SHARES - 1)
    return [
        {"kernel": kernel, "time": round(float(time), 3), "share": round(low + step * place, 4)}
        for place, time in enumerate(times_us)
    ]


def _panel(workload: Workload, rows: KernelSamples) -> alt.LayerChart:
    import altair as alt

    edges = _edges([times for _, times in rows], MOST_BINS)
    low, high = float(edges[0]), float(edges[-1])
    wide = _is_wide(edges)
    x = alt.X(
        field="time",
        type="quantitative",
        scale=alt.Scale(type="log" if wide else "linear", domain=[low, high], nice=False, zero=False),
        axis=alt.Axis(
            title=f"time of one sample, µs{' (log)' if wide else ''}; the slowest, at most 1 %, are cut off",
            format="~g",
            grid=False,
            **({"values": log_ticks(low, high)} if wide else {"tickCount": 8}),
        ),
    )
    steps = [step for place, (row, times) in enumerate(rows) for step in _steps(place, row, times, edges)]
    marks = [
        {"time": time_us(row), "below": place + FOOT + _BELOW}
        for place, (row, _) in enumerate(rows)
        if low <= time_us(row) <= high
    ]
    count = len(rows)
    areas = (
        alt.Chart(theme.inline(steps))
        .mark_area(interpolate="step-after", fill=expr(COLOUR), opacity=1, line=False)
        .encode(
            x=x, y=strip_y(count, "top"), y2=alt.Y2(field="foot"), detail=alt.Detail(field="kernel", type="nominal")
        )
    )
    times = (
        alt.Chart(theme.inline(marks))
        .mark_point(shape="triangle-up", filled=True, fill=LIGHT.ink, size=26, opacity=1)
        .encode(x=x, y=strip_y(count, "below"))
    )
    title = theme.panel_title(f"samples, {workload}", "each as high as its fullest bin; triangle: the kernel's time")
    return strips([row for row, _ in rows], [areas, times], title)


def _steps(place: int, row: Measurement, times: FloatArray, edges: FloatArray) -> list[Datum]:
    heights = np.histogram(times, bins=edges)[0]
    shares = [*(heights / max(1, int(heights.max()))), 0.0]
    foot = {"kernel": row.case.label, "floor": not row.role.does_the_work, "foot": place + FOOT}
    return [
        {**foot, "time": float(edge), "top": place + FOOT - FULL * float(share)}
        for edge, share in zip(edges, shares, strict=True)
    ]


def _samples(view: ChartView, workload: Workload) -> KernelSamples:
    """Returns kernels with their samples in microseconds; raises RunFormatError if unreadable, UsageError if none."""
    by_id = {row.case.id: row for row in view.at(workload)}
    try:
        by_case = read_samples(view.folder, by_id)
    except RunFormatError as error:
        raise RunFormatError(error.message, "gdnbench show --chart rounds needs no samples") from error
    found = [(row, by_case[name]) for name, row in by_id.items() if name in by_case]
    if not found:
        raise UsageError(
            f"{view.folder / SAMPLES} has no samples of {', '.join(by_id) or 'these kernels'}",
            "try gdnbench show --chart rounds",
        )
    return found


def _is_wide(edges: FloatArray) -> bool:
    return float(edges[-1] / edges[0]) > _LOG_ABOVE


def _edges(every: list[FloatArray], most: int) -> FloatArray:
    """Returns edges of bins that hold equally many ticks of the timer, if it has any: others would beat with them."""
    low = min(float(np.percentile(times, _SHOWN[0])) for times in every)
    high = max(float(np.percentile(times, _SHOWN[1])) for times in every)
    high = max(high, 1.01 * low)
    if high / low > _LOG_ABOVE:
        return np.geomspace(low, high, most + 1)
    tick = infer_resolution_us(np.concatenate(every))
    if tick is None:
        return np.linspace(low, high, most + 1)
    first, last = np.floor(low / tick), np.ceil(high / tick)
    each = max(1.0, np.ceil((last - first) / most))
    return np.arange(first - 0.5 - each, last + each, each) * tick
