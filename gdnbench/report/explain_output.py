"""What `gdnbench explain` prints: findings as text, JSON or CSV."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.experiment import measure, profile
from gdnbench.diagnose.finding import Finding
from gdnbench.model import CodeState
from gdnbench.places import in_places
from gdnbench.report.console import data_console, print_csv, print_json, print_next
from gdnbench.report.explain_text import print_findings


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
        print_json(_document(evidence, findings) | {"next": shlex.join(following)})
    elif csv:
        print_csv([row for place, finding in enumerate(findings, start=1) for row in _rows(evidence, finding, place)])
    else:
        console = data_console()
        print_findings(console, evidence, findings)
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


def _identity(evidence: Evidence) -> dict[str, Any]:
    return {"kernel": evidence.variant.kernel, "label": evidence.label, **evidence.shape.axes()}


def _document(evidence: Evidence, findings: Sequence[Finding]) -> dict[str, Any]:
    measured, account, anatomy = evidence.measured, evidence.account, evidence.anatomy
    return {
        **_identity(evidence),
        "params": dict(evidence.variant.params),
        "evidence": {
            "profile": evidence.profile_path,
            "profile_code": evidence.profile_code if evidence.profile else None,
            "gpu": evidence.profile.gpu if evidence.profile else measured.gpu if measured else None,
            "function": evidence.profile.function if evidence.profile else None,
            "arch": anatomy.arch if anatomy else None,
            "run": asdict(measured) if measured else None,
        },
        "launch": asdict(evidence.launch) if evidence.launch else None,
        "account": asdict(account) if account else None,
        "gain": measured.gain if measured else None,
        "findings": [_finding(evidence, finding) for finding in findings],
        "warnings": evidence.warnings,
    }


def _finding(evidence: Evidence, finding: Finding) -> dict[str, Any]:
    experiment = {"command": shlex.join(finding.experiment.command), "why": finding.experiment.why}
    return {**asdict(finding), "code": evidence.code_of(finding.basis), "experiment": experiment}


def _rows(evidence: Evidence, finding: Finding, place: int) -> list[dict[str, Any]]:
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
            "warnings": "; ".join(evidence.warnings),
        }
        for each in finding.facts
    ]
