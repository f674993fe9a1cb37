"""A run: its charts, and for each shape its bars, its samples and its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdnbench.model import Shape
from gdnbench.report.html.builds import builds_table
from gdnbench.report.html.charts.light import light_chart
from gdnbench.report.html.charts.samples import read_quantiles, samples_chart
from gdnbench.report.html.charts.times import times_charts
from gdnbench.report.html.columns import run_table
from gdnbench.report.html.content import Part, Section
from gdnbench.report.html.default_set import choices_of
from gdnbench.report.html.failures import control_line, failures_of
from gdnbench.report.html.lead_line import lead_line
from gdnbench.report.html.slug import shape_slug
from gdnbench.report.html.stored import Stored, timed
from gdnbench.stats import FloatArray


def run_section(stored: Stored, prefix: str) -> Section:
    """One run; `prefix` begins the ids of everything in it."""
    info = stored.info
    picker = f"{prefix}-kernels"
    choices = choices_of(stored.rows, info.baseline)
    shown = [choice.label for choice in choices if choice.chosen]
    quantiles = read_quantiles(stored.folder)
    charts = times_charts(stored.rows, prefix=prefix, picker=picker, shown=shown, baseline=info.baseline)
    parts = tuple(_part(stored, shape, prefix, picker, shown, quantiles) for shape in stored.shapes)
    following = [chart for chart in (*charts, *(chart for part in parts for chart in part.charts)) if chart.picker]
    return Section(
        id=prefix,
        title=info.run_id,
        lead=lead_line(stored),
        badge="" if info.complete else "partial",
        warnings=tuple(info.warnings),
        choices=choices if following else (),
        charts=tuple(charts),
        table=None if stored.on_gpu else builds_table(stored.builds, f"{prefix}-builds"),
        parts=parts,
    )


def _part(
    stored: Stored,
    shape: Shape,
    prefix: str,
    picker: str,
    shown: Sequence[str],
    quantiles: Mapping[str, FloatArray],
) -> Part:
    rows, name = stored.at(shape), f"{prefix}-{shape_slug(shape)}"
    ordered = timed(rows)
    bars = light_chart(ordered, name=f"{name}-sol", where=str(shape))
    curves = samples_chart(
        ordered,
        quantiles,
        name=f"{name}-samples",
        picker=picker,
        shown=shown,
        baseline=stored.info.baseline,
        where=str(shape),
        height=bars.height if bars else 0,
    )
    return Part(
        id=name,
        title=f"{shape}  ({max(row.nbytes for row in rows) / 1e6:.3g} MB)",
        lines=tuple(filter(None, [control_line(rows)])),
        charts=tuple(chart for chart in (bars, curves) if chart),
        table=run_table(stored.info, ordered, name=f"{name}-table", where=str(shape)) if ordered else None,
        failures=failures_of(rows),
    )
