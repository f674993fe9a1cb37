"""Speed-of-light bars: how much of the copying floor's speed each kernel reaches at a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gdnbench.model import Measurement, Role
from gdnbench.report.html.charts.theme import chart_spec, tips
from gdnbench.report.html.content import Chart, Spec
from gdnbench.report.html.numbers import GLYPHS, time_cell

BAR, AROUND = 17, 44  # pixels: a bar, and the axis with the paddings
ROOM = 1.36  # times the longest bar, for a column of labels


def light_chart(rows: Sequence[Measurement], *, name: str, where: str) -> Chart | None:
    """Bars of a shape's kernels, fastest first; None where no speed of light is known."""
    data = [entry for row in rows if row.role is not Role.FLOOR for entry in _entries(row)]
    if not data:
        return None
    height = BAR * len(data) + AROUND
    fastest = max(1.0, *(float(entry["sol"]) for entry in data))
    return Chart(
        id=name,
        title="Speed of light",
        note="Time of the copying floor / time of the kernel. "
        "The sign is the verdict against the baseline, the contrasting bar.",
        spec=chart_spec(data, _layers(fastest), height, f"Speed of light of each kernel, {where}"),
        height=height,
    )


def _entries(row: Measurement) -> list[dict[str, Any]]:
    timing = row.timing
    if timing is None or math.isnan(timing.sol):
        return []
    verdict = row.versus.verdict if row.versus else ""
    time = time_cell(timing.time_us, timing.time_lo_us, timing.time_hi_us)
    return [
        {
            "kernel": row.case.label,
            "sol": timing.sol,
            "label": f"{timing.sol:.1%} {GLYPHS.get(verdict, '')}",
            "time": f"{time.text} {time.aside}",
            "verdict": verdict.upper() or "BASELINE",
            "baseline": row.role is Role.BASELINE,
        }
    ]


def _layers(fastest: float) -> list[Spec]:
    y = {"field": "kernel", "type": "nominal", "sort": None, "axis": {"title": None, "ticks": False, "domain": False}}
    x = {"field": "sol", "type": "quantitative", "scale": {"domain": [0, ROOM * fastest], "nice": False}}
    axis = {"title": None, "format": ".0%", "values": [0, 0.25, 0.5, 0.75, 1]}
    tooltip = tips(kernel="kernel", label="speed of light", time="time, µs", verdict="verdict")
    bars: Spec = {"type": "bar", "height": {"band": 0.68}, "fill": {"expr": _FILL}}
    return [
        {"mark": bars, "encoding": {"y": y, "x": {**x, "axis": axis}, "tooltip": tooltip}},
        {
            "mark": {"type": "text", "align": "right", "fill": "var(--ink)"},
            "encoding": {"y": y, "x": {"datum": ROOM * fastest}, "text": {"field": "label"}},
        },
        {"mark": {"type": "rule", "stroke": "var(--floor)", "strokeDash": [5, 4]}, "encoding": {"x": {"datum": 1}}},
    ]


_FILL = "datum.baseline ? 'var(--ink)' : 'var(--bar)'"
