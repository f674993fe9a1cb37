"""The chart of each kernel's time over the rounds of a run, as deviation from its median, which shows drift."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from gdnbench.errors import UsageError
from gdnbench.model.measurement import Measurement
from gdnbench.model.workload import Workload
from gdnbench.report.charts import theme
from gdnbench.report.charts.layout import COLOUR, FOOT, FULL, STRIP_WIDTH, NamedRows, blocks, strip_y, strips
from gdnbench.report.charts.selection import ChartView, time_us
from gdnbench.report.charts.theme import LIGHT, expr
from gdnbench.stats import FloatArray

if TYPE_CHECKING:
    import altair as alt

EVERY_WORKLOAD, EMPTY_FLOOR, KERNEL_TIMES = False, True, False
LEAST_PERCENT = 0.5  # the axis reaches at least this far, so that a quiet run looks quiet
_FEWEST_BLOCKS, _NUMBERS = 10, 22  # columns in the terminal: least for the rounds, and for the numbers beside them

Deviations = list[tuple[Measurement, FloatArray]]


def draw(view: ChartView) -> alt.ConcatChart:
    """Draws a column of strips per workload."""
    panels = [_panel(workload, _deviations(view, workload)) for workload in view.workloads]
    return theme.picture(panels, view.title).add_params(*theme.slot_params(view.slots, view.info.baseline))


def show(view: ChartView, console: Console) -> None:
    """Prints a line of blocks per kernel."""
    for workload in view.workloads:
        rows = _deviations(view, workload)
        reach = _reach(rows)
        named = NamedRows.of(console, [row.case.label for row, _ in rows], _NUMBERS + _FEWEST_BLOCKS)
        message = f"time by round, {workload}; heights from {-reach:.2g} % to +{reach:.2g} % of the median"
        console.print(Text(message, style="bold"))
        for row, percents in rows:
            most = max(_FEWEST_BLOCKS, named.room - _NUMBERS)
            heights = blocks(_thinned(percents, most), -reach, reach)
            deviation = float(np.nanstd(percents, ddof=1)) if np.isfinite(percents).sum() > 1 else 0.0
            text = Text(f"{time_us(row):8.3f}  {heights}").append(f"  sd {deviation:.2f} %", style="dim")
            named.print(text, row.case.label)


def _panel(workload: Workload, rows: Deviations) -> alt.LayerChart:
    import altair as alt

    reach, count = _reach(rows), len(rows)
    half, middle = FULL / 2, FOOT - FULL / 2
    lines = [
        {
            "kernel": row.case.label,
            "floor": not row.role.does_the_work,
            "round": number,
            "y": place + middle - half * float(np.clip(percent / reach, -1, 1)),
        }
        for place, (row, percents) in enumerate(rows)
        for number, percent in enumerate(percents, start=1)
        if np.isfinite(percent)
    ]
    zeros = [{"y": place + middle} for place in range(count)]
    scale = [
        {"y": middle - half * end, "text": text}
        for end, text in {-1: f"-{reach:.2g} %", 0: "0", 1: f"+{reach:.2g} %"}.items()
    ]
    longest = max(len(percents) for _, percents in rows)
    x = alt.X(
        field="round",
        type="quantitative",
        scale=alt.Scale(domain=[0, longest + 1], nice=False, zero=False),
        axis=alt.Axis(title="round", tickMinStep=1, grid=False, labelFlush=False),
    )
    base = alt.Chart(theme.inline(lines)).encode(x=x, y=strip_y(count, "y"))
    detail = alt.Detail(field="kernel", type="nominal")
    zero = alt.Chart(theme.inline(zeros)).encode(y=strip_y(count, "y"))
    beside = alt.Chart(theme.inline(scale)).encode(y=strip_y(count, "y"))
    layers = [
        zero.mark_rule(stroke=LIGHT.rule, strokeWidth=0.7).encode(x=alt.value(0), x2=alt.value(STRIP_WIDTH)),
        base.mark_line(stroke=expr(COLOUR), strokeWidth=1.1).encode(detail=detail),
        base.mark_point(filled=True, fill=expr(COLOUR), size=12, opacity=1),
        beside.mark_text(align="left", fontSize=9, fill=LIGHT.muted).encode(
            x=alt.value(STRIP_WIDTH + 4), text=alt.Text(field="text", type="nominal")
        ),
    ]
    message = f"deviation from the kernel's median, in each strip from -{reach:.2g} % to +{reach:.2g} %"
    if any(np.nanmax(np.abs(percents)) > reach for _, percents in rows):
        message += "; rounds beyond lie on its edge"
    title = theme.panel_title(f"time by round, {workload}", message)
    return strips([row for row, _ in rows], layers, title)


def _deviations(view: ChartView, workload: Workload) -> Deviations:
    timed = [(row, view.rounds.get(row.case.id, np.empty(0))) for row in view.at(workload)]
    known = [(row, times) for row, times in timed if np.isfinite(times).any()]
    if not known:
        message = f"{view.info.run_id} has no rounds of these kernels at {workload}"
        raise UsageError(message, f"gdnbench show {view.info.run_id} says what it has")
    return [(row, 100.0 * (times / np.nanmedian(times) - 1.0)) for row, times in known]


def _reach(rows: Deviations) -> float:
    """Returns the reach of the axis: every round, unless an outlier would flatten the others."""
    every = np.abs(np.concatenate([percents for _, percents in rows]))
    return max(LEAST_PERCENT, min(float(np.nanmax(every)), 2.0 * float(np.nanpercentile(every, 98))))


def _thinned(values: FloatArray, most: int) -> FloatArray:
    """Thins values to at most `most` by means of neighbouring rounds."""
    parts = np.array_split(values, min(most, len(values)))
    return np.array([np.nanmean(part) if np.isfinite(part).any() else np.nan for part in parts])
