"""Prints `gdnbench inspect --loops`: a line per outermost loop of each build."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from gdnbench.inspection.compiled import BuildOutcome, CompiledKernel
from gdnbench.inspection.loops import OutermostLoop, loops_of
from gdnbench.inspection.quantities import Violation
from gdnbench.report.console import data_console, print_csv, print_json
from gdnbench.report.inspect.json import kernel_document
from gdnbench.report.inspect.output import NOTHING_BUILT, print_failures, print_violations
from gdnbench.report.inspect.table import describe

_LEGEND = (
    "loops that lie in no other, by the line that goes back; a trip: instructions\n"
    "on the shortest and on the longest way round; what the loop has: all of its\n"
    "code, that of loops within it once"
)
_UNKNOWN = "line unknown"


def print_loops(outcomes: Sequence[BuildOutcome], broken: tuple[Violation, ...], *, json: bool, csv: bool) -> None:
    """Prints the loops of each build; raises MachineError if `nvdisasm` is absent or cannot read a cubin."""
    built = [outcome for outcome in outcomes if isinstance(outcome, CompiledKernel)]
    if json:
        print_json([_document(outcome, broken) for outcome in outcomes])
    elif csv:
        print_csv([row for compiled in built for row in _rows(compiled)])
    else:
        _print_tables(built)
    if not json:
        print_failures(outcomes)
    print_violations(broken)


def _print_tables(built: Sequence[CompiledKernel]) -> None:
    console = data_console()
    for compiled in built:
        console.print(Text(f"{describe(compiled)} for {compiled.arch}", style="bold"))
        if loops := loops_of(compiled):
            console.print(_table(loops), Text(_LEGEND, style="dim"), sep="\n")
        else:
            console.print("no loops: each instruction is issued once at most")
    first = built[0] if built else None
    command = ["gdnbench", "inspect", first.subject.name, "--arch", first.arch, "--sass"] if first else []
    console.print(f"next: {shlex.join(command)}" if command else NOTHING_BUILT, markup=False, soft_wrap=True)


def _table(loops: Sequence[OutermostLoop]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("loop", no_wrap=True)
    table.add_column("a trip", justify="right", no_wrap=True)
    table.add_column("what the loop has")
    for loop in loops:
        least, most = loop.trip.shortest, loop.trip.longest
        trip = str(least) if least == most else f"{least}-{most}"
        counts = ", ".join(f"{count} {name}" for name, count in loop.families.items())
        table.add_row(Text(str(loop.line or _UNKNOWN)), Text(trip), Text(counts))
    return table


def _document(outcome: BuildOutcome, broken: tuple[Violation, ...]) -> dict[str, Any]:
    known = kernel_document(outcome, broken)
    if not isinstance(outcome, CompiledKernel):
        return known
    return known | {"loops": [_loop(loop) for loop in loops_of(outcome)]}


def _loop(loop: OutermostLoop) -> dict[str, Any]:
    return {
        "line": str(loop.line) if loop.line else None,
        "shortest_trip_instructions": loop.trip.shortest,
        "longest_trip_instructions": loop.trip.longest,
        "loops_within": loop.within,
        "instructions": loop.instructions,
        "families": dict(loop.families),
    }


def _rows(compiled: CompiledKernel) -> list[dict[str, Any]]:
    subject = {"kernel": compiled.subject.title, "workload": str(compiled.subject.workload), "arch": compiled.arch}
    rows = []
    for number, loop in enumerate(loops_of(compiled), 1):
        known = {name: value for name, value in _loop(loop).items() if name != "families"}
        rows += [
            {**subject, "loop": number, **known, "family": family, "count": count}
            for family, count in loop.families.items()
        ]
    return rows
