"""What `gdnbench inspect --schedule` prints: what ptxas scheduled, one kernel at a time or two side by side."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.difference import Pair
from gdnbench.inspection.examine import Finding
from gdnbench.inspection.rules import Breach
from gdnbench.report.console import data_console, print_csv, print_json, print_text
from gdnbench.report.inspect_cells import NOTHING_BUILT, described
from gdnbench.report.inspect_diff import not_both, title
from gdnbench.report.inspect_output import print_breaches, print_failures
from gdnbench.report.inspect_rows import change_row, identity, pair_document, pair_identity, row
from gdnbench.report.schedule_listing import LEGEND as LISTING_LEGEND
from gdnbench.report.schedule_listing import schedule_listing
from gdnbench.report.schedule_rows import changes, facts, instruction_rows
from gdnbench.report.schedule_table import legend, remarks, table


def print_schedules(findings: Sequence[Finding], broken: tuple[Breach, ...], *, json: bool, csv: bool) -> None:
    """Prints each build's schedule: what it comes to, then its code."""
    if json:
        print_json([_document(finding, broken) for finding in findings])
    elif csv:
        print_csv([row for finding in findings for row in _instructions(finding)])
    else:
        for finding in findings:
            _print_one(finding)
    if not json:
        print_failures(findings)
    print_breaches(broken)


def print_schedule_pairs(pairs: Sequence[Pair], broken: tuple[Breach, ...], *, json: bool, csv: bool) -> None:
    """Prints what each kernel's schedule comes to beside that of what it is compared with."""
    if json:
        print_json([_pair_document(pair, broken) for pair in pairs])
    elif csv:
        print_csv([row for pair in pairs for row in _changes(pair)])
    else:
        _print_pairs(pairs)
    if not json:
        print_failures([finding for pair in pairs for finding in (pair.before, pair.after)])
    print_breaches(broken)


def _document(finding: Finding, broken: tuple[Breach, ...]) -> dict[str, Any]:
    listing = {"instructions": instruction_rows(finding.schedule)} if isinstance(finding, Anatomy) else {}
    return row(finding, broken) | _schedule_document(finding, listing)


def _schedule_document(finding: Finding, listing: dict[str, Any]) -> dict[str, Any]:
    return {"schedule": facts(finding.order) | listing} if isinstance(finding, Anatomy) else {}


def _pair_document(pair: Pair, broken: tuple[Breach, ...]) -> dict[str, Any]:
    known = pair_document(pair, broken, sass=False)
    both = {"before": pair.before, "after": pair.after}
    return known | {key: known[key] | _schedule_document(one, {}) for key, one in both.items()}


def _instructions(finding: Finding) -> list[dict[str, Any]]:
    if not isinstance(finding, Anatomy):
        return []
    return [{**identity(finding), **one} for one in instruction_rows(finding.schedule)]


def _changes(pair: Pair) -> list[dict[str, Any]]:
    found = changes(*(one.order for one in pair.built)) if pair.built else []
    return [{**pair_identity(pair), **change_row(change)} for change in found]


def _print_one(finding: Finding) -> None:
    if not isinstance(finding, Anatomy):
        return
    found = finding.order
    console = data_console()
    console.print(Text(described(finding), style="bold"), table([(finding.arch, found)]), sep="\n")
    _print_lines([*remarks(found), *legend(), "", *LISTING_LEGEND, *schedule_listing(finding.schedule), ""])


def _print_pairs(pairs: Sequence[Pair]) -> None:
    console = data_console()
    for pair in pairs:
        console.print(title(pair))
        _print_pair(pair)
    if any(pair.built for pair in pairs):
        _print_lines(legend())
    console.print(_next([pair.after for pair in pairs]), markup=False, soft_wrap=True)


def _next(findings: Sequence[Finding]) -> str:
    shown = next((one for one in findings if isinstance(one, Anatomy)), None)
    if shown is None:
        return NOTHING_BUILT
    return f"next: {shlex.join(['gdnbench', 'inspect', shown.subject.name, '--schedule', '--arch', shown.arch])}"


def _print_pair(pair: Pair) -> None:
    console = data_console()
    both = [(one.subject.name, one.order) for one in pair.built]
    console.print(table(both) if both else not_both())
    for name, found in both:
        _print_lines(remarks(found, name))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print_text(line)
