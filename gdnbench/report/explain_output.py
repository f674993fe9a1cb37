"""What `gdnbench explain` prints: findings as text, JSON or CSV."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.experiment import measure, profile
from gdnbench.diagnose.finding import Finding
from gdnbench.report.console import data_console, print_csv, print_json
from gdnbench.report.explain_text import print_findings


def print_explained(evidence: Evidence, findings: Sequence[Finding], *, json: bool, csv: bool) -> None:
    """Prints what was found, most important first."""
    if json:
        print_json(_document(evidence, findings))
    elif csv:
        print_csv([row for place, finding in enumerate(findings, start=1) for row in _rows(evidence, finding, place)])
    else:
        console = data_console()
        print_findings(console, evidence, findings)
        console.print(f"next: {shlex.join(_next(evidence, findings))}", markup=False, soft_wrap=True)


def _next(evidence: Evidence, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What would sharpen the answer; the first experiment where all evidence is there."""
    if evidence.profile is None:
        return profile(evidence).command
    if evidence.measured is None or not findings:
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
            "gpu": evidence.profile.gpu if evidence.profile else measured.gpu if measured else None,
            "function": evidence.profile.function if evidence.profile else None,
            "arch": anatomy.arch if anatomy else None,
            "run": asdict(measured) if measured else None,
        },
        "launch": asdict(evidence.launch) if evidence.launch else None,
        "account": asdict(account) if account else None,
        "gain": measured.gain if measured else None,
        "findings": [_finding(finding) for finding in findings],
        "next": shlex.join(_next(evidence, findings)),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    experiment = {"command": shlex.join(finding.experiment.command), "why": finding.experiment.why}
    return {**asdict(finding), "experiment": experiment}


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
            **asdict(each),
            "meaning": finding.meaning,
            "try": shlex.join(finding.experiment.command),
        }
        for each in finding.facts
    ]
