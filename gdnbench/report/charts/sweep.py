"""The charts of a sweep on the page: a line for one param, heat maps for more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from gdnbench.model.declaration import ParamValue
from gdnbench.model.measurement import Plateau, Point, Sweep
from gdnbench.render.units import params_text, percent, plus_minus
from gdnbench.report.charts import theme
from gdnbench.report.charts.theme import Datum, expr

if TYPE_CHECKING:
    import altair as alt


STEPS = (0.005, 0.02, 0.05, 0.10, 0.20)  # a cell slower by more than these has the next colour of the theme
CELL, AROUND, LINE = 34, 56, 260  # pixels: the height of a cell, of the axis around cells, of a line chart
_PASSED = " + ".join(f"(datum.slower > {step})" for step in STEPS)
_LEVEL = "datum.place === 'best' || datum.place === 'tied'"


def sweep_chart(sweep: Sweep, plateau: Plateau) -> tuple[alt.LayerChart, int, str] | None:
    """Returns a plateau's chart, its height in pixels, and the meaning of its cells; or None if nothing varies."""
    names = varied(sweep.axes[plateau.kernel])
    if len(names) > 1:
        return _heat_chart(sweep, plateau, names)
    return (_line_chart(sweep.of(plateau), *next(iter(names.items()))), LINE, "") if names else None


def _line_chart(points: Sequence[Point], param: str, values: Sequence[ParamValue]) -> alt.LayerChart:
    import altair as alt

    best = best_at(points, [param])
    data = [_datum(best[value,], [param], x=value) for value in values if (value,) in best]
    x = alt.X(
        field="x",
        type="ordinal",
        sort=None,
        scale=alt.Scale(domain=list(values)),
        axis=alt.Axis(labelAngle=0, title=param),
    )
    axis = alt.Axis(title="slower than the best", format=".0%")
    y = alt.Y(field="slower", type="quantitative", axis=axis)
    stroke = theme.SERIES[0]
    base = alt.Chart().encode(x=x, y=y)
    return theme.layered(
        base.mark_line(stroke=stroke),
        base.mark_rule(stroke=stroke).encode(
            y=alt.Y(field="low", type="quantitative", axis=axis), y2=alt.Y2(field="high")
        ),
        base.mark_point(filled=True, fill=stroke, size=46, opacity=1).encode(tooltip=_tooltip()),
        data=data,
    )


def _heat_chart(
    sweep: Sweep, plateau: Plateau, names: Mapping[str, Sequence[ParamValue]]
) -> tuple[alt.LayerChart, int, str]:
    import altair as alt

    down, across = _leading(sweep, plateau, names)
    best = best_at(sweep.of(plateau), [down, across])
    data = [
        _datum(best[row, column], list(names), x=column, y=row)
        if (row, column) in best
        else {"x": column, "y": row, "label": "-", "place": "missing", "slower": None}
        for row in names[down]
        for column in names[across]
    ]
    base = alt.Chart().encode(
        x=alt.X(field="x", type="ordinal", scale=_cells(names[across]), axis=_param_axis(across, "bottom")),
        y=alt.Y(field="y", type="ordinal", scale=_cells(names[down]), axis=_param_axis(down, "left")),
    )
    known = base.transform_filter("datum.place !== 'missing'")
    fill, ink = (f"{list(each)}[{_PASSED}]" for each in (theme.HEAT, theme.HEAT_INK))
    chart = theme.layered(
        known.mark_rect(
            fill=expr(fill), stroke=expr(f"{_LEVEL} ? '{theme.INK}' : 'transparent'"), strokeWidth=2
        ).encode(tooltip=_tooltip()),
        base.mark_text(
            fontWeight=expr(f"{_LEVEL} ? 'bold' : 'normal'"),
            fill=expr(f"datum.place === 'missing' ? '{theme.MUTED}' : {ink}"),
            aria=False,
        ).encode(text=alt.Text(field="label", type="nominal")),
        data=data,
    )
    others = [name for name in names if name not in {down, across}]
    note = f"best of {', '.join(others)}" if others else ""
    return chart, CELL * len(names[down]) + AROUND, note


def _leading(sweep: Sweep, plateau: Plateau, names: Mapping[str, Sequence[ParamValue]]) -> tuple[str, str]:
    return leading_params([sweep.of(other) for other in sweep.plateaus if other.kernel == plateau.kernel], names)


def _cells(values: Sequence[ParamValue]) -> alt.Scale:
    import altair as alt

    return alt.Scale(domain=list(values), paddingInner=0.06, paddingOuter=0.03)


def _param_axis(param: str, orient: Literal["bottom", "left"]) -> alt.Axis:
    import altair as alt

    return alt.Axis(title=param, orient=orient, labelAngle=0, ticks=False, domain=False)


def _datum(point: Point, names: Sequence[str], **place: ParamValue) -> Datum:
    known = math.isfinite(point.slower_lo) and math.isfinite(point.slower_hi)
    half = plus_minus((point.slower_hi - point.slower_lo) / 2)
    return {
        **place,
        "params": params_text(point.params, list(names)),
        "slower": point.slower_by,
        "low": point.slower_lo if known else point.slower_by,
        "high": point.slower_hi if known else point.slower_by,
        "label": f"{100 * point.slower_by:.1f}",
        "text": f"{percent(point.slower_by)}{half}",
        "place": point.place.value,
        "rounds": point.rounds,
    }


def _tooltip() -> list[alt.Tooltip]:
    return theme.tips(params="params", text="slower than the best by", place="place", rounds="rounds")


_Values = tuple[ParamValue, ...]


def varied(axes: Mapping[str, Sequence[Any]]) -> dict[str, list[ParamValue]]:
    """Returns the params that were tried at more than one value."""
    return {name: list(values) for name, values in axes.items() if len(values) > 1}


def leading_params(workloads: Sequence[Sequence[Point]], axes: Mapping[str, Sequence[ParamValue]]) -> tuple[str, str]:
    """Returns the two params that matter most, in the order of their declaration.

    A param's weight is how much slower than the best point its worst value is, with the best values of all other
    params, summed over all of a kernel's workloads, so that its charts have the same axes. `axes` has at least two
    params.
    """

    def cost(name: str) -> float:
        return sum(
            max((point.slower_by for point in best_at(points, [name]).values()), default=0.0) for points in workloads
        )

    first, second = sorted(sorted(axes, key=cost, reverse=True)[:2], key=list(axes).index)
    return first, second


def best_at(points: Sequence[Point], names: Sequence[str]) -> dict[_Values, Point]:
    """Returns, for each combination of values of some params, its fastest point."""
    found: dict[_Values, Point] = {}
    for point in sorted(points, key=lambda point: point.slower_by, reverse=True):
        found[tuple(point.params[name] for name in names)] = point
    return found
