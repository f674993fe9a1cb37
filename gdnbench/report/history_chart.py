"""A kernel's history as a chart in the terminal: its ratio to the anchor from run to run, steps marked."""

from __future__ import annotations

from rich.console import Console

from gdnbench.compare.changes import same_method
from gdnbench.compare.history import History
from gdnbench.report.history_table import short_id
from gdnbench.report.terminal import TerminalChart

FEWEST_RUNS = 3


def print_history_chart(console: Console, history: History) -> None:
    """Prints the chart of the runs that were measured as the last one was, where there are enough to have a course."""
    measured = [row for row in history.rows if row.ratio]
    rows = [row for row in measured if same_method(row.run, row.figure, measured[-1].run, measured[-1].figure)]
    if len(rows) < FEWEST_RUNS:
        return
    before = ", | before a step" if any(row.is_step for row in rows) else ""
    with TerminalChart(console, f"time / {history.anchor}, by run{before}") as chart:
        chart.line({place: row.ratio.estimate for place, row in enumerate(rows) if row.ratio})
        for place, row in enumerate(rows):
            if row.is_step:
                chart.upright(place - 0.5)
        chart.x_axis({place: short_id(row)[4:13] for place, row in enumerate(rows)})
