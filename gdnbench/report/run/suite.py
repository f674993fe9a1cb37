"""Prints a run's kernels over a suite: the weighted geometric mean with its interval."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gdnbench.compare.suite import SuiteResult, SuiteRow
from gdnbench.report.console import plain_table
from gdnbench.report.run.text import VERDICT_STYLES, inputs_text
from gdnbench.report.units import factor, percent, plus_minus, time_unit
from gdnbench.wording import first_of, plural

MOST_NAMED = 8  # workloads of a suite that are named below its table


def print_suite(console: Console, result: SuiteResult, op: str) -> None:
    """Prints a row per kernel, fastest first; headings leave out the op's name, as in a run's table."""
    table = plain_table()
    table.add_column("kernel", overflow="fold")
    unit = time_unit(row.time_us for row in result.rows)
    table.add_column(f"mean {unit.name}", justify="right", no_wrap=True)
    table.add_column(f"vs {_reference(result, op)}", justify="right")
    table.add_column("verdict", no_wrap=True)
    if result.profiles:
        table.add_column("inputs", no_wrap=True)
    for row in result.rows:
        inputs = [Text(row.profile if row.comparison else "")] if result.profiles else []
        table.add_row(Text(row.label, style="cyan"), unit.text(row.time_us), *_cells(row), *inputs)
    console.print()
    console.print(Text(f"suite {result.suite.name}: {_extent(result)}{_profiles(result)}", style="bold"))
    if result.rows:
        console.print(table)
    for line in _notes(result):
        console.print(Text(line, style="dim"))


def _profiles(result: SuiteResult) -> str:
    """Returns the inputs: `, mixed-heads inputs`; for several, that each kernel is at its worst."""
    if len(result.profiles) < 2:
        return f", {result.profiles[0]} inputs" if result.profiles else ""
    return f", each kernel at its worst of {', '.join(result.profiles)} inputs"


def _extent(result: SuiteResult) -> str:
    workloads = plural(len(result.suite.weights), "workload")
    return f"{result.summed} of {workloads}" if result.left_out else workloads


def _notes(result: SuiteResult) -> list[str]:
    lines = []
    for row in result.rows:
        if row.worst:
            where = f"reads slower at {row.slower_at(result.margin)} of {plural(result.summed, 'workload')}"
            least = f"{factor(row.speedups[row.worst])} at {row.worst.titled}"
            lines.append(f"  {row.label}: {where}; worst {least}")
    if lines:
        lines.append(f"slower: by more than {percent(result.margin)}, whether or not its interval tells")
    if len(result.over) > 1:
        lines.append(f"best: at each workload, the fastest of {', '.join(result.over)}")
    dependent = [row for row in result.rows if row.inputs and row.inputs.depends]
    lines += [f"  {row.label}: {inputs_text(row.inputs)}, where most" for row in dependent if row.inputs]
    if len(result.profiles) > 1:
        lines.append(f"one distribution of inputs alone: --profile {result.profiles[0]}")
    if result.rows:
        lines.append(f"weighted geometric means over {_workloads(result)}; paired by round")
    if result.left_out:
        left_out = first_of([workload.titled for workload in result.left_out], MOST_NAMED)
        lines.append(f"left out for want of times: {left_out}")
    if result.incomplete:
        found = ", ".join(f"{label} (at {count})" for label, count in result.incomplete.items())
        lines.append(f"not at every workload: {found}")
    return lines


def _workloads(result: SuiteResult) -> str:
    """Names the workloads of the means, with their weights; for many, gives their number and where they are listed."""
    if result.summed > MOST_NAMED:
        rest = " that are left" if result.left_out else ""
        return f"the suite's {result.summed} workloads{rest}, whose weights --json has"
    weights = {each: weight for each, weight in result.suite.weights.items() if each not in result.left_out}
    return ", ".join(f"{workload.titled} (weight {weight:g})" for workload, weight in weights.items())


def _reference(result: SuiteResult, op: str) -> str:
    return result.over[0].removeprefix(f"{op}-") if len(result.over) == 1 else "best"


def _cells(row: SuiteRow) -> tuple[Text, Text]:
    """Returns ratio and verdict; if a kernel's time depends on the inputs, also the inputs of the verdict."""
    if not row.role.does_the_work:
        return Text(""), Text(row.role.value)
    if row.comparison is None:
        return Text("1"), Text("baseline")
    speedup, verdict = row.comparison.speedup, row.comparison.verdict
    ratio = factor(speedup.estimate) + plus_minus(speedup.relative_half_width)
    where = f" in {row.profile}" if row.inputs and row.inputs.depends else ""
    return Text(ratio), Text(f"{verdict.upper()}{where}", style=VERDICT_STYLES[verdict])
