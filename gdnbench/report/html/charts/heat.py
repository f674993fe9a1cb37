"""A sweep's points at one shape: a line for one param, a heat map for two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gdnbench.model import ParamValue, Plateau, Point, Sweep
from gdnbench.report.html.charts.theme import chart_spec, tips
from gdnbench.report.html.content import Chart, Spec
from gdnbench.report.run_table import percent
from gdnbench.report.sweep_view import best_at, leading_params, tell, varied

STEPS = (0.005, 0.02, 0.05, 0.10, 0.20)  # where the colours change: --h0 to --h5
CELL, AROUND, LINE = 34, 56, 260  # pixels


def heat_chart(sweep: Sweep, plateau: Plateau, name: str) -> Chart | None:
    """The chart of one plateau; None if nothing varies."""
    names = varied(sweep.axes[plateau.kernel])
    points = sweep.of(plateau)
    if len(names) == 1:
        return _line_chart(plateau, points, next(iter(names)), name)
    return _heat_chart(sweep, plateau, names, name) if names else None


def _line_chart(plateau: Plateau, points: Sequence[Point], param: str, name: str) -> Chart:
    data = [_entry(point, [param]) for point in points]
    x = {"field": param, "type": "ordinal", "sort": None, "axis": {"labelAngle": 0, "title": param}}
    axis = {"title": "slower than the best", "format": ".0%"}
    y = {"field": "slower", "type": "quantitative", "axis": axis}
    order = {value: place for place, value in enumerate(sorted({entry[param] for entry in data}, key=_by_value))}
    data.sort(key=lambda entry: order[entry[param]])
    layers: list[Spec] = [
        {"mark": {"type": "line", "stroke": "var(--c0)"}, "encoding": {"x": x, "y": y}},
        {"mark": {"type": "rule", "stroke": "var(--c0)"},
         "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}},
        {"mark": {"type": "point", "filled": True, "fill": "var(--c0)", "size": 46},
         "encoding": {"x": x, "y": y, "tooltip": _tooltip()}},
    ]  # fmt: skip
    return Chart(
        id=name, title="Slower than the best", spec=chart_spec(data, layers, LINE, _told(plateau)), height=LINE
    )  # fmt: skip


def _heat_chart(sweep: Sweep, plateau: Plateau, names: Mapping[str, Sequence[ParamValue]], name: str) -> Chart:
    peers = [sweep.of(other) for other in sweep.plateaus if other.kernel == plateau.kernel]
    down, across = leading_params(peers, names)
    best = best_at(sweep.of(plateau), [down, across])
    data = [_entry(point, list(names)) for point in best.values()]
    place = {
        "x": _ordinal(across, names[across], "bottom", names),
        "y": _ordinal(down, names[down], "left", names),
    }
    height = CELL * len(names[down]) + AROUND
    layers: list[Spec] = [
        {"mark": {"type": "rect", "fill": {"expr": _fill()}, "stroke": {"expr": _EDGE}, "strokeWidth": 2},
         "encoding": {**place, "tooltip": _tooltip()}},
        {"mark": {"type": "text", "fontWeight": {"expr": _WEIGHT}, "fill": {"expr": _ink()}, "aria": False},
         "encoding": {**place, "text": {"field": "label"}}},
    ]  # fmt: skip
    others = [each for each in names if each not in {down, across}]
    note = f"Each cell is the best of {', '.join(others)}." if others else ""
    spec = chart_spec(data, layers, height, _told(plateau))
    return Chart(id=name, title="Slower than the best, %", note=note, spec=spec, height=height)


def _ordinal(param: str, values: Sequence[ParamValue], orient: str, names: Mapping[str, Any]) -> Spec:
    axis = {"title": param, "orient": orient, "labelAngle": 0, "ticks": False, "domain": False}
    scale = {"domain": list(values), "paddingInner": 0.06, "paddingOuter": 0.03}
    return {"field": param, "type": "ordinal", "scale": scale, "axis": axis, "title": param if param in names else ""}


def _entry(point: Point, names: Sequence[str]) -> dict[str, Any]:
    high = point.slower_hi if math.isfinite(point.slower_hi) else point.slower_by
    half = f" ±{percent((point.slower_hi - point.slower_lo) / 2)}" if math.isfinite(point.slower_hi) else ""
    return {
        **{name: point.params[name] for name in names},
        "params": tell(point.params, list(names)),
        "slower": point.slower_by,
        "low": point.slower_lo,
        "high": high,
        "label": f"{100 * point.slower_by:.1f}",
        "text": f"{percent(point.slower_by)}{half}",
        "place": point.place.value,
        "rounds": point.rounds,
    }


def _tooltip() -> list[Spec]:
    return tips(params="params", text="slower than the best by", place="place", rounds="rounds")


def _told(plateau: Plateau) -> str:
    return f"{plateau.kernel} at {plateau.shape}: percent slower than the best point, by params"


def _by_value(value: ParamValue) -> tuple[bool, ParamValue]:
    return isinstance(value, str), value


def _bucket() -> str:
    """How many of the steps a value has passed, as a Vega expression."""
    return " + ".join(f"(datum.slower > {step})" for step in STEPS)


def _fill() -> str:
    return f"'var(--h' + ({_bucket()}) + ')'"


def _ink() -> str:
    return f"'var(--hi' + ({_bucket()}) + ')'"


_EDGE = "datum.place === 'best' || datum.place === 'tied' ? 'var(--ink)' : 'transparent'"
_WEIGHT = "datum.place === 'best' || datum.place === 'tied' ? 'bold' : 'normal'"
