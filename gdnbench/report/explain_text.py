"""Findings as people read them: what is known, then each cause with its evidence, its meaning and what to try."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gdnbench.diagnose.evidence import Evidence, Measured
from gdnbench.diagnose.finding import Basis, Fact, Finding
from gdnbench.model import CodeState
from gdnbench.report.ncu_cells import value_text
from gdnbench.report.other_code import OTHER_CODE, other_code
from gdnbench.report.run_table import time_text

_WIDEST = 80  # columns: sentences are hard to read in wider ones
_INDENT, _TRY, _NAMES = 3, 8, 8

_SHARES: dict[Basis, str] = {
    "counters": "{:.0%} of the cycles",
    "times": "{:.0%} of the time",
    "code": "up to {:.0%} of the time, by the code",
}


def print_findings(console: Console, evidence: Evidence, findings: Sequence[Finding]) -> None:
    """Prints the answer, top to bottom; commands are never broken, so that they can be copied."""
    room = min(console.width, _WIDEST)
    console.print(Text(f"{evidence.label}  {evidence.shape}", style="bold"))
    for name, said in _known(evidence):
        _print_prose(console, f"{name:<{_NAMES}}{said}", room, _NAMES, "" if name else "yellow")
    for warning in evidence.warnings:
        _print_prose(console, f"warning: {warning}", room, _NAMES, "yellow")
    for place, finding in enumerate(findings, start=1):
        share = _SHARES[finding.basis].format(finding.share) + _whose(evidence.code_of(finding.basis))
        console.print()
        console.print(Text.assemble((f"{place}. {finding.title}", "bold"), f"  ({share})"), soft_wrap=True)
        console.print(Padding(_facts(finding.facts, room - _INDENT), (0, 0, 0, _INDENT), expand=False))
        _print_prose(console, f"{'':{_INDENT}}{finding.meaning}", room, _INDENT)
        command = shlex.join(finding.experiment.command)
        console.print(Text.assemble(" " * _INDENT, ("try: ", "bold"), command), soft_wrap=True)
        _print_prose(console, f"{'':{_TRY}}{finding.experiment.why}", room, _TRY, "dim")
    if not findings:
        console.print("no cause stands out: no rule finds one that explains a twentieth of the time")
    console.print()


def _print_prose(console: Console, text: str, room: int, indent: int, style: str = "") -> None:
    for line in wrap(text, room, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False):
        console.print(Text(line, style=style), soft_wrap=True)


def _known(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is known, and what it is called; a line without a name qualifies the one above."""
    profile, anatomy, measured, account = evidence.profile, evidence.anatomy, evidence.measured, evidence.account
    if profile:
        duration = value_text(evidence.counter("duration_us"), "µs")
        yield ("ncu", f"{profile.gpu}, {profile.function}, {duration} µs: {evidence.profile_path}")
    if profile and evidence.profile_code is CodeState.CHANGED:
        yield ("", other_code(evidence.label))
    if account:
        parts = (
            ("the launch", account.launch),
            ("SMs unevenly busy", account.uneven),
            ("no warp", account.empty),
            ("warps wait", account.waiting),
            ("issuing", account.issuing),
        )
        yield ("cycles", ", ".join(f"{name} {share:.0%}" for name, share in parts))
    elif profile:
        yield ("cycles", "the report lacks counters of them: profile with `--set full`")
    if anatomy:
        yield ("code", f"{anatomy.arch}, {anatomy.resources.registers} registers, {evidence.launch or 'no GPU'}")
    if measured:
        yield ("run", _times(measured))
        if measured.code is CodeState.CHANGED:
            yield ("", other_code(evidence.label))
        if measured.gain:
            yield ("gain", _gain(measured))


def _times(measured: Measured) -> str:
    floors = [(label, measured.times_us[label]) for label in (measured.copy, measured.empty) if label]
    told = "".join(f"; {label} {time_text(time)}{_other(label, measured)}" for label, time in floors)
    return f"{measured.run_id}: {time_text(measured.time_us)} µs{told}"


def _other(label: str, measured: Measured) -> str:
    return f" ({OTHER_CODE})" if label in measured.changed else ""


def _gain(measured: Measured) -> str:
    taken = f"{measured.copy} takes {time_text(measured.copy_us or 0)} of {time_text(measured.time_us)} µs"
    return f"at most {measured.gain:.0%}{_whose(measured.code)}: {taken}"


def _whose(code: CodeState) -> str:
    """A word behind a number that is not of the code as it is now."""
    return f", {OTHER_CODE}" if code is CodeState.CHANGED else ""


def _facts(facts: Sequence[Fact], width: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), width=width)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for each in facts:
        table.add_row(Text(each.title), _value(each), Text(each.note, style="dim"))
    return table


def _value(each: Fact) -> str:
    text = value_text(float(each.value), each.unit)
    return text if each.unit in {"B", "B/s", "x", ""} else f"{text} {each.unit}"
