"""What all charts share: fonts, colours as CSS variables, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdnbench.report.html.content import Spec

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
COLOURS = 9  # as many as the style sheet has: --c0 to --c8
SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down")  # as many as are told apart at a glance

CONFIG: Spec = {
    "font": FONT,
    "background": None,
    "padding": {"left": 2, "right": 6, "top": 4, "bottom": 2},
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)",
        "titleColor": "var(--muted)",
        "gridColor": "var(--grid)",
        "domainColor": "var(--rule)",
        "tickColor": "var(--rule)",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "labelLimit": 170,
    },
    "text": {"fontSize": 11, "fill": "var(--ink)"},
}

# The index of a kernel among those shown picks its colour, and its shape once the colours are used up.
_SLOT = "indexof(shown, datum.kernel)"
STROKE = {"expr": f"datum.kernel === baseline ? 'var(--ink)' : 'var(--c' + ({_SLOT} % {COLOURS}) + ')'"}
POINT = {"expr": f"{list(SHAPES)}[max(0, {_SLOT}) % {len(SHAPES)}]"}
WIDTH = {"expr": "lit === datum.kernel ? 3.5 : 1.8"}
OPACITY = {"expr": "lit && lit !== datum.kernel ? 0.18 : 1"}
SHOWN = {"filter": f"datum.kernel === baseline && indexof(shown, baseline) >= 0 || {_SLOT} >= 0"}


def chart_spec(
    data: Sequence[Mapping[str, Any]], layers: Sequence[Spec], height: int, description: str, **more: Any
) -> Spec:
    """A chart as wide as its place on the page and as high as was reserved."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
        "data": {"values": list(data)},
        "layer": list(layers),
        "config": CONFIG,
        **more,
    }


def picked(shown: Sequence[str], baseline: str) -> list[Spec]:
    """The params that the page's list of kernels sets: which are shown, and which is pointed at."""
    return [
        {"name": "shown", "value": list(shown)},
        {"name": "baseline", "value": baseline},
        {"name": "lit", "value": ""},
    ]


def tips(**fields: str) -> list[Spec]:
    """What a tooltip says: a title for each field."""
    return [{"field": name, "title": title, "type": "nominal"} for name, title in fields.items()]
