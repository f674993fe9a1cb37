"""What `gdnbench inspect` prints: tables, listings, JSON or CSV; broken rules and notes go to stderr."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.text import Text

from gdnbench.binary.instruction import listing
from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.difference import Pair
from gdnbench.inspection.examine import Failure, Finding
from gdnbench.inspection.rules import Breach
from gdnbench.report.console import data_console, message_console, print_csv, print_json, print_text
from gdnbench.report.inspect_cells import NOTHING_BUILT, described
from gdnbench.report.inspect_detail import detail
from gdnbench.report.inspect_diff import changed
from gdnbench.report.inspect_rows import change_rows, pair_document, row
from gdnbench.report.inspect_summary import summary

_MOST_COLUMNS = 4  # of one kernel, headed by architectures; names of several kernels are wider
_MOST_NAMED_COLUMNS = 3


def print_inspected(
    findings: Sequence[Finding], broken: tuple[Breach, ...], *, sass: bool, json: bool, csv: bool
) -> None:
    """Prints every kernel by itself."""
    if json:
        print_json([row(finding, broken, sass=sass) for finding in findings])
    elif csv:
        print_csv([row(finding, broken, sass=sass) for finding in findings])
    elif sass:
        _print_sass(findings)
    else:
        _print_tables(findings)
    print_breaches(broken)


def print_changed(pairs: Sequence[Pair], broken: tuple[Breach, ...], *, sass: bool, json: bool, csv: bool) -> None:
    """Prints every kernel beside what it is compared with."""
    both = [finding for pair in pairs for finding in (pair.before, pair.after)]
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
    print_breaches(broken)


def _print_sass_diffs(pairs: Sequence[Pair]) -> None:
    """A unified diff each, as `diff` has it: nothing where the code is the same, of which a message says so."""
    for pair in pairs:
        lines = pair.sass_diff()
        for line in lines:
            print_text(line)
        if pair.built and not lines:
            subject = pair.after.subject
            told = f"{subject.name} for {pair.after.arch}: the same code as {pair.before.subject.name}"
            message_console().print(told, markup=False)


def _print_tables(findings: Sequence[Finding]) -> None:
    console = data_console()
    built = [finding for finding in findings if isinstance(finding, Anatomy)]
    one = len({(finding.subject.name, finding.subject.shape) for finding in findings}) == 1
    whole = len(built) == len(findings) and len(built) <= (_MOST_COLUMNS if one else _MOST_NAMED_COLUMNS)
    console.print(detail(built) if whole else summary(findings))
    print_failures(findings, stderr=False)
    console.print(_next(built, whole), markup=False, soft_wrap=True)


def _next(built: Sequence[Anatomy], whole: bool) -> str:
    if not built:
        return NOTHING_BUILT
    first = next((one for one in built if not one.subject.entry.kernel.floor), built[0])
    command = ["gdnbench", "inspect", first.subject.name]
    return f"next: {shlex.join([*command, '--arch', first.arch, '--sass'] if whole else command)}"


def _print_pairs(pairs: Sequence[Pair]) -> None:
    console = data_console()
    for pair in pairs:
        console.print(changed(pair))
    print_failures([finding for pair in pairs for finding in (pair.before, pair.after)], stderr=False)
    shown = next((pair for pair in pairs if pair.sass_diff()), pairs[0])
    name, other = shown.after.subject.name, shown.before.subject.name
    if not shown.sass_diff():
        command = ["gdnbench", "inspect", name]
    else:
        command = ["gdnbench", "inspect", name, "--diff", other, "--arch", shown.after.arch, "--sass"]
    console.print(f"next: {shlex.join(command)}", markup=False, soft_wrap=True)


def _print_sass(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if isinstance(finding, Anatomy):
            print_text(f"// {described(finding)} for {finding.arch}, {finding.resources.registers} registers")
            print_text(listing(finding.sass))
    print_failures(findings)


def print_failures(findings: Sequence[Finding], *, stderr: bool = True) -> None:
    """Says what did not build, and why; nothing if all did."""
    console = message_console() if stderr else data_console()
    for finding in findings:
        if isinstance(finding, Failure):
            said = f"{finding.subject.name} {finding.arch}: {finding.error.message}"
            console.print(Text(said, style="red"), soft_wrap=True)


def print_breaches(broken: tuple[Breach, ...]) -> None:
    """Says on stderr which rules are broken, and by whom."""
    console = message_console()
    for breach in broken:
        console.print(Text(f"breaks {breach}", style="red"), soft_wrap=True)
