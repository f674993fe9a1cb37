"""The causes that `gdnbench explain` found: as text, each with its evidence and what to try, as JSON or as CSV."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gdnbench.diagnose.evidence import Basis, Evidence, RunTimes
from gdnbench.diagnose.experiment import measure, profile
from gdnbench.diagnose.finding import EvidenceLine, Finding
from gdnbench.model.code import CodeState
from gdnbench.places import in_places
from gdnbench.profilers.ncu.rules import estimated_speedups
from gdnbench.report.console import data_console, print_csv, print_json, print_next
from gdnbench.report.counters import rule_text, value_text
from gdnbench.report.phrases import OTHER_CODE, other_code
from gdnbench.report.units import time_text


def print_explained(
    evidence: Evidence, findings: Sequence[Finding], results: Path, profiles: Path, *, json: bool, csv: bool
) -> None:
    """Prints what was found, most important first.

    Args:
        evidence: what it was found in.
        findings: the causes, ranked.
        results: where runs lie, for the commands that are proposed.
        profiles: where profiles lie, likewise.
        json: as a JSON document.
        csv: as rows of CSV.
    """
    following = in_places(_next(evidence, findings), results, profiles)
    findings = [_placed(finding, results, profiles) for finding in findings]
    if json:
        print_json(_findings_document(evidence, findings) | {"next": shlex.join(following)})
    elif csv:
        print_csv(
            [row for place, finding in enumerate(findings, start=1) for row in _finding_rows(evidence, finding, place)]
        )
    else:
        console = data_console()
        _print_findings(console, evidence, findings)
        print_next(console, following)


def _placed(finding: Finding, results: Path, profiles: Path) -> Finding:
    command = in_places(finding.experiment.command, results, profiles)
    return replace(finding, experiment=replace(finding.experiment, command=command))


def _next(evidence: Evidence, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What would sharpen the answer; the first experiment where all evidence is there, and of the code as it is now."""
    if evidence.profile is None or evidence.profile_code is CodeState.CHANGED:
        return profile(evidence).command
    if evidence.own_times is None or not findings:
        return measure(evidence).command
    return findings[0].experiment.command


_WIDEST = 80  # columns: sentences are hard to read in wider ones
_INDENT, _TRY, _NAMES = 3, 8, 8

_SHARES: dict[Basis, str] = {
    "counters": "{:.0%} of the cycles",
    "times": "{:.0%} of the time",
    "code": "up to {:.0%} of the time, by the code",
}


def _print_findings(console: Console, evidence: Evidence, findings: Sequence[Finding]) -> None:
    """Prints the answer, top to bottom; commands are never broken, so that they can be copied."""
    room = min(console.width, _WIDEST)
    console.print(Text(f"{evidence.label}  {evidence.workload}", style="bold"))
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
        for hint in evidence.hints_on(finding.rule):
            _print_prose(console, f"{'':{_INDENT}}for this op: {hint}", room, _INDENT)
    if not findings:
        console.print("no cause stands out: no rule finds one that explains a twentieth of the time")
    console.print()


def _print_prose(console: Console, text: str, room: int, indent: int, style: str = "") -> None:
    for line in wrap(text, room, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False):
        console.print(Text(line, style=style), soft_wrap=True)


def _known(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is known, and what it is called; a line without a name qualifies the one above."""
    profile, compiled, measured, cycles = evidence.profile, evidence.compiled, evidence.measured, evidence.cycles
    if profile:
        duration = value_text(evidence.counter("duration_us"), "µs")
        yield ("ncu", f"{profile.gpu}, {profile.function}, {duration} µs: {evidence.profile_path}")
    if profile and evidence.profile_code is CodeState.CHANGED:
        yield ("", other_code(evidence.label))
    if cycles:
        parts = (
            ("the launch", cycles.launch),
            ("SMs unevenly busy", cycles.uneven),
            ("no warp", cycles.empty),
            ("warps wait", cycles.waiting),
            ("issuing", cycles.issuing),
        )
        yield ("cycles", ", ".join(f"{name} {share:.0%}" for name, share in parts))
    elif profile:
        yield ("cycles", "the report lacks counters of them: profile with `--set full`")
    if profile and (results := estimated_speedups([profile])):
        yield ("NVIDIA", f"rules estimate at most {rule_text(results[0]).strip()}")
    if compiled:
        whose = f"{compiled.subject.title}, " if compiled.subject.launch else ""
        yield (
            "code",
            f"{whose}{compiled.arch}, {compiled.resources.registers} registers, {evidence.launch or 'no GPU'}",
        )
    if measured:
        yield ("run", _times(measured))
        if measured.code is CodeState.CHANGED:
            yield ("", other_code(evidence.label))
        if measured.gain:
            yield ("gain", _gain(measured))


def _times(measured: RunTimes) -> str:
    floors = [(label, measured.times_us[label]) for label in (measured.copy, measured.empty) if label]
    told = "".join(f"; {label} {time_text(time)}{_other(label, measured)}" for label, time in floors)
    return f"{measured.run_id}: {time_text(measured.time_us)} µs{told}"


def _other(label: str, measured: RunTimes) -> str:
    return f" ({OTHER_CODE})" if label in measured.changed else ""


def _gain(measured: RunTimes) -> str:
    bound = f"{measured.copy} takes" if measured.flops_us is None else "FLOPs at the GPU's peak take"
    taken = f"{bound} {time_text(measured.bound_us or 0)} of {time_text(measured.time_us)} µs"
    return f"at most {measured.gain:.0%}{_whose(measured.code)}: {taken}"


def _whose(code: CodeState) -> str:
    """A word behind a number that is not of the code as it is now."""
    return f", {OTHER_CODE}" if code is CodeState.CHANGED else ""


def _facts(facts: Sequence[EvidenceLine], width: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), width=width)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for each in facts:
        table.add_row(Text(each.title), _value(each), Text(each.note, style="dim"))
    return table


def _value(each: EvidenceLine) -> str:
    text = value_text(float(each.value), each.unit)
    return text if each.unit in {"B", "B/s", "x", ""} else f"{text} {each.unit}"


def _identity(evidence: Evidence) -> dict[str, Any]:
    return {"kernel": evidence.variant.kernel, "label": evidence.label, **evidence.workload.cells}


def _findings_document(evidence: Evidence, findings: Sequence[Finding]) -> dict[str, Any]:
    """What is known of a kernel, and what was found in it, most important first."""
    measured, cycles, compiled = evidence.measured, evidence.cycles, evidence.compiled
    rules = evidence.profile.rules if evidence.profile else ()
    return {
        **_identity(evidence),
        "params": dict(evidence.variant.params),
        "evidence": {
            "profile": evidence.profile_path,
            "profile_code": evidence.profile_code if evidence.profile else None,
            "gpu": evidence.profile.gpu if evidence.profile else measured.gpu if measured else None,
            "function": evidence.profile.function if evidence.profile else None,
            "arch": compiled.arch if compiled else None,
            **({"rules": [asdict(rule) for rule in rules]} if rules else {}),
            "run": asdict(measured) if measured else None,
        },
        "launch": asdict(evidence.launch) if evidence.launch else None,
        "account": asdict(cycles) if cycles else None,
        "gain": measured.gain if measured else None,
        "findings": [_finding(evidence, finding) for finding in findings],
        "warnings": evidence.warnings,
    }


def _finding(evidence: Evidence, finding: Finding) -> dict[str, Any]:
    experiment = {"command": shlex.join(finding.experiment.command), "why": finding.experiment.why}
    return {
        **asdict(finding),
        "code": evidence.code_of(finding.basis),
        "experiment": experiment,
        "hints": evidence.hints_on(finding.rule),
    }


def _finding_rows(evidence: Evidence, finding: Finding, place: int) -> list[dict[str, Any]]:
    """A row for each line of evidence, with the finding that it belongs to."""
    return [
        {
            **_identity(evidence),
            "place": place,
            "rule": finding.rule,
            "title": finding.title,
            "share": finding.share,
            "basis": finding.basis,
            "code": evidence.code_of(finding.basis).value,
            **asdict(each),
            "meaning": finding.meaning,
            "try": shlex.join(finding.experiment.command),
            "hints": " ".join(evidence.hints_on(finding.rule)),
            "warnings": "; ".join(evidence.warnings),
        }
        for each in finding.facts
    ]
