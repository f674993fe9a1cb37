"""A run's kernels over a suite: one number each, with its interval."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.compare.suite import SuiteResult, SuiteRow
from gdnbench.model import Role
from gdnbench.report.run_table import VERDICT_STYLES, percent, time_text
from gdnbench.wording import plural


def print_suite(console: Console, result: SuiteResult, op: str) -> None:
    """Prints a row a kernel, the fastest first; the op's name is left out of the heading, as in a run's table."""
    workloads = ", ".join(f"{shape} (weight {weight:g})" for shape, weight in result.suite.weights.items())
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("kernel", overflow="fold")
    table.add_column("mean µs", justify="right", no_wrap=True)
    table.add_column(f"vs {_reference(result, op)}", justify="right")
    table.add_column("verdict", no_wrap=True)
    for row in result.rows:
        table.add_row(Text(row.label, style="cyan"), time_text(row.time_us), *_cells(row))
    console.print()
    console.print(Text(f"suite {result.suite.name}: {plural(len(result.suite.weights), 'workload')}", style="bold"))
    console.print(table)
    console.print(Text(f"weighted geometric means over {workloads}; paired by round", style="dim"))
    if result.incomplete:
        console.print(Text(f"not at every workload: {', '.join(result.incomplete)}", style="dim"))


def suite_document(result: SuiteResult) -> dict[str, Any]:
    """The same as a JSON document."""
    return {
        "name": result.suite.name,
        "workloads": [{**shape.axes(), "weight": weight} for shape, weight in result.suite.weights.items()],
        "over": list(result.over),
        "kernels": suite_rows(result),
        "incomplete": list(result.incomplete),
    }


def suite_rows(result: SuiteResult) -> list[dict[str, Any]]:
    """A row a kernel."""
    return [_row(row, result) for row in result.rows]


def _row(row: SuiteRow, result: SuiteResult) -> dict[str, Any]:
    versus = row.comparison
    return {
        "suite": result.suite.name,
        "label": row.label,
        "role": row.role.value,
        "time_us": row.time_us,
        "over": ",".join(result.over),
        "speedup": versus.speedup.estimate if versus else None,
        "speedup_lo": versus.speedup.low if versus else None,
        "speedup_hi": versus.speedup.high if versus else None,
        "verdict": versus.verdict.value if versus else "",
    }


def _reference(result: SuiteResult, op: str) -> str:
    names = [label.removeprefix(f"{op}-") for label in result.over]
    return names[0] if len(names) == 1 else f"the fastest of {', '.join(names)}"


def _cells(row: SuiteRow) -> tuple[Text, Text]:
    if row.role is Role.FLOOR:
        return Text(""), Text("floor")
    if row.comparison is None:
        return Text("1"), Text("baseline")
    speedup, verdict = row.comparison.speedup, row.comparison.verdict
    told = f"{speedup.estimate:.3f}x ±{percent(speedup.relative_half_width)}"
    return Text(told), Text(verdict.upper(), style=VERDICT_STYLES[verdict])
