"""Time against batch, in microseconds and in times of the copying floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gdnbench.model import Measurement, Role, Shape
from gdnbench.report.html.charts.theme import OPACITY, POINT, SHOWN, STROKE, WIDTH, chart_spec, picked, tips
from gdnbench.report.html.content import Chart, Spec
from gdnbench.report.html.numbers import time_cell

HEIGHT = 400  # pixels
FOOT = 22  # pixels below the lowest floor, for its name
_AXES = ("time", "low", "high")


def times_charts(
    rows: Sequence[Measurement], *, prefix: str, picker: str, shown: Sequence[str], baseline: str
) -> list[Chart]:
    """Two charts for each head layout that was measured at two batch sizes or more."""
    found = []
    for heads in dict.fromkeys(row.case.shape.heads for row in rows):
        points = [point for row in rows if row.case.shape.heads == heads for point in _points(row, rows)]
        batches = sorted({point["B"] for point in points})
        if len(batches) < 2:
            continue
        params = picked(shown, baseline)
        found.append(_absolute(points, batches, heads, f"{prefix}-times-{heads}", picker, params))
        if any("above" in point for point in points):
            found.append(_relative(points, batches, heads, f"{prefix}-above-{heads}", picker, params))
    return found


def _points(row: Measurement, rows: Sequence[Measurement]) -> list[dict[str, Any]]:
    timing = row.timing
    if timing is None or row.role is Role.CONTROL:
        return []
    shown = time_cell(timing.time_us, timing.time_lo_us, timing.time_hi_us)
    point: dict[str, Any] = {
        "kernel": row.case.label,
        "B": row.case.shape.B,
        "floor": row.role is Role.FLOOR,
        "time": timing.time_us,
        "low": timing.time_lo_us,
        "high": timing.time_hi_us,
        "text": f"{shown.text} {shown.aside}",
    }
    copy = _copy_us(rows, row.case.shape)
    if not math.isnan(copy):
        point |= {f"{name}_above": point[name] / copy for name in _AXES}
        point["above"] = f"{timing.time_us / copy:.3f}"
    return [point]


def _copy_us(rows: Sequence[Measurement], shape: Shape) -> float:
    """The time of the fastest copying floor: of the floors, those move something."""
    times = [
        row.timing.time_us
        for row in rows
        if row.role is Role.FLOOR and row.timing and row.case.shape == shape and row.nbytes
    ]
    return min(times, default=math.nan)


def _absolute(
    points: list[dict[str, Any]], batches: list[int], heads: str, name: str, picker: str, params: list[Spec]
) -> Chart:
    y = {"type": "quantitative", "scale": {"type": "log", "nice": False, "padding": FOOT}}
    axis = {"title": "time, µs (log)", "format": "~g", "labelOverlap": "greedy", "tickCount": 8}
    return Chart(
        id=name,
        title=f"Time against batch, {heads}",
        note="Both axes logarithmic. Dashed: the floors, below which no kernel of this grid or traffic can come. "
        "Bars are intervals; most are narrower than their point.",
        spec=_spec(points, batches, ("time", "low", "high"), {**y, "axis": axis}, params, f"Time against B, {heads}"),
        height=HEIGHT,
        picker=picker,
    )


def _relative(
    points: list[dict[str, Any]], batches: list[int], heads: str, name: str, picker: str, params: list[Spec]
) -> Chart:
    y = {"type": "quantitative", "scale": {"zero": False, "nice": False, "padding": FOOT}}
    axis = {"title": "time / time of the copying floor", "format": ".2~f", "labelOverlap": "greedy"}
    moving = [point for point in points if "above" in point and (not point["floor"] or point["time_above"] == 1)]
    fields = ("time_above", "low_above", "high_above")
    return Chart(
        id=name,
        title=f"Distance from the copying floor, {heads}",
        note="The same times, divided by the copying floor's at the same batch: 1 is the speed of light.",
        spec=_spec(moving, batches, fields, {**y, "axis": axis}, params, f"Time over the copying floor, {heads}"),
        height=HEIGHT,
        picker=picker,
    )


def _spec(
    points: list[dict[str, Any]],
    batches: list[int],
    fields: tuple[str, str, str],
    y: Spec,
    params: list[Spec],
    description: str,
) -> Spec:
    time, low, high = fields
    scale = {"type": "log", "base": 2, "nice": False, "padding": 18}
    x: Spec = {"field": "B", "type": "quantitative", "scale": scale}
    x["axis"] = {"title": "batch size B (log)", "values": batches, "grid": False, "labelOverlap": "greedy"}
    place = {"x": x, "y": {"field": time, **y}, "detail": {"field": "kernel"}}
    tooltip = tips(kernel="kernel", B="B", text="time, µs", above="over the copying floor")
    kernels = [{"filter": "!datum.floor"}, SHOWN]
    floors = [{"filter": "datum.floor"}]
    first = [*floors, {"filter": f"datum.B === {batches[0]}"}]
    layers: list[Spec] = [
        _layer(floors, {"type": "line", "strokeDash": [5, 4], "stroke": "var(--floor)"}, place),
        _layer(floors, {"type": "point", "opacity": 0, "size": 120}, {**place, "tooltip": tooltip}),
        _layer(first, _label(), {**place, "text": {"field": "kernel"}}),
        _layer(kernels, {"type": "line", "stroke": STROKE, "strokeWidth": WIDTH, "opacity": OPACITY}, place),
        _layer(
            kernels,
            {"type": "rule", "stroke": STROKE, "opacity": OPACITY},
            {**place, "y": {"field": low, **y}, "y2": {"field": high}},
        ),
        _layer(kernels, _point(), {**place, "tooltip": tooltip}),
    ]
    return chart_spec(points, layers, HEIGHT, description, params=params)


def _layer(transform: list[Spec], mark: Spec, encoding: Spec) -> Spec:
    return {"transform": transform, "mark": mark, "encoding": encoding}


def _label() -> Spec:
    return {"type": "text", "align": "left", "baseline": "top", "dy": 6, "fill": "var(--muted)"}


def _point() -> Spec:
    return {
        "type": "point", "filled": True, "size": 46, "fill": STROKE, "stroke": "var(--paper)", "strokeWidth": 0.8,
        "shape": POINT, "opacity": OPACITY,
    }  # fmt: skip
