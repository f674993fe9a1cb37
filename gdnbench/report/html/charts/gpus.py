"""The same kernels on different GPUs, side by side at one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdnbench.model import Measurement, Role
from gdnbench.report.html.charts.theme import COLOURS, SHAPES, chart_spec, tips
from gdnbench.report.html.content import Chart, Spec
from gdnbench.report.html.numbers import time_cell

ROW, AROUND = 19, 60  # pixels


def gpus_chart(columns: Sequence[tuple[str, Sequence[Measurement]]], *, name: str, where: str) -> Chart:
    """A row a kernel, a point a run; `columns` gives each run its name."""
    data = [
        _entry(row, run, index)
        for index, (run, rows) in enumerate(columns)
        for row in rows
        if row.timing and row.role is not Role.CONTROL
    ]
    kernels = dict.fromkeys(entry["kernel"] for entry in sorted(data, key=lambda entry: float(entry["time"])))
    height = ROW * len(kernels) + AROUND
    y = {"field": "kernel", "type": "nominal", "sort": list(kernels), "axis": {"title": None, "grid": True}}
    scale = {"type": "log", "nice": False, "padding": 12}
    axis = {"title": "time, µs (log)", "format": "~g", "labelOverlap": "greedy", "tickCount": 8}
    x = {"field": "time", "type": "quantitative", "scale": scale, "axis": axis}
    colour = f"'var(--c' + (datum.index % {COLOURS}) + ')'"
    mark: Spec = {
        "type": "point", "filled": True, "size": 64, "opacity": 1, "fill": {"expr": colour},
        "shape": {"expr": f"{list(SHAPES)}[datum.index % {len(SHAPES)}]"},
    }  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "rule", "stroke": {"expr": colour}},
         "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}}},
        {"mark": mark, "encoding": {"y": y, "x": x, "tooltip": tips(kernel="kernel", run="run", text="time, µs")}},
    ]  # fmt: skip
    signs = "; ".join(f"{SHAPES[index % len(SHAPES)]}: {run}" for index, (run, _) in enumerate(columns))
    return Chart(
        id=name, title="Time by GPU", note=f"{signs}.", spec=chart_spec(data, layers, height, f"Time by GPU, {where}"),
        height=height,
    )  # fmt: skip


def _entry(row: Measurement, run: str, index: int) -> dict[str, Any]:
    timing = row.timing
    assert timing
    cell = time_cell(timing.time_us, timing.time_lo_us, timing.time_hi_us)
    return {
        "kernel": row.case.label,
        "run": run,
        "index": index,
        "time": timing.time_us,
        "low": timing.time_lo_us,
        "high": timing.time_hi_us,
        "text": f"{cell.text} {cell.aside}",
    }
