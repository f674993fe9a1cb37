"""Prints `gdnbench inspect`: tables, listings, loops, JSON or CSV; broken rules and notes go to stderr."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from gdnbench.codegen.sass import listing
from gdnbench.inspect.compiled import BuildOutcome, CompiledKernel, FailedBuild
from gdnbench.inspect.outline import OutermostLoop, loops_of
from gdnbench.inspect.quantities import BuildPair, Violation
from gdnbench.render.console import data_console, message_console, print_csv, print_json, print_text
from gdnbench.report.inspect.json import (
    change_rows,
    instruction_rows,
    kernel_document,
    kernel_with_schedule,
    pair_document,
    pair_with_schedules,
    schedule_change_rows,
)
from gdnbench.report.inspect.table import (
    LISTING_LEGEND,
    describe,
    detail_table,
    difference_table,
    not_built,
    pair_title,
    schedule_legend,
    schedule_listing,
    schedule_remarks,
    schedule_table,
    summary_table,
)

NOTHING_BUILT = "next: mend what the compiler rejects, and inspect again"
_MOST_COLUMNS = 4  # of one kernel, headed by architectures; names of several kernels are wider
_MOST_NAMED_COLUMNS = 3


def print_inspected(
    outcomes: Sequence[BuildOutcome], broken: tuple[Violation, ...], *, sass: bool, json: bool, csv: bool
) -> None:
    """Prints every kernel by itself."""
    if json:
        print_json([kernel_document(outcome, broken, sass=sass) for outcome in outcomes])
    elif csv:
        print_csv([kernel_document(outcome, broken, sass=sass) for outcome in outcomes])
    elif sass:
        _print_sass(outcomes)
    else:
        _print_tables(outcomes)
    print_violations(broken)


def print_changed(
    pairs: Sequence[BuildPair], broken: tuple[Violation, ...], *, sass: bool, json: bool, csv: bool
) -> None:
    """Prints every kernel beside its counterpart."""
    both = [outcome for pair in pairs for outcome in (pair.before, pair.after)]
    if json:
        print_json([pair_document(pair, broken, sass=sass) for pair in pairs])
    elif csv:
        print_csv([row for pair in pairs for row in change_rows(pair)])
        print_failures(both)
    elif sass:
        _print_sass_diffs(pairs)
        print_failures(both)
    else:
        _print_pairs(pairs)
    print_violations(broken)


def _print_sass_diffs(pairs: Sequence[BuildPair]) -> None:
    """Prints a unified diff per pair, as `diff` does; if the code is the same, only a message."""
    for pair in pairs:
        lines = pair.sass_diff()
        for line in lines:
            print_text(line)
        if pair.built and not lines:
            subject = pair.after.subject
            note = f"{subject.title} for {pair.after.arch}: the same code as {pair.before.subject.title}"
            message_console().print(note, markup=False)


def _print_tables(outcomes: Sequence[BuildOutcome]) -> None:
    console = data_console()
    built = [outcome for outcome in outcomes if isinstance(outcome, CompiledKernel)]
    one = len({(outcome.subject.title, outcome.subject.workload) for outcome in outcomes}) == 1
    whole = len(built) == len(outcomes) and len(built) <= (_MOST_COLUMNS if one else _MOST_NAMED_COLUMNS)
    console.print(detail_table(built) if whole else summary_table(outcomes))
    print_failures(outcomes, stderr=False)
    console.print(_next_step(built, whole), markup=False, soft_wrap=True)


def _next_step(built: Sequence[CompiledKernel], whole: bool) -> str:
    """Returns a narrower command: one kernel of several, one architecture of several launches, or the code."""
    if not built:
        return NOTHING_BUILT
    first = next((one for one in built if not one.subject.entry.kernel.floor), built[0])
    command = ["gdnbench", "inspect", first.subject.name]
    if whole or len({one.arch for one in built}) == len({one.subject.name for one in built}) == 1:
        command += ["--arch", first.arch, "--sass"]
    elif len({one.subject.name for one in built}) == 1:
        command += ["--arch", first.arch]
    return f"next: {shlex.join(command)}"


def _print_pairs(pairs: Sequence[BuildPair]) -> None:
    console = data_console()
    for pair in pairs:
        console.print(difference_table(pair))
    print_failures([outcome for pair in pairs for outcome in (pair.before, pair.after)], stderr=False)
    shown = next((pair for pair in pairs if pair.sass_diff()), pairs[0])
    name, other = shown.after.subject.name, shown.before.subject.name
    command = ["gdnbench", "inspect", name]
    if shown.sass_diff():
        # The earlier of two versions of one kernel is no longer there to be compared with.
        against = ["--diff", other] if other != name else []
        command += [*against, "--arch", shown.after.arch, "--sass"]
    console.print(f"next: {shlex.join(command)}", markup=False, soft_wrap=True)


def _print_sass(outcomes: Sequence[BuildOutcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, CompiledKernel):
            print_text(f"// {describe(outcome)} for {outcome.arch}, {outcome.resources.registers} registers")
            print_text(listing(outcome.sass))
    print_failures(outcomes)


def print_failures(outcomes: Sequence[BuildOutcome], *, stderr: bool = True) -> None:
    """Prints what did not build, and why; nothing if all did."""
    console = message_console() if stderr else data_console()
    for outcome in outcomes:
        if isinstance(outcome, FailedBuild):
            failure = f"{outcome.subject.title} {outcome.arch}: {outcome.error.message}"
            console.print(Text(failure, style="red"), soft_wrap=True)


def print_violations(broken: tuple[Violation, ...]) -> None:
    """Prints on stderr which rules are broken, and by which builds."""
    console = message_console()
    for violation in broken:
        console.print(Text(f"breaks {violation}", style="red"), soft_wrap=True)


def print_schedules(outcomes: Sequence[BuildOutcome], broken: tuple[Violation, ...], *, json: bool, csv: bool) -> None:
    """Prints each build's schedule: its numbers, then its code."""
    if json:
        print_json([kernel_with_schedule(outcome, broken) for outcome in outcomes])
    elif csv:
        print_csv([row for outcome in outcomes for row in instruction_rows(outcome)])
    else:
        for outcome in outcomes:
            _print_schedule(outcome)
    if not json:
        print_failures(outcomes)
    print_violations(broken)


def print_schedule_pairs(pairs: Sequence[BuildPair], broken: tuple[Violation, ...], *, json: bool, csv: bool) -> None:
    """Prints the numbers of each kernel's schedule beside its counterpart's."""
    if json:
        print_json([pair_with_schedules(pair, broken) for pair in pairs])
    elif csv:
        print_csv([row for pair in pairs for row in schedule_change_rows(pair)])
    else:
        _print_schedule_pairs(pairs)
    if not json:
        print_failures([outcome for pair in pairs for outcome in (pair.before, pair.after)])
    print_violations(broken)


def _print_schedule(outcome: BuildOutcome) -> None:
    if not isinstance(outcome, CompiledKernel):
        return
    found = outcome.milestones
    console = data_console()
    console.print(Text(describe(outcome), style="bold"), schedule_table([(outcome.arch, found)]), sep="\n")
    _print_lines(
        [*schedule_remarks(found), *schedule_legend(), "", *LISTING_LEGEND, *schedule_listing(outcome.schedule), ""]
    )


def _print_schedule_pairs(pairs: Sequence[BuildPair]) -> None:
    console = data_console()
    for pair in pairs:
        console.print(pair_title(pair))
        _print_schedule_pair(pair)
    if any(pair.built for pair in pairs):
        _print_lines(schedule_legend())
    console.print(_next_schedule([pair.after for pair in pairs]), markup=False, soft_wrap=True)


def _next_schedule(outcomes: Sequence[BuildOutcome]) -> str:
    shown = next((one for one in outcomes if isinstance(one, CompiledKernel)), None)
    if shown is None:
        return NOTHING_BUILT
    return f"next: {shlex.join(['gdnbench', 'inspect', shown.subject.name, '--schedule', '--arch', shown.arch])}"


def _print_schedule_pair(pair: BuildPair) -> None:
    console = data_console()
    both = [(one.subject.title, one.milestones) for one in pair.built]
    console.print(schedule_table(both) if both else not_built())
    for name, found in both:
        _print_lines(schedule_remarks(found, name))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print_text(line)


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
        _print_loop_tables(built)
    if not json:
        print_failures(outcomes)
    print_violations(broken)


def _print_loop_tables(built: Sequence[CompiledKernel]) -> None:
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
