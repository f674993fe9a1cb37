"""The table of a kernel's phases and their durations."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from gdnbench.profilers.breakdown import BETWEEN, TOTAL, Breakdown, PhaseRow
from gdnbench.report.console import FittedTable
from gdnbench.report.units import percent

_COLUMNS = {"avg": "average", "min": "minimum", "p95": "p95", "max": "maximum", "spread": "spread"}


def breakdown_table(breakdown: Breakdown, heading: str) -> FittedTable:
    """Makes a line per phase, for the time between phases, and for the total; `heading` names the phases, `scope`."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(heading, no_wrap=True, overflow="ellipsis")
    table.add_column("share", justify="right", no_wrap=True)
    for title in _COLUMNS:
        unit = f" {breakdown.unit}" if title == "avg" else ""
        table.add_column(f"{title}{unit}", justify="right", no_wrap=True)
    for row in breakdown.rows():
        style = {BETWEEN: "dim", TOTAL: "bold"}.get(row.name, "")
        inside = "  " if row.name in breakdown.nested else ""
        cells = [_duration(getattr(row, field), breakdown.unit) for field in _COLUMNS.values()]
        table.add_row(*(Text(cell, style=style) for cell in (f"{inside}{row.name}", percent(row.share), *cells)))
    return FittedTable(table, ("min", "spread", "max", "p95"))


def breakdown_rows(breakdown: Breakdown) -> list[dict[str, Any]]:
    """Returns the same numbers as rows for JSON and CSV, with the unit in the names."""
    unit = "us" if breakdown.unit == "µs" else breakdown.unit
    return [_row(row, unit) for row in breakdown.rows()]


def _row(row: PhaseRow, unit: str) -> dict[str, Any]:
    durations = {f"{title}_{unit}": getattr(row, field) for title, field in _COLUMNS.items()}
    return {"name": row.name, "share": row.share, **durations}


def _duration(value: float, unit: str) -> str:
    return f"{value:.3f}" if unit == "µs" else f"{value:.0f}"
