"""A run's kernels over a suite: one number each, the weighted geometric mean, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gdnbench.compare.suite import SuiteResult, SuiteRow, judge_suite
from gdnbench.errors import UsageError
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Suite
from gdnbench.model.status import Role
from gdnbench.report.console import plain_table
from gdnbench.report.run.text import VERDICT_STYLES
from gdnbench.report.units import factor, plus_minus, time_unit
from gdnbench.store.info import RunInfo, suite_of
from gdnbench.store.samples import read_case_rounds
from gdnbench.wording import plural


def suite_of_run(
    folder: Path, info: RunInfo, measurements: Sequence[Measurement], asked: Suite | None, over: Sequence[str]
) -> SuiteResult | None:
    """Sums a run up by a suite; None if none was asked for, and the run measured none or has no time of its baseline.

    Args:
        folder: the run's.
        info: its description.
        measurements: its rows.
        asked: the suite that was asked for; by default the run's own.
        over: the kernels to compare with; by default the baseline.

    Raises:
        UsageError: for `over` without a suite, or if the run lacks workloads of the suite.
        UnknownNameError: for a kernel to compare with that the run does not have.
    """
    suite = asked or suite_of(info)
    if suite is None and over:
        raise UsageError("--over is for a suite", "as in --suite contest --over decode-fla")
    if suite is None or not (asked or any(row.timing and row.role is Role.BASELINE for row in measurements)):
        return None
    settings = info.settings
    return judge_suite(
        measurements,
        {case: found for (case, clock), found in read_case_rounds(folder).items() if clock is None},
        suite,
        op=info.op,
        over=over,
        margin=settings["margin"],
        confidence=settings["confidence"],
    )


def print_suite(console: Console, result: SuiteResult, op: str) -> None:
    """Prints a row for each kernel, fastest first; headings leave out the op's name, as in a run's table."""
    workloads = ", ".join(f"{workload.titled} (weight {weight:g})" for workload, weight in result.suite.weights.items())
    table = plain_table()
    table.add_column("kernel", overflow="fold")
    unit = time_unit(row.time_us for row in result.rows)
    table.add_column(f"mean {unit.name}", justify="right", no_wrap=True)
    table.add_column(f"vs {_reference(result, op)}", justify="right")
    table.add_column("verdict", no_wrap=True)
    for row in result.rows:
        table.add_row(Text(row.label, style="cyan"), unit.text(row.time_us), *_cells(row))
    console.print()
    console.print(Text(f"suite {result.suite.name}: {plural(len(result.suite.weights), 'workload')}", style="bold"))
    console.print(table)
    console.print(Text(f"weighted geometric means over {workloads}; paired by round", style="dim"))
    if result.incomplete:
        console.print(Text(f"not at every workload: {', '.join(result.incomplete)}", style="dim"))


def _reference(result: SuiteResult, op: str) -> str:
    names = [label.removeprefix(f"{op}-") for label in result.over]
    return names[0] if len(names) == 1 else f"the fastest of {', '.join(names)}"


def _cells(row: SuiteRow) -> tuple[Text, Text]:
    if row.role is Role.FLOOR:
        return Text(""), Text("floor")
    if row.comparison is None:
        return Text("1"), Text("baseline")
    speedup, verdict = row.comparison.speedup, row.comparison.verdict
    told = factor(speedup.estimate) + plus_minus(speedup.relative_half_width)
    return Text(told), Text(verdict.upper(), style=VERDICT_STYLES[verdict])
