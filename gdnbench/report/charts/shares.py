"""Charts of the page of shares: of the bound as bars, a kernel each, and of samples, cumulative, as curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.render.codec import GLYPHS
from gdnbench.report.charts import theme
from gdnbench.report.charts.selection import interval_text
from gdnbench.report.charts.theme import Datum, Theme, expr
from gdnbench.stats import FloatArray
from gdnbench.store.samples import SAMPLES, read_samples

if TYPE_CHECKING:
    import altair as alt

BAR, AROUND = 17, 44  # pixels: a bar, and the axis with the paddings
_ROOM = 1.36  # multiple of the longest bar, for a column of labels
SHARES = 49  # points per curve: thousands of samples lie on few ticks of the timer
ENDS = (0.005, 0.995)  # quantiles: one outlier ten times as long would press all curves to one side


def page_bars(rows: Sequence[Measurement]) -> list[Datum]:
    """Returns the page's data: a bar per kernel whose share of the bound is known.

    By kernel times where the rows are these; else the launch is on both sides.
    """
    return [
        _page_bar(row, row.timing.sol)
        for row in rows
        if row.role.does_the_work and row.timing and not math.isnan(row.timing.sol)
    ]


def _page_bar(row: Measurement, sol: float) -> Datum:
    verdict = row.versus.verdict if row.versus else ""
    return {
        "kernel": row.case.label,
        "sol": sol,
        "label": f"{sol:.1%} {GLYPHS.get(verdict, theme.EN_SPACE)}",
        "time": interval_text(row),
        "verdict": verdict.upper() or "BASELINE",
        "role": row.role.value if row.role in {Role.BASELINE, Role.FLOOR} else "kernel",
    }


def sol_chart(bars: Sequence[Datum], colours: Theme) -> alt.LayerChart:
    """Draws bars from the top in the given order, labels in a column at the right, and a dashed line at the floor."""
    import altair as alt

    end = _ROOM * max(1.0, *(float(bar["sol"]) for bar in bars))
    y = alt.Y(field="kernel", type="nominal", sort=None, axis=alt.Axis(title=None, ticks=False, domain=False))
    x = alt.X(
        field="sol",
        type="quantitative",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(title=None, format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    fills = {"baseline": colours.ink, "floor": colours.floor, "kernel": colours.bar}
    tooltip = theme.tips(kernel="kernel", label="of bound", time="time, µs", verdict="verdict")
    return theme.layered(
        alt.Chart()
        .mark_bar(height=alt.RelativeBandSize(band=0.68), fill=expr(f"{fills}[datum.role]"))
        .encode(y=y, x=x, tooltip=tooltip),
        alt.Chart()
        .mark_text(align="right", fill=colours.ink)
        .encode(y=y, x=alt.datum(end), text=alt.Text(field="label", type="nominal")),
        alt.Chart().mark_rule(stroke=colours.floor, strokeDash=[5, 4]).encode(x=alt.datum(1)),
        data=bars,
    )


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


def _curve(kernel: str, times_us: FloatArray) -> list[Datum]:
    low, high = ENDS
    step = (high - low) / (SHARES - 1)
    return [
        {"kernel": kernel, "time": round(float(time), 3), "share": round(low + step * place, 4)}
        for place, time in enumerate(times_us)
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
