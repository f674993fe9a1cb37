"""All samples of the kernels of a shape, as the share of them that is at most so long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdnbench.model import Measurement, Role
from gdnbench.report.html.charts.theme import OPACITY, SHOWN, STROKE, WIDTH, chart_spec, picked, tips
from gdnbench.report.html.content import Chart
from gdnbench.store import read_samples
from gdnbench.store.samples import SAMPLES

if TYPE_CHECKING:
    from gdnbench.stats import FloatArray

SHARES = 49  # points a curve: thousands of samples lie on few ticks of the timer
ENDS = (0.005, 0.995)  # a stray sample ten times as long would press all curves to one side
LEAST = 320  # pixels


def read_quantiles(folder: Path) -> dict[str, FloatArray]:
    """Of each case, by id, the times in microseconds that `SHARES` shares of its samples are at most; few, not all.

    Raises:
        RunFormatError: if the samples are there and cannot be read.
    """
    if not (folder / SAMPLES).is_file():
        return {}
    import numpy as np

    shares = np.linspace(*ENDS, SHARES)
    return {case: np.quantile(times, shares) for case, times in read_samples(folder).items()}


def samples_chart(
    rows: Sequence[Measurement],
    quantiles: Mapping[str, FloatArray],
    *,
    name: str,
    picker: str,
    shown: Sequence[str],
    baseline: str,
    where: str,
    height: int,
) -> Chart | None:
    """Curves of a shape's kernels; None without samples."""
    data = [
        point
        for row in rows
        if row.role is not Role.FLOOR and row.case.id in quantiles
        for point in _curve(row.case.label, quantiles[row.case.id])
    ]
    if not data:
        return None
    height = max(LEAST, height)
    x = {"field": "time", "type": "quantitative", "scale": {"zero": False, "nice": False}}
    y = {"field": "share", "type": "quantitative", "scale": {"domain": [0, 1]}}
    layer = {
        "transform": [SHOWN],
        "mark": {"type": "line", "stroke": STROKE, "strokeWidth": WIDTH, "opacity": OPACITY, "interpolate": "linear"},
        "encoding": {
            "x": {**x, "axis": {"title": "time of one sample, µs", "format": "~g", "labelOverlap": "greedy"}},
            "y": {**y, "axis": {"title": "share of samples", "format": ".0%"}},
            "detail": {"field": "kernel"},
            "tooltip": tips(kernel="kernel"),
        },
    }
    return Chart(
        id=name,
        title="All samples",
        note="The share of samples that took at most so long, of the middle 99%. Steep is steady.",
        spec=chart_spec(data, [layer], height, f"Distribution of samples, {where}", params=picked(shown, baseline)),
        height=height,
        picker=picker,
    )


def _curve(kernel: str, times_us: FloatArray) -> list[dict[str, Any]]:
    low, high = ENDS
    step = (high - low) / (SHARES - 1)
    return [
        {"kernel": kernel, "time": round(float(time), 3), "share": round(low + step * place, 4)}
        for place, time in enumerate(times_us)
    ]
